package session

import (
	"maps"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// expand makes the plan of a valid experiment. It returns why the treatments cannot be run.
func (s *Study) expand() (err error) {
	if err := s.changeMeshes(); err != nil {
		return hint.InvalidFile(err)
	}
	if s.Plan, err = plan.Expand(s.Experiment); err != nil {
		return err
	}
	generators := s.Program.GeneratorsByName()
	if err := runner.Suited(s.Experiment, s.Plan, generators); err != nil {
		return err
	}
	runner.Prolong(s.Experiment, s.Plan, generators)
	s.Program.platform(s.Experiment.Platform.Kind).prolong(s.Experiment, s.Plan)
	if s.Experiment.Platform.Kind == mesh.OnKubernetes {
		addMeshChanges(s.Meshes, s.Plan)
	}
	return nil
}

// changeMeshes adds the variants of the file to the definitions, and replaces definitions that the file changes.
func (s *Study) changeMeshes() error {
	changed := map[string]mesh.Definition{}
	for _, name := range experiment.ChangedMeshes(s.Experiment) {
		d, err := s.Experiment.Definition(name, s.Meshes)
		if err != nil {
			return err
		}
		changed[d.Name] = d
	}
	maps.Copy(s.Meshes, changed)
	return nil
}
