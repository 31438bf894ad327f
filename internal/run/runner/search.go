package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// searches reports whether the trial finds its rate by a search.
func (t *trial) searches() bool { return t.setup.treatment.Levels.Capacity.Objective != "" }

// search finds the highest rate with the objective. Its probes precede every reading of counters, so
// that they are in no figure of the measure phase. They run as the load does: the same generator, at
// the same place.
func (t *trial) search(ctx context.Context) error {
	c := t.setup.treatment.Levels.Capacity
	found, err := capacity.Find(ctx, capacity.Options{Objective: c.Objective, Probes: c.Probes, Length: time.Duration(c.Length), Seed: t.setup.of.Seed}, t.load.probe)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("search for the highest rate that meets %s: %w", c.Objective, err)
	}
	if err := t.judgeSearch(found); err != nil {
		return err
	}
	t.found, t.load.rate = &found, float64(c.Share)*found.Rate
	rate, low, high := found.Rounded()
	t.journal.emit(result.Event{Kind: result.KindLog, Message: fmt.Sprintf("%s: the highest rate that meets %s is %.0f requests/s (%.0f to %.0f); measuring at %v of it, %.0f",
		t.setup.of.Treatment, c.Objective, rate, low, high, c.Share, t.load.rate)})
	return t.idle.settle(ctx)
}

// judgeSearch returns an error if the search found no rate.
func (t *trial) judgeSearch(found capacity.Found) error {
	const hint = "`tare load --find-max` shows the probes of one search; reserve a CPU for the generator (platform.cpus), or use fewer connections"
	switch {
	case found.Rate == 0:
		return unusable("capacity-unknown", fmt.Sprintf("no probe shows whether %s holds: %s", found.Objective, found.Note), hint)
	case found.Open == capacity.OpenBelow:
		return unusable("capacity-unknown", fmt.Sprintf("no rate meets %s: even %.0f requests/s misses it", found.Objective, found.Rate), "loosen the objective")
	case found.Open == capacity.OpenAbove:
		t.journal.warn(result.Warning{Code: "capacity-open", Message: fmt.Sprintf("no probe missed %s: the highest rate is %.0f requests/s or more", found.Objective, found.Low),
			Hint: "tighten the objective, or raise load.connections", Withholds: true, Metrics: []string{metric.Capacity}})
	}
	return nil
}

// probe runs one load of a search. Its last answers arrive before it returns, so that none is counted
// by the counters of the trial.
func (lr *loadRun) probe(ctx context.Context, rate float64, length time.Duration) (capacity.Figures, error) {
	if err := broken(lr.deployment); err != nil {
		return capacity.Figures{}, err
	}
	lr.journal.emit(result.Event{Kind: result.KindSearch, Search: &result.Search{Probe: int(lr.probes), Probes: lr.setup.treatment.Levels.Capacity.Probes, Rate: rate}})
	lr.probes++
	p := lr.base()
	p.Rate, p.Warmup, p.Measure, p.Tail, p.Drain = rate, length/4, length, 0, p.Timeout
	p.Seed, p.Start = p.Seed+lr.probes, lr.soon()
	p, err := withSecrets(p)
	if err != nil {
		return capacity.Figures{}, err
	}
	if lr.loading, err = startLoad(ctx, lr.deployment, lr.setup.generator, p, func(load.Progress) {}); err != nil {
		return capacity.Figures{}, err
	}
	l, err := lr.loading.wait(ctx, p.Start.Add(p.Warmup+p.Measure+p.Drain+p.Timeout+lr.setup.Timing.Overtime))
	if gone := broken(lr.deployment); gone != nil { // a proxy answers for a program that has ended
		return capacity.Figures{}, gone
	}
	if err != nil {
		return capacity.Figures{}, err
	}
	if rate == 0 && l.Classes[string(load.OK)] == 0 {
		return capacity.Figures{}, fmt.Errorf("no request succeeded in a closed loop: %s", l.FailureText())
	}
	return l.Figures, nil
}
