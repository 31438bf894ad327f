package cli

import (
	"maps"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// generatorsOf are the load generators of an experiment, by the level of the factor generator.
func (c *CommandLine) generatorsOf(x *experiment.Experiment) (map[string]generator.Generator, error) {
	all := c.catalog.byName()
	if x.Platform.Kind != mesh.OnKubernetes || x.Outside() {
		return all, nil
	}
	return c.kubernetes.Generators(x, all)
}

// used are the generators of the study's treatments.
func (s *Study) used(all map[string]generator.Generator) (used []generator.Generator) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(s.Plan.Treatments, func(t plan.Treatment) bool { return t.Levels.Generator == name }) {
			used = append(used, all[name])
		}
	}
	return used
}
