package session

import (
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

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
