package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// 30 changes in 12 s of background, of which 3 of 40 pushes missed their proxy.
func TestPushFigures(t *testing.T) {
	p50, p99, last := 4.0, 9.0, 20.0
	r := &result.Record{Load: &result.Load{MeasureSeconds: 12}, Background: &result.Background{Asked: 3, Changes: 30,
		Pushes: &result.Pushes{Proxies: 5, SyncMS: 70, Pairs: 40, Missed: 3, EachMS: &result.PushTimes{P50: &p50, P99: &p99}, LastMS: &result.PushTimes{P50: &last}}}}
	f := &figures{values: map[string]float64{}}
	changeFigures(f, r)
	same(t, f.values, map[string]float64{metric.BackgroundChanges: 2.5, metric.PushSync: 70, metric.PushMissed: 0.075,
		metric.Of(metric.Push, "p50"): 4, metric.Of(metric.Push, "p99"): 9, metric.Of(metric.PushLast, "p50"): 20})
	if len(f.values) != 6 || len(f.warnings) != 0 {
		t.Errorf("%v, %+v", f.values, f.warnings)
	}
}

// A warning needs more than half of the changes. Of those that were probed, two had 3 and 5 unchanged connections of 8.
func TestUnchangedAtTheLimit(t *testing.T) {
	probe := func(connections, left int, at ...string) result.Change {
		return result.Change{Connections: connections, Unchanged: left, UnchangedAt: at, Replicas: 4}
	}
	for _, c := range []struct {
		changes []result.Change
		mean    float64
		want    string
	}{
		{[]result.Change{probe(8, 3), probe(8, 5), probe(6, 0), probe(6, 0), {}}, 2, ""},
		{[]result.Change{probe(8, 3), probe(8, 6), probe(6, 0), {}}, 3, "3 of 8 connections never changed, in 2 of 3 changes"},
		{[]result.Change{probe(8, 4, "echo-1"), probe(8, 4, "echo-1"), probe(8, 1)}, 3, "1 of 4 replicas (echo-1) never changed, in 3 of 3 changes"},
		{[]result.Change{probe(8, 4, "echo-1"), probe(8, 4)}, 4, "4 of 8 connections never changed, in 2 of 2 changes"}, // half of the changes name replicas
	} {
		var u unchanged
		for _, x := range c.changes {
			u.add(x)
		}
		f := &figures{values: map[string]float64{}}
		u.report(f, metric.RouteChanged, false)
		got := ""
		for _, w := range f.warnings {
			got = w.Message
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || f.values[metric.Of(metric.ChangeUnchanged, metric.RouteChanged)] != c.mean {
			t.Errorf("%v, %q, want %v, %q", f.values, got, c.mean, c.want)
		}
	}
}

// A span ends with the longest wait after its begin, if no observation ends it before.
func TestLatestOf(t *testing.T) {
	before := 12.0
	for want, s := range map[float64]*result.Span{9: {AfterMS: 5, BeforeMS: &before, WaitsMS: []float64{4, 1}}, 12: {AfterMS: 5, BeforeMS: &before, WaitsMS: []float64{4, 8}}, math.Inf(1): {AfterMS: 5, WaitsMS: []float64{4}}} {
		if got := latestOf(s); got != want {
			t.Errorf("%+v: %v, want %v", s, got, want)
		}
	}
	if n := failedAfter(result.Change{FailedMS: []float64{-1, 0, 3}}); n != 2 {
		t.Errorf("%d failed after, want 2", n)
	}
}

// Of 40 changes 2 may be late, 5 %. One ends exactly with the first half of 0.1 s. CPU beyond the level of the second half is by time:
// 12 - 20·0.1/0.4 ms.
func TestLateChangesAtTheLimit(t *testing.T) {
	for late, known := range map[int]bool{2: true, 3: false} {
		changes := changed(40, 90, 100)
		for i := range changes {
			changes[i].CPU = &result.ChangeCPU{Seconds: [2]float64{0.1, 0.4}, NS: map[metric.Plane][2]int64{metric.Control: {12e6, 20e6}}}
			if i < late {
				end := 100.05
				changes[i].LastOld = &result.Span{AfterMS: 90, BeforeMS: &end}
			}
		}
		f := &figures{values: map[string]float64{}}
		changeCPU(f, metric.RouteChanged, &result.Record{Changes: changes, Load: &result.Load{Completed: 1000, MeasureSeconds: 1}})
		got, ok := f.values[metric.Of(metric.ChangeCPU, metric.RouteChanged+"-control")]
		if ok != known || ok && math.Abs(got-7) > 1e-9 {
			t.Errorf("%d late changes: %v (known: %v)", late, got, ok)
		}
	}
}

// Pods started in 3, 5 and 10 s, and lost 1, 0 and 6 requests as they stopped.
func TestStartFigures(t *testing.T) {
	part := metric.StartParts[0]
	r := &result.Record{}
	for i, ms := range []float64{3000, 5000, 10000} {
		r.Starts = append(r.Starts, result.Start{FirstMS: map[string]float64{part: ms}, LeastMS: map[string]float64{part: ms / 10}, Lost: []int{1, 0, 6}[i]})
	}
	f := &figures{values: map[string]float64{}}
	startFigures(f, r)
	same(t, f.values, map[string]float64{metric.StopLost: 7.0 / 3, metric.Of(metric.StartTime, part): 5000, metric.Of(metric.StartLeast, part): 500})
}

// A part has the CPU of its tasks between their own outermost readings in 2 to 8 s: 3 ms in 5 s and 1 ms in 4 s.
func TestCoresBetweenByHand(t *testing.T) {
	task := func(readings ...result.MemoryReading) result.TaskUsage {
		return result.TaskUsage{Task: mesh.Task{Plane: metric.App}, Memory: readings}
	}
	r := &result.Record{Tasks: []result.TaskUsage{
		task(result.MemoryReading{Seconds: 1, CPU: 1}, result.MemoryReading{Seconds: 3, CPU: 4e6}, result.MemoryReading{Seconds: 5}, result.MemoryReading{Seconds: 8, CPU: 7e6}, result.MemoryReading{Seconds: 9, CPU: 99e6}),
		task(result.MemoryReading{Seconds: 2, CPU: 5e6}, result.MemoryReading{Seconds: 6, CPU: 6e6}),
	}}
	app := metric.Part{Planes: []metric.Plane{metric.App}}
	if got, known := coresBetween(r, app, 2, 8); !known || math.Abs(got-(0.003/5+0.001/4)) > 1e-12 {
		t.Errorf("%v cores (%v)", got, known)
	}
	if _, known := coresBetween(r, app, 2, 7); known { // the first task has one reading
		t.Error("one reading has a rate")
	}
}

// Peaks below the 8 MiB of the program that starts them are unknown.
func TestHiddenPeaks(t *testing.T) {
	f := &figures{values: map[string]float64{}}
	executionFigures(f, &result.Record{Executions: []execution.Reading{{Wall: 2e6, Peak: 8 << 20, Floor: 8 << 20}, {Wall: 4e6, Peak: 9 << 20, Floor: 6 << 20}}})
	if len(f.warnings) != 1 || !strings.Contains(f.warnings[0].Message, "1 of 2 executions is below 8 MiB") {
		t.Errorf("%+v", f.warnings)
	}
	same(t, f.values, map[string]float64{metric.WallTime: 3})
}
