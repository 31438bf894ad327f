package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// Study is an experiment file with everything it refers to.
type Study struct {
	Program    *Program
	Experiment *experiment.Experiment
	Plan       *plan.Plan
	Meshes     map[string]mesh.Definition // by name
	Drawn      bool                       // the file has no seed
	// NotInterleaved is why the default order is not interleaved, "" if it is, or the file has an order.
	NotInterleaved string
	// Times are the times by earlier trials, nil for the plan's.
	Times *TrialTimes
	// Notes about the file are for the person who runs it.
	Notes []string

	definitions []string // files of meshes
	unread      error    // why the objects of the application were not read
}

// PrewarmTime is the longest time that all loads before warm-ups take, which other times are without. They are for programs
// whose CPU of a request falls. 0: there are none.
func (s *Study) PrewarmTime() time.Duration {
	x := s.Experiment
	if x.Platform.Kind != mesh.OnLocal || len(x.Applications) == 0 && len(x.Application.Command) == 0 {
		return 0
	}
	return time.Duration(len(plan.Rounds(s.Plan.Trials))) * time.Duration(x.Phases.Prewarm)
}

func (s *Study) notef(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Topologies returns the applications under test by the level of the factor application, or by "" without that factor.
func (s *Study) Topologies() (map[string]app.Topology, error) {
	all := map[string]app.Topology{}
	for _, t := range s.Plan.Treatments {
		topology, err := s.Experiment.TopologyOf(t.Levels)
		if err != nil {
			return nil, err
		}
		all[t.Levels.Application] = topology
	}
	return all, nil
}

// meshDigests returns the SHA-256 of each definition in the plan: two runs may use one name for two definitions.
func (s *Study) meshDigests() (map[string]string, error) {
	digests := map[string]string{}
	for _, t := range s.Plan.Treatments {
		name := t.Levels.Mesh
		definition, ok := s.Meshes[name]
		if _, done := digests[name]; done || !ok {
			continue
		}
		b, err := json.Marshal(definition)
		if err != nil {
			return nil, fmt.Errorf("digest of mesh %s: %w", name, err)
		}
		sum := sha256.Sum256(b)
		digests[name] = hex.EncodeToString(sum[:])
	}
	return digests, nil
}

// Variants describes the variants in the plan, by name.
func (s *Study) Variants() map[string]string {
	all := map[string]string{}
	for _, t := range s.Plan.Treatments {
		if name := t.Levels.Mesh; s.Experiment.Meshes[name].From != "" {
			all[name] = s.Experiment.Variant(name)
		}
		if name := t.Levels.Application; s.Experiment.Applications[name].From != "" || !s.Experiment.Applications[name].ObjectChanges.IsZero() {
			all[name] = s.Experiment.ApplicationChanges(name)
		}
	}
	return all
}

// options returns the options of each mesh in the plan, chosen or by default.
func (s *Study) options() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, t := range s.Plan.Treatments {
		name := t.Levels.Mesh
		d := s.Meshes[name]
		switch {
		case s.Experiment.Platform.Kind == mesh.OnLocal && d.Local != nil:
			all[name] = d.Local.Sidecar.Chosen()
		case s.Experiment.Platform.Kind == mesh.OnKubernetes && d.Kubernetes != nil:
			if complete, err := d.Kubernetes.Complete(s.Experiment.MeshSettings(name).Settings()); err == nil {
				all[name] = complete.Options
			}
		}
	}
	return all
}

func (s *Study) provides() map[string]mesh.Provides {
	all := map[string]mesh.Provides{}
	for _, t := range s.Plan.Treatments {
		all[t.Levels.Mesh] = s.Meshes[t.Levels.Mesh].Provides
	}
	return all
}
