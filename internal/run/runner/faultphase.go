package runner

import (
	"context"
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
)

// faultPhase is the faults of one trial, and the counters of the data plane that change because of
// them.
type faultPhase struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	timeline   *timeline.Timeline          // nil before the measure phase
	before     map[string]map[string]int64 // the data plane's counters before the load; nil: unknown
}

// plan makes the timeline of faults. It is empty in a trial without faults.
func (f *faultPhase) plan() error {
	var err error
	f.timeline, err = timeline.New(f.setup.Experiment.Faults, f.setup.of.Seed, f.setup.topology.EntryName(), f.deployment, f.setup.clock.now, f.journal.emit)
	return err
}

// end records the injected faults, and heals faults that delay requests in flight.
func (f *faultPhase) end(ctx context.Context) error {
	f.journal.record.Faults = f.timeline.Injected()
	return f.timeline.Heal(ctx, false)
}

// keepMesh records what the proxies that run after the load counted since the reading before it. A restarted proxy
// counts from 0.
func (f *faultPhase) keepMesh(ctx context.Context) {
	if f.before == nil {
		return
	}
	for proxy, counters := range f.countMesh(ctx) {
		for name, n := range counters {
			if f.journal.record.MeshCounters == nil {
				f.journal.record.MeshCounters = map[string]int64{}
			}
			f.journal.record.MeshCounters[name] += n - f.before[proxy][name]
		}
	}
}

// countMesh reads the data plane's counters, by proxy and name. It returns nil if they are unknown. Reading them
// costs the proxies CPU outside the measure phase, so it is done only in trials with faults.
func (f *faultPhase) countMesh(ctx context.Context) map[string]map[string]int64 {
	if f.deployment.MeshCounters == nil || len(f.setup.Experiment.Faults) == 0 {
		return nil
	}
	counters, err := f.deployment.MeshCounters(ctx)
	if err != nil {
		f.journal.warn(result.Warning{Code: "mesh-uncounted", Message: fmt.Sprintf("the data plane's counters could not be read: %v", err),
			Withholds: true, Metrics: []string{metric.MeshRetries, metric.MeshTimeouts}})
		return nil
	}
	return counters
}

// replaces reports whether faults or changes can have ended or started tasks of a plane. Sidecars end with their
// pods. Tasks of other planes are only hit by a fault or change of their own.
func replaces(faults []experiment.Fault, changes []string, plane metric.Plane) bool {
	return slices.ContainsFunc(changes, func(name string) bool {
		kind, _ := metric.ChangeKindOf(name)
		return kind.Replaces(plane)
	}) || slices.ContainsFunc(faults, func(f experiment.Fault) bool {
		kind, _ := experiment.FaultKindOf(f.Kind)
		if !slices.Contains(kind.Suspends, experiment.Restarted) {
			return false
		}
		return plane == metric.App || plane == metric.Data || string(plane) == f.Target.Plane
	})
}
