package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/load/loadgen"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/fault"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// planFaults makes the trial's timeline of faults, empty where there are none.
func (t *trial) planFaults() error {
	entry := t.topology.Entry
	if entry == "" {
		entry = t.topology.Services[0].Name
	}
	var err error
	t.faults, err = fault.New(t.Experiment.Faults, t.of.Seed, entry, t.deployment, t.clock.now, t.emit)
	return err
}

// endFaults records what was injected and heals what still holds requests up:
// those under way are waited for next.
func (t *trial) endFaults(ctx context.Context) error {
	t.record.Faults = t.faults.Injected()
	return t.faults.Heal(ctx, false)
}

// endedTasks are the tasks that faults have ended, by their ID.
func (t *trial) endedTasks() map[string]platform.Ended {
	ended := map[string]platform.Ended{}
	if t.deployment.EndedTasks == nil {
		return ended
	}
	for _, e := range t.deployment.EndedTasks.Ended() {
		ended[e.ID] = e
	}
	return ended
}

// departed is the usage of a task that a fault ended: its counters stand where they
// stood when it did, to the end of the measure phase.
func (t *trial) departed(e platform.Ended, begin meter.Look) result.TaskUsage {
	u := result.TaskUsage{Task: e.Task.Task, Ended: true, Start: begin.Tasks[e.ID]}
	if e.Restarted {
		u.Start = t.unborn(e.ID, begin)
	} else if _, ok := begin.Tasks[e.ID]; !ok {
		u.Missing = "not read at the beginning, and ended by a fault"
	}
	none := int64(0)
	u.End = result.Reading{At: t.clock.steady(t.edges.end), CPU: int64(e.CPU), Peak: e.Peak, PSS: &none,
		Voluntary: e.Voluntary, Involuntary: e.Involuntary}
	// The kernel tells the whole of a process to the microsecond, the clock at the
	// beginning to the nanosecond: one that did nothing must not come out below nothing.
	u.End.CPU = max(u.End.CPU, u.Start.CPU)
	return u
}

// unborn is what a task stood at that was started in place of another: nothing, unless it was there already.
func (t *trial) unborn(id string, begin meter.Look) result.Reading {
	if r, ok := begin.Tasks[id]; ok {
		return r
	}
	return result.Reading{At: t.clock.steady(t.edges.begin)}
}

// expect evaluates what is expected of the trial on its seconds.
func (t *trial) expect() {
	if len(t.Experiment.Expect) == 0 {
		return
	}
	seen, err := t.secondsOf()
	for _, text := range t.Experiment.Expect {
		o := expect.Outcome{Expect: text}
		condition, bad := expect.Parse(text)
		switch {
		case bad != nil: // the file was checked: this is a file of another tare
			o.Detail = bad.Error()
		case err != nil:
			o.Detail = err.Error()
		default:
			o = condition.Evaluate(seen)
		}
		t.record.Expectations = append(t.record.Expectations, o)
		if !o.OK {
			t.emit(result.Event{Kind: result.KindLog, Message: fmt.Sprintf("does not hold: %s: %s", o.Expect, o.Detail)})
		}
	}
}

// secondsOf reads the seconds of the measure phase, and the faults in it.
func (t *trial) secondsOf() (expect.Trial, error) {
	l := t.record.Load
	first, n := l.Window()
	seconds, err := loadgen.Seconds(t.dir.Path(result.LatencyFile), first, n)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("generator %s keeps no latencies by the second: %w", l.Generator, errors.ErrUnsupported)
	}
	return expect.Trial{Seconds: seconds, Status: l.Statuses, Faults: t.record.FaultTimes()}, err
}

// countMesh adds what the data plane has counted so far, times sign, to the
// record: once before the load and once after it. It costs the proxies some work,
// which lies outside of the measure phase, and is done only where faults make it worth knowing.
func (t *trial) countMesh(ctx context.Context, sign int64) {
	if t.deployment.MeshCounters == nil || len(t.Experiment.Faults) == 0 {
		return
	}
	counters, err := t.deployment.MeshCounters.MeshCounters(ctx)
	if err != nil {
		t.warn(result.Warning{Code: "mesh-uncounted", Message: fmt.Sprintf("the data plane's counters could not be read: %v", err),
			Metrics: []string{metric.MeshRetries, metric.MeshTimeouts}})
		return
	}
	for name, n := range counters {
		if t.record.MeshCounters == nil {
			t.record.MeshCounters = map[string]int64{}
		}
		t.record.MeshCounters[name] += sign * n
		if sign > 0 { // a proxy that was started again has counted from nothing
			t.record.MeshCounters[name] = max(0, t.record.MeshCounters[name])
		}
	}
}
