package runner

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
)

// controlTimes reads what the control plane counts of its own stages, in trials with changes. It runs outside the edges, so that its cost
// is not measured. A reading that fails leaves the times unknown.
func (m *measurement) controlTimes(ctx context.Context) []mesh.CountedTime {
	changes := m.setup.Experiment.Changes.Count > 0 || m.setup.treatment.Levels.BackgroundChanges > 0
	if !changes || m.deployment.ControlTimes == nil {
		return nil
	}
	all, err := m.deployment.ControlTimes(ctx)
	if err != nil {
		return nil
	}
	return all
}

// timesBetween returns the times counted from a reading to the next. A stage is absent if a process ended or started between, or
// if nothing was counted.
func timesBetween(begin, end []mesh.CountedTime) (all []result.ControlTime) {
	type key struct{ stage, instance string }
	before := map[key]mesh.CountedTime{}
	for _, b := range begin {
		before[key{b.Stage, b.Instance}] = b
	}
	of, within := map[string]*result.ControlTime{}, map[string]map[float64]int64{}
	var stages []string
	for _, e := range end {
		b, has := before[key{e.Stage, e.Instance}]
		if !has {
			return nil
		}
		delete(before, key{e.Stage, e.Instance})
		if of[e.Stage] == nil {
			of[e.Stage], within[e.Stage] = &result.ControlTime{Stage: e.Stage}, map[float64]int64{}
			stages = append(stages, e.Stage)
		}
		of[e.Stage].Count += e.Count - b.Count
		of[e.Stage].Seconds += e.Seconds - b.Seconds
		for bound, n := range e.Within {
			within[e.Stage][bound] += n - b.Within[bound]
		}
	}
	if len(before) > 0 {
		return nil
	}
	for _, stage := range stages {
		t := of[stage]
		if t.Count <= 0 {
			continue
		}
		var below int64
		for _, bound := range slices.SortedFunc(maps.Keys(within[stage]), cmp.Compare[float64]) {
			n := within[stage][bound]
			t.Buckets = append(t.Buckets, result.TimeBucket{UpTo: bound, Count: n - below})
			below = n
		}
		all = append(all, *t)
	}
	return all
}
