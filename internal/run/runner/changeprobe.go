package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// changeProbe are requests beside the load, at a rate of their own, whose answers show the effect of changes. They begin and end
// with the load, and are in none of its figures. Its methods do nothing without a probe.
type changeProbe struct {
	load    *loadRun
	loading *loading // nil before it is started
}

func (p *changeProbe) asked() bool { return p.load.setup.Experiment.Changes.Probe.Rate > 0 }

// launch starts the probe, and returns when it is ready.
func (p *changeProbe) launch(ctx context.Context) error {
	if !p.asked() {
		return nil
	}
	profile, err := withSecrets(p.profile())
	if err != nil {
		return err
	}
	if p.loading, err = startLoad(ctx, p.load.deployment, generator.Tare{Agent: generator.AgentPath()}, profile, func(load.Progress) {}); err != nil {
		return fmt.Errorf("changes.probe: %w", err)
	}
	return p.loading.awaitReady(ctx, p.load.setup.Timing.Deploy)
}

// profile is the load's, with the rate and the connections of the probe.
func (p *changeProbe) profile() load.Profile {
	of, probe := p.load.setup.Experiment.Changes.Probe, p.load.base()
	probe.Rate, probe.Connections, probe.ConnectionRate, probe.Workers = of.Rate, of.Connections, 0, 1
	probe.Arrivals = load.Constant
	probe.Warmup, probe.Tail = p.load.profile.Warmup, p.load.profile.Tail
	probe.AnswersPath, probe.Hold = p.load.answers, true
	return probe
}

// release lets the probe begin with the load.
func (p *changeProbe) release(start time.Time) error {
	if p.loading == nil {
		return nil
	}
	return p.loading.release(start)
}

// early returns an error if the probe ended before the end of the measure phase.
func (p *changeProbe) early(end time.Time) error {
	if p.loading == nil {
		return nil
	}
	if err := p.loading.early(end); err != nil {
		return fmt.Errorf("changes.probe: %w", err)
	}
	return nil
}

// result waits for the end of the probe. It is nil without one.
func (p *changeProbe) result(ctx context.Context, deadline time.Time) (*result.ChangeProbe, error) {
	if p.loading == nil {
		return nil, nil
	}
	l, err := p.loading.wait(ctx, deadline)
	if err != nil {
		return nil, fmt.Errorf("changes.probe: %w", err)
	}
	of := p.load.setup.Experiment.Changes.Probe
	return &result.ChangeProbe{Rate: of.Rate, Connections: of.Connections, Completed: l.Completed, Whole: l.Whole}, nil
}

func (p *changeProbe) stop(ctx context.Context, grace time.Duration) {
	if p.loading != nil {
		p.loading.stop(ctx, grace)
	}
}
