package kubernetes

import (
	"cmp"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/kube/internal/platform/kube"
)

// generatorsInImages replaces programs by those in images: the load is sent from the cluster.
func generatorsInImages(x *experiment.Experiment, all map[string]generator.Generator) (map[string]generator.Generator, error) {
	images, err := generatorImages(x)
	if err != nil {
		return nil, err
	}
	for name, g := range all {
		if !g.Abilities().Foreign() {
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
		all[name] = generator.Elsewhere(g, in)
	}
	return all, nil
}

// generatorImages are the images of load generators: the built-in ones, with the changes of the experiment.
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
