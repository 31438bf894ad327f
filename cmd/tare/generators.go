package main

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load/generator"
	"github.com/tare-mesh/tare/internal/run/platform/kube"
)

// generatorImages are the images of generators in a cluster: those that are known, with what the experiment says.
func generatorImages(x *experiment.Experiment) (map[string]kube.GeneratorImage, error) {
	all, err := kube.GeneratorImages()
	if err != nil {
		return nil, err
	}
	for name, chosen := range x.Platform.Images {
		if chosen.Image == experiment.ProgramsImage {
			delete(all, name)
			continue
		}
		all[name] = kube.GeneratorImage{Image: chosen.Image, Path: cmp.Or(chosen.Path, all[name].Path), User: all[name].User}
	}
	return all, nil
}

// generatorsOf are the load generators by the level of the factor generator, as they are to be had where the experiment
// sends its load from: in a cluster their programs are in images, and not looked for on this machine.
func (c *cli) generatorsOf(x *experiment.Experiment) (map[string]generator.Generator, error) {
	all := c.catalog.byName()
	if x.Platform.Kind != "kubernetes" || x.Outside() {
		return all, nil
	}
	images, err := generatorImages(x)
	if err != nil {
		return nil, err
	}
	for name, g := range all {
		foreign, ok := g.(generator.Foreign)
		if !ok {
			continue
		}
		in := "in the image of tare-agent"
		if i, ok := images[name]; ok {
			in = "image " + i.Reference()
			switch digest := x.Platform.Digests[i.Image]; {
			case digest != "":
				in += ", held to " + digest
			case i.Digest == "":
				in += " (by its tag)"
			}
		}
		all[name] = generator.Elsewhere(foreign, in)
	}
	return all, nil
}

// used are the generators of the study's treatments.
func (s *study) used(all map[string]generator.Generator) (used []generator.Generator) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(s.plan.Treatments, func(t plan.Treatment) bool { return t.Levels.Generator == name }) {
			used = append(used, all[name])
		}
	}
	return used
}
