package runner

import (
	"context"
	"fmt"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/fault"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// faultPhase is the faults of one trial, and what the data plane counts because of them.
type faultPhase struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	timeline   *fault.Timeline // nil before the measure phase
}

// plan makes the trial's timeline of faults, empty where there are none.
func (f *faultPhase) plan() error {
	entry := f.setup.topology.Entry
	if entry == "" {
		entry = f.setup.topology.Services[0].Name
	}
	var err error
	f.timeline, err = fault.New(f.setup.Experiment.Faults, f.setup.of.Seed, entry, f.deployment, f.setup.clock.now, f.journal.emit)
	return err
}

// end records what was injected and heals what still holds requests up:
// those under way are waited for next.
func (f *faultPhase) end(ctx context.Context) error {
	f.journal.record.Faults = f.timeline.Injected()
	return f.timeline.Heal(ctx, false)
}

// countMesh adds what the data plane has counted so far, times sign, to the
// record: once before the load and once after it. It costs the proxies some work,
// which lies outside of the measure phase, and is done only where faults make it worth knowing.
func (f *faultPhase) countMesh(ctx context.Context, sign int64) {
	if f.deployment.MeshCounters == nil || len(f.setup.Experiment.Faults) == 0 {
		return
	}
	counters, err := f.deployment.MeshCounters.MeshCounters(ctx)
	if err != nil {
		f.journal.warn(result.Warning{Code: "mesh-uncounted", Message: fmt.Sprintf("the data plane's counters could not be read: %v", err),
			Metrics: []string{metric.MeshRetries, metric.MeshTimeouts}})
		return
	}
	for name, n := range counters {
		if f.journal.record.MeshCounters == nil {
			f.journal.record.MeshCounters = map[string]int64{}
		}
		f.journal.record.MeshCounters[name] += sign * n
		if sign > 0 { // a proxy that was started again has counted from nothing
			f.journal.record.MeshCounters[name] = max(0, f.journal.record.MeshCounters[name])
		}
	}
}
