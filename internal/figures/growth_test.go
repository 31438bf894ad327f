package figures

import (
	"math"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// grown is a task that begins at 50 MiB, grows by 20 MiB while it warms up, and by perSecond bytes afterwards.
func grown(plane metric.Plane, seconds int, perSecond int64) result.TaskUsage {
	u := result.TaskUsage{Task: mesh.Task{ID: string(plane), Plane: plane}}
	for s := range seconds + 1 {
		rss := int64(50<<20) + min(int64(s), 4)*(5<<20) + int64(s)*perSecond
		u.Memory = append(u.Memory, result.MemoryReading{Seconds: float64(s), RSS: rss})
	}
	return u
}

// A program that has just begun grows to its working size: only later growth is reported.
func TestMemoryGrowthOfAYoungProgram(t *testing.T) {
	ready := time.Unix(1000, 0)
	for after, known := range map[time.Duration]bool{0: false, 9 * time.Second: false, 11 * time.Second: true} {
		r := &result.Record{Load: &result.Load{Completed: 1000, MeasureSeconds: 10, Start: ready.Add(after)}, Phases: []result.Phase{{Name: "deploy", End: ready}},
			Tasks: []result.TaskUsage{grown(metric.App, 10, 1600<<10)}}
		f := &figures{values: map[string]float64{}}
		growthFigures(f, r, 10)
		value, got := f.values[metric.Of(metric.MemoryGrowth, "app")]
		perMinute, ok := MemoryGrowth(r, r.Tasks)
		if got != known || ok != known || known && (math.Abs(value-93.75) > 1e-6 || math.Abs(perMinute-93.75) > 1e-6) {
			t.Errorf("load %v after the deployment: %v (%v), %v (%v), want it known: %v", after, value, got, perMinute, ok, known)
		}
	}
}

func TestMemoryGrowth(t *testing.T) {
	// 16 KiB a request at 100 requests/s are 1,600 KiB a second, 93.75 MiB a minute.
	leak := grown(metric.Data, 10, 1600<<10)
	for _, c := range []struct {
		name      string
		load      result.Load
		data      result.TaskUsage
		perMinute float64 // MiB
		per1000   float64 // KiB
	}{
		{"leak", result.Load{Completed: 1000, MeasureSeconds: 10}, leak, 93.75, 16000},
		{"warm-up alone", result.Load{Completed: 1000, MeasureSeconds: 10}, grown(metric.Data, 10, 0), 0, 0},
		// A quarter of the time has the load, so that a second of load has four times as much.
		{"interleaved", result.Load{Completed: 250, MeasureSeconds: 10, Slices: &result.OwnSlices{Count: 25, LengthSeconds: 0.1}},
			grown(metric.Data, 10, 400<<10), 93.75, 16000},
		{"few readings", result.Load{Completed: 1000, MeasureSeconds: 10}, grown(metric.Data, 3, 1600<<10), math.NaN(), math.NaN()},
	} {
		f := &figures{values: map[string]float64{}}
		growthFigures(f, &result.Record{Load: &c.load, Tasks: []result.TaskUsage{c.data, grown(metric.App, 10, 0)}}, 10)
		for _, want := range []struct {
			name  string
			value float64
		}{{metric.Of(metric.MemoryGrowth, "data"), c.perMinute}, {metric.Of(metric.MemoryGrowthPerRequest, "data"), c.per1000},
			{metric.Of(metric.MemoryGrowth, "total"), c.perMinute}} {
			got, known := f.values[want.name]
			if known == math.IsNaN(want.value) || known && math.Abs(got-want.value) > 1e-6 {
				t.Errorf("%s: %s is %v (known: %v), want %v", c.name, want.name, got, known, want.value)
			}
		}
		perMinute, known := MemoryGrowth(&result.Record{Load: &c.load}, []result.TaskUsage{c.data})
		if known == math.IsNaN(c.perMinute) || known && math.Abs(perMinute-c.perMinute) > 1e-6 {
			t.Errorf("%s: tasks grow by %v MiB a minute (known: %v), want %v", c.name, perMinute, known, c.perMinute)
		}
		if v := f.values[metric.Of(metric.MemoryGrowth, "app")]; v != 0 {
			t.Errorf("%s: the application grows by %v MiB a minute, want 0", c.name, v)
		}
	}
}
