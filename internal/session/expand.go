package session

import (
	"maps"
	"slices"
	"time"

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

// prolong adds what the platform takes to p's expected times.
func (v Platform) prolong(x *experiment.Experiment, p *plan.Plan) {
	more := v.Overhead
	if refresh := v.refreshOf(x); refresh > 0 {
		more += runner.RefreshExtra(x.Phases, refresh)
	}
	p.TrialTime += more
	p.Expected += more * time.Duration(len(p.Trials))
}

// MeshChange is about how long it takes to install a mesh, or to uninstall it and check that nothing is left.
const MeshChange = 20 * time.Second

// addMeshChanges adds the time to install and uninstall meshes, in the order of p's trials, to p's expected time. Meshes of
// rounds stay installed beside each other.
func addMeshChanges(meshes map[string]mesh.Definition, p *plan.Plan) {
	of := map[string]string{}
	for _, t := range p.Treatments {
		if d := meshes[t.Levels.Mesh]; d.Kubernetes != nil {
			of[t.ID] = d.Name
		}
	}
	change := func() {
		p.Expected += MeshChange
		p.MeshChanges++
	}
	installed := map[string]bool{}
	for _, t := range append(slices.Clone(p.Trials), plan.Trial{}) {
		next := of[t.Treatment]
		for name := range installed {
			if t.Round == 0 && name != next {
				delete(installed, name)
				change()
			}
		}
		if next != "" && !installed[next] {
			installed[next] = true
			change()
		}
	}
}
