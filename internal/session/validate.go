package session

import (
	"errors"
	"fmt"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// validate expands the experiment to its plan, and returns why it cannot be run.
func (s *Study) validate(file string) error {
	if err := s.changeMeshes(); err != nil {
		return hint.InvalidFile(err)
	}
	for i, text := range s.Experiment.Decide.Gates {
		if _, err := analysis.ParseGate(text); err != nil {
			return hint.InvalidFile(hint.Wrap(fmt.Errorf("%s: decide.gates[%d]: %w", file, i, err), hint.Of(err)))
		}
	}
	var err error
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
	find := func(name string) (mesh.Definition, bool) { d, ok := s.Meshes[name]; return d, ok }
	var changed []mesh.Definition
	for _, name := range experiment.ChangedMeshes(s.Experiment) {
		d, err := s.Experiment.Definition(name, find)
		if err != nil {
			return err
		}
		changed = append(changed, d)
	}
	for _, d := range changed {
		s.Meshes[d.Name] = d
	}
	return nil
}

// CheckSource refuses an application whose pods cannot start.
func (s *Study) CheckSource() error {
	if s.Experiment.Application.Objects == nil {
		return nil
	}
	fatal := s.Experiment.Application.Objects.Fatal()
	if len(fatal) == 0 {
		return nil
	}
	var all []error
	for _, n := range fatal {
		all = append(all, errors.New(printable.Line(n.String())))
	}
	return hint.Usage(fmt.Errorf("pods of the application cannot start: %w", errors.Join(all...)), fatal[0].Hint)
}
