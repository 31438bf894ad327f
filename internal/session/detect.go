package session

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
)

// PilotBlocks is the number of blocks of a pilot: the fewest that give three degrees of freedom.
const PilotBlocks = 4

// mostEarlier bounds the earlier runs that are read.
const mostEarlier = 20

// Earlier opens the named runs, or the runs in runs/ of the same experiment and machine.
func (s *Study) Earlier(named []string) (runs []*result.Dir, err error) {
	now, err := s.conditions()
	if err != nil {
		return nil, err
	}
	paths := named
	if len(named) == 0 {
		plans, err := filepath.Glob(filepath.Join(result.RunsDir, "*", result.PlanFile))
		if err != nil {
			return nil, err
		}
		for _, p := range plans {
			paths = append(paths, filepath.Dir(p))
		}
	}
	for _, p := range slices.Backward(paths) { // names end with their time: the newest first
		d, err := result.Open(p)
		if err != nil {
			if len(named) > 0 {
				return runs, err
			}
			continue // a directory of another kind is not searched for
		}
		obstacles, err := compare.ConditionsOf(d).Obstacles(now)
		if err != nil || len(obstacles) > 0 || d.Plan().Experiment != s.Plan.Experiment || len(runs) == mostEarlier {
			d.Close()
			if len(named) > 0 && len(obstacles) > 0 {
				return runs, hint.Usage(fmt.Errorf("%s was run under other conditions: %s", p, obstacles[0]), "plan from a run of this experiment on this machine")
			}
			continue
		}
		runs = append(runs, d)
	}
	return runs, nil
}

// conditions returns the conditions of a run that would begin now on this machine.
func (s *Study) conditions() (compare.Conditions, error) {
	text, err := s.Experiment.YAML()
	if err != nil {
		return compare.Conditions{}, err
	}
	env := meter.Host()
	env.Platform = s.Experiment.Platform.Kind
	if env.Meshes, err = s.meshDigests(); err != nil {
		return compare.Conditions{}, err
	}
	return compare.Conditions{Name: "the plan", Environment: env, Experiment: text}, nil
}

// BlockTime returns the expected time of a block.
func (s *Study) BlockTime() time.Duration {
	return s.Plan.TrialTime * time.Duration(len(s.Plan.Treatments))
}

// Pilot returns the study with [PilotBlocks] blocks.
func (s *Study) Pilot() (*Study, error) {
	x := *s.Experiment
	x.Blocks = experiment.Fixed(PilotBlocks)
	p, err := plan.Expand(&x)
	if err != nil {
		return nil, err
	}
	return &Study{Program: s.Program, Experiment: &x, Plan: p, Meshes: s.Meshes}, nil
}

// aaWarmup is the warm-up of the A/A run's trials.
const aaWarmup = time.Second

// AgainstItself returns s cut down to its first baseline and that baseline's control.
func (s *Study) AgainstItself(blocks int, measure time.Duration) (*Study, error) {
	x := *s.Experiment
	x.Phases.Warmup, x.Phases.Measure, x.Phases.Soak = experiment.Duration(aaWarmup), experiment.Duration(measure), 0
	x.Blocks, x.Control, x.Faults, x.Expect = experiment.Fixed(blocks), true, nil, nil
	trial := aaWarmup + measure + time.Duration(x.Phases.Drain) + plan.Allowance
	p, err := s.Plan.AA(firstBaseline(s.Plan), &x, blocks, trial)
	if err != nil {
		return nil, err
	}
	return &Study{Program: s.Program, Experiment: &x, Plan: p, Meshes: s.Meshes}, nil
}

// firstBaseline returns the first treatment that others are compared with, or else the first of all.
func firstBaseline(p *plan.Plan) string {
	for _, t := range p.Treatments {
		if t.Baseline != "" {
			return t.Baseline
		}
	}
	return p.Treatments[0].ID
}
