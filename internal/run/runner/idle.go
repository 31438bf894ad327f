package runner

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// idleWait waits until application and data plane are idle.
type idleWait struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	sampler    *sampler
}

const (
	// settled is the CPU of application and data plane, in cores, below which they are idle.
	settled = 0.05
	// settleLook is the time between two readings of it.
	settleLook = 100 * time.Millisecond
)

// settle waits until the deployment is idle, for no longer than the limit.
func (w *idleWait) settle(ctx context.Context) error {
	if w.sampler.refreshed() {
		return w.settleRefreshed(ctx)
	}
	runtime.GC() // tare's own garbage is collected now, not during the measurement
	limit := w.setup.Timing.Settle
	deadline := time.Now().Add(limit)
	tasks, err := w.deployment.Tasks(ctx)
	if err != nil {
		return err
	}
	before, err := w.setup.Meter.Read(ctx, tasks, meter.Counters)
	if err != nil {
		return err
	}
	for {
		if err := await(ctx, time.Now().Add(settleLook)); err != nil {
			return err
		}
		after, err := w.setup.Meter.Read(ctx, tasks, meter.Counters)
		if err != nil {
			return err
		}
		cores := coresByPlane(tasks, before, after)
		if c := cores[string(metric.App)] + cores[string(metric.Data)]; c < settled {
			w.keep(after.Tasks)
			return nil
		} else if time.Now().After(deadline) {
			w.keep(nil)
			w.journal.warn(result.Warning{Code: "not-settled",
				Message: fmt.Sprintf("application and data plane still used %.2f cores %v after they were ready, without a load", c, limit),
				Hint:    "raise phases.warmup, or see their logs in the trial's provenance directory"})
			return nil
		}
		before = after
	}
}

// settleRefreshed is [idleWait.settle] for counters with a refresh interval.
func (w *idleWait) settleRefreshed(ctx context.Context) error {
	runtime.GC() // tare's own garbage is collected now, not during the measurement
	w.sampler.reset(history{})
	idle, usage, err := w.awaitIdle(ctx)
	if idle {
		last := map[string]result.Reading{}
		for _, task := range w.sampler.tasks {
			if all := w.sampler.history.tasks[task.ID]; len(all) > 0 {
				last[task.ID] = all[len(all)-1]
			}
		}
		w.keep(last)
	}
	if err != nil || idle {
		return err
	}
	w.keep(nil)
	w.journal.warn(result.Warning{Code: "not-settled",
		Message: fmt.Sprintf("application and data plane were not idle %v after they were ready, without a load: %s", w.setup.Experiment.Phases.Idle.Deadline, usage),
		Hint:    "raise phases.idle.deadline or its thresholds, or see their logs in the trial's provenance directory"})
	return nil
}

// keep keeps the resident memory of idle tasks, nil if they were not idle. After a search they have had a load, so
// that only the first call counts.
func (w *idleWait) keep(readings map[string]result.Reading) {
	if w.journal.idle != nil {
		return
	}
	w.journal.idle = map[string]int64{}
	for id, r := range readings {
		w.journal.idle[id] = r.RSS
	}
}

// drained waits after the load until application and data plane are idle.
func (w *idleWait) drained(ctx context.Context) error {
	if !w.sampler.refreshed() {
		return nil
	}
	idle, usage, err := w.awaitIdle(ctx)
	if err != nil || idle {
		return err
	}
	w.journal.warn(result.Warning{Code: "not-drained",
		Message: fmt.Sprintf("application and data plane were not idle %v after the load: %s", w.setup.Experiment.Phases.Idle.Deadline, usage),
		Hint:    "see their logs in the trial's provenance directory", Metrics: []string{metric.CPUCores}})
	return nil
}

// awaitIdle waits until application and data plane are idle: below the limits of phases.idle between
// two refreshes, both after rest began. If they are not idle by the deadline, usage describes
// their activity.
func (w *idleWait) awaitIdle(ctx context.Context) (idle bool, usage string, err error) {
	limits := w.setup.Experiment.Phases.Idle
	deadline := time.Now().Add(time.Duration(limits.Deadline))
	began := w.setup.clock.now()
	for {
		if err := w.sampler.list(ctx); err != nil {
			return false, "", err
		}
		if err := w.sampler.look(ctx, meter.Counters); err != nil {
			return false, "", err
		}
		cores, memory, known := w.resting(began)
		if known && cores < limits.CPU && (limits.Memory == 0 || memory <= int64(limits.Memory)) {
			return true, "", nil
		}
		if time.Now().After(deadline) {
			return false, atWork(cores, memory, known), nil
		}
		if err := broken(w.deployment); err != nil {
			return false, "", err
		}
		if err := await(ctx, time.Now().Add(max(samplePeriod, w.sampler.period()/2))); err != nil {
			return false, "", err
		}
	}
}

// atWork describes the activity of application and data plane.
func atWork(cores float64, memory int64, known bool) string {
	if !known {
		return "their counters were not refreshed in that time"
	}
	return fmt.Sprintf("they used %.2f cores and %.0f MiB", cores, float64(memory)/(1<<20))
}

// resting returns the CPU of application and data plane between their last two refreshes after
// since, and their memory. known is false until each task has two refreshes.
func (w *idleWait) resting(since time.Time) (cores float64, memory int64, known bool) {
	for _, task := range w.sampler.tasks {
		if task.Plane != metric.App && task.Plane != metric.Data {
			continue
		}
		all := w.sampler.history.tasks[task.ID]
		n := len(all)
		if n < 2 || all[n-1].At.Before(since) {
			return 0, 0, false
		}
		cores += float64(all[n-1].CPU-all[n-2].CPU) / float64(all[n-1].At.Sub(all[n-2].At))
		memory += all[n-1].RSS
	}
	return cores, memory, true
}

// coresByPlane is the CPU of each plane between two readings.
func coresByPlane(tasks []platform.Task, before, after meter.Look) map[string]float64 {
	cores := map[string]float64{}
	for _, task := range tasks {
		b, ok := before.Tasks[task.ID]
		a, ok2 := after.Tasks[task.ID]
		if wall := a.At.Sub(b.At); ok && ok2 && wall > 0 {
			cores[string(task.Plane)] += float64(a.CPU-b.CPU) / float64(wall)
		}
	}
	return cores
}
