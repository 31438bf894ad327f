package session

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/companion"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// Opening is the input for opening a platform.
type Opening struct {
	Experiment *experiment.Experiment
	Results    string       // the run's directory
	Version    string       // of tare
	Note       func(string) // receives lines for the user
}

// Opened is a platform with everything that belongs to it.
type Opened struct {
	Platform    platform.Platform
	Meter       meter.Meter
	Timing      runner.Timing
	Environment result.Environment // of the place where the trials run
	// End removes what the run shares between its trials. Nil removes nothing.
	End func(context.Context) error
}

// Run is a study with an open platform and results directory.
type Run struct {
	*Opened
	Dir *result.Dir

	study      *Study
	generators map[string]generator.Generator // by the level of the factor generator
	notices    *notices
}

// Results returns the directory of a new run: out, by default one below runs/.
func (s *Study) Results(out string) string {
	return cmp.Or(out, newDir(s.Experiment.Metadata.Name, time.Now().UTC()))
}

// Open finds the programs and secrets of a study. Then it opens the platform, and the directory of a new run, or with resume the directory of an earlier one. An error leaves no directory behind.
func (s *Study) Open(ctx context.Context, path string, resume bool) (*Run, error) {
	generators, err := s.generators()
	if err != nil {
		return nil, err
	}
	if err := generator.Missing(generator.FindAll(ctx, used(s.Plan, generators))); err != nil {
		return nil, err
	}
	if err := runner.CheckSecrets(s.Experiment); err != nil {
		return nil, err
	}
	n := &notices{note: s.Program.Note}
	on, err := s.Program.platform(s.Experiment.Platform.Kind).Open(ctx, Opening{Experiment: s.Experiment, Results: path, Version: s.Program.Version, Note: n.post})
	if err != nil {
		return nil, err
	}
	if err := runner.Refused(s.Experiment, s.Meshes, on.Platform); err != nil {
		return nil, err
	}
	dir, err := s.openResults(path, resume, on.Environment)
	if err != nil {
		return nil, err
	}
	s.ReadTrialTimes(filepath.Dir(path))
	return &Run{Opened: on, Dir: dir, study: s, generators: generators, notices: n}, nil
}

// generators returns the load generators of an experiment, by the level of the factor generator.
func (s *Study) generators() (map[string]generator.Generator, error) {
	all := s.Program.GeneratorsByName()
	if s.Experiment.Platform.Kind != mesh.OnKubernetes || s.Experiment.Outside() {
		return all, nil
	}
	return s.Program.Kubernetes.Generators(s.Experiment, all)
}

func used(p *plan.Plan, all map[string]generator.Generator) (used []generator.Generator) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(p.Treatments, func(t plan.Treatment) bool { return t.Levels.Generator == name }) {
			used = append(used, all[name])
		}
	}
	return used
}
