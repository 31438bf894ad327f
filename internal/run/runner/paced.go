package runner

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
)

const (
	// warmupRefreshes is the least warm-up in refreshes of the counters: one refresh
	// lies then within the load and before the measure phase, with half to spare.
	warmupRefreshes = 1.5
	// ramp is how long after its beginning the load has its rate for certain.
	ramp = time.Second
	// looksPerRefresh is how often the counters are asked for between two refreshes.
	looksPerRefresh = 4
	// shortRefreshes is a measure phase, in refreshes, that may end with no refresh
	// in it: the load then goes on until one has come.
	shortRefreshes = 2
	// asking is how long it may take until every node of a cluster has told its counters.
	asking = time.Second
	// promptly read is a counter that was read so soon after an edge that no refresh stands between.
	promptly = 200 * time.Millisecond
)

// PacedPhases is what becomes of the phases of x where counters are refreshed
// only so often: the warm-up is raised, so that each counter is refreshed under
// load before the measure phase, and a tail is added to a short measure phase, so
// that each is refreshed again under the same load.
func PacedPhases(x experiment.Phases, refresh time.Duration) (warmup, tail time.Duration) {
	warmup = max(time.Duration(x.Warmup), time.Duration(warmupRefreshes*float64(refresh)))
	if time.Duration(x.Measure) < shortRefreshes*refresh {
		tail = refresh
	}
	return warmup, tail + asking
}

const (
	// usualUnrest is how much CPU under one and the same load differs between two refreshes of its counter.
	usualUnrest = 0.05
	// wantedError of CPU per request is that beyond which a measure phase counts as short.
	wantedError = 0.02
)

// LeastMeasure is the measure phase from which on CPU per request is off by no
// more than 2 % because of when its counters were refreshed: readings lie half a
// refresh from each edge at most, so that one refresh of the phase is measured
// beside it, where CPU differs by 5 % as a rule. 0: any length will do.
func LeastMeasure(refresh time.Duration) time.Duration {
	return time.Duration(float64(refresh) * usualUnrest / wantedError).Round(time.Second)
}

// ShortMeasure says that the measure phase is too short for its counters; empty: it is not.
func ShortMeasure(x experiment.Phases, refresh time.Duration) string {
	least := LeastMeasure(refresh)
	measure := time.Duration(x.Measure)
	if measure >= least {
		return ""
	}
	return fmt.Sprintf("counters are refreshed every %v at least, and a measure phase of %v is short for that: CPU per request may be off by %.0f %%, and by 2 %% or less from %v on",
		refresh, measure, 100*usualUnrest*min(1, float64(refresh)/float64(measure)), least)
}

// PacedExtra is about how much longer a trial takes where counters are refreshed only so often.
func PacedExtra(x experiment.Phases, refresh time.Duration) time.Duration {
	warmup, tail := PacedPhases(x, refresh)
	// Coming to rest takes two refreshes before the load, and two after it.
	return warmup - time.Duration(x.Warmup) + tail + 4*refresh
}

// refresh is how often the deployment's counters are refreshed; 0: whenever they are read.
func (t *trial) refresh() time.Duration {
	if !t.paced() {
		return 0
	}
	return t.deployment.CounterRefresh.Refresh()
}

// paced says that the counters carry times of their own, by which they are used.
func (t *trial) paced() bool { return t.deployment.CounterRefresh != nil }

// pace fits the schedule of the load to the counters.
func (t *trial) pace() {
	if !t.paced() {
		return
	}
	refresh := t.refresh()
	warmup, tail := PacedPhases(t.Experiment.Phases, refresh)
	t.profile.Tail = max(t.profile.Tail, tail)
	if short := ShortMeasure(t.Experiment.Phases, refresh); short != "" {
		t.warn(result.Warning{Code: "measure-short", Message: short, Metrics: cpus,
			Hint: fmt.Sprintf("set phases.measure to %v or more", LeastMeasure(refresh))})
	}
	if warmup <= t.profile.Warmup {
		return
	}
	t.profile.Warmup = warmup
	t.warn(result.Warning{Code: "warm-up-raised",
		Message: fmt.Sprintf("the counters are refreshed every %v at least: the warm-up was %v in place of the %v asked for, so that each was refreshed under load before the measure phase",
			refresh, warmup, time.Duration(t.Experiment.Phases.Warmup)),
		Hint: fmt.Sprintf("set phases.warmup to %v or more", warmup)})
}

// measurePaced looks at the counters until the end of the measure phase, and
// beyond it as long as the load goes on, until each was refreshed.
func (t *trial) measurePaced(ctx context.Context) error {
	if err := t.sampler.look(ctx, meter.Edge); err != nil {
		return err
	}
	begin, first, stages := t.sampler.last, t.sampler.tasks, t.stageTimes(ctx)
	if err := t.duringMeasure(ctx, nil); err != nil {
		return err
	}
	if err := t.sampler.look(ctx, meter.Edge); err != nil {
		return err
	}
	end, then := t.sampler.last, t.sampler.tasks
	t.keepStages(stages, t.stageTimes(ctx))
	last := t.edges.end.Add(t.profile.Tail)
	for next := time.Now(); !t.covered() && next.Before(last); {
		next = next.Add(t.lookPeriod())
		if err := await(ctx, next); err != nil {
			return err
		}
		if err := t.sampler.look(ctx, meter.Edge); err != nil {
			return err
		}
	}
	t.usePaced(first, then, begin, end)
	if err := t.endFaults(ctx); err != nil {
		return err
	}
	return t.broken()
}

// relist lists the tasks anew where faults end some and others take their place.
func (t *trial) relist(ctx context.Context) error {
	if len(t.Experiment.Faults) == 0 || !t.paced() {
		return nil
	}
	if err := t.sampler.list(ctx); err != nil {
		return err
	}
	for _, task := range t.sampler.listed {
		if task.Restarted && !lists(t.sampler.reborn, task.ID) {
			t.sampler.reborn = append(t.sampler.reborn, task)
		}
	}
	return nil
}

// lookPeriod is the time between two looks at every task.
func (t *trial) lookPeriod() time.Duration {
	return max(samplePeriod, t.refresh()/looksPerRefresh)
}

// rest waits until application and data plane are idle: below the thresholds of
// phases.idle between two refreshes that both came after it began to wait. Where
// they are not it says what they did.
func (t *trial) rest(ctx context.Context) (idle bool, did string, err error) {
	limits := t.Experiment.Phases.Idle
	deadline := time.Now().Add(time.Duration(limits.Deadline))
	began := t.clock.now()
	for {
		if err := t.sampler.list(ctx); err != nil {
			return false, "", err
		}
		if err := t.sampler.look(ctx, meter.Counters); err != nil {
			return false, "", err
		}
		cores, memory, known := t.resting(began)
		if known && cores < limits.CPU && (limits.Memory == 0 || memory <= int64(limits.Memory)) {
			return true, "", nil
		}
		if time.Now().After(deadline) {
			return false, atWork(cores, memory, known), nil
		}
		if err := t.broken(); err != nil {
			return false, "", err
		}
		if err := await(ctx, time.Now().Add(max(samplePeriod, t.lookPeriod()/2))); err != nil {
			return false, "", err
		}
	}
}

// atWork says what application and data plane do.
func atWork(cores float64, memory int64, known bool) string {
	if !known {
		return "their counters were not refreshed meanwhile"
	}
	return fmt.Sprintf("they used %.2f cores and held %.0f MiB", cores, float64(memory)/(1<<20))
}

// resting is what application and data plane used between their last two
// refreshes since a moment, and hold; not known as long as one has fewer.
func (t *trial) resting(since time.Time) (cores float64, memory int64, known bool) {
	for _, task := range t.sampler.tasks {
		if task.Plane != metric.App && task.Plane != metric.Data {
			continue
		}
		all := t.sampler.history.tasks[task.ID]
		n := len(all)
		if n < 2 || all[n-1].At.Before(since) {
			return 0, 0, false
		}
		cores += float64(all[n-1].CPU-all[n-2].CPU) / float64(all[n-1].At.Sub(all[n-2].At))
		memory += all[n-1].RSS
	}
	return cores, memory, true
}

// settlePaced is [trial.settle] where counters are refreshed only so often: the
// study's state STARTING.
func (t *trial) settlePaced(ctx context.Context) error {
	runtime.GC() // what tare itself left behind is collected now, not while it measures
	t.sampler = sampler{trial: t}
	idle, did, err := t.rest(ctx)
	if err != nil || idle {
		return err
	}
	t.warn(result.Warning{Code: "not-settled",
		Message: fmt.Sprintf("application and data plane were not idle %v after they were up, without any load: %s", t.Experiment.Phases.Idle.Deadline, did),
		Hint:    "raise phases.idle.deadline or its thresholds, or see in the trial's provenance what they are doing"})
	return nil
}

// calm waits after the load until application and data plane are idle: the study's state DRAINING.
func (t *trial) calm(ctx context.Context) error {
	if !t.paced() {
		return nil
	}
	idle, did, err := t.rest(ctx)
	if err != nil || idle {
		return err
	}
	t.warn(result.Warning{Code: "not-drained",
		Message: fmt.Sprintf("application and data plane were not idle %v after the load: %s", t.Experiment.Phases.Idle.Deadline, did),
		Hint:    "see in the trial's provenance what they are doing", Metrics: []string{metric.CPUCores}})
	return nil
}
