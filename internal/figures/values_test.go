package figures

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// CPU time between two readings lies on the line through them: (2 s, 5 µs) and (4 s, 13 µs) here. The last line goes on for
// half a second.
func TestCPUBetweenReadings(t *testing.T) {
	task := result.TaskUsage{Start: result.Reading{CPU: 1000}, Memory: []result.MemoryReading{{Seconds: 2, CPU: 5000}, {Seconds: 3}, {Seconds: 4, CPU: 13000}}}
	for second, want := range map[float64]float64{0: 1000, 1: 3000, 2: 5000, 2.25: 6000, 3: 9000, 4: 13000, 4.25: 14000} {
		if got, ok := cpuAt(&task, second); !ok || got != want {
			t.Errorf("at %v s: %v, want %v ns", second, got, want)
		}
	}
	if got, ok := cpuAt(&task, 4.5); ok {
		t.Errorf("beyond the last reading: %v", got)
	}
}

// Of ten trials some have bursts of 2 s in the 4 s of others. So k equal bursts have a sum of 2k and squares of 4k, and count
// as k. In own slices of 2 s, with 2 s of CPU each, they have k/20 of the cost. Bursts in the 4 s after the load count likewise.
func TestFewBurstsAreCounted(t *testing.T) {
	of := func(bursts, afterwards int, cpu int64) *Warning {
		at := map[*sliced]signs{}
		var trials []*sliced
		for i := range 10 {
			trial := &sliced{record: &result.Record{Tasks: []result.TaskUsage{{Task: mesh.Task{ID: "app", Plane: metric.App}}}}, rows: []result.Slice{{Own: true, Begin: seconds(3), End: seconds(5), CPU: map[metric.Plane]int64{metric.App: 2 * cpu}}}}
			trials, at[trial] = append(trials, trial), signs{outside: 4}
			if i < bursts {
				at[trial] = signs{outside: 4, all: 2}
			}
			if i >= 10-afterwards {
				trial.after = uses{"app": {NS: 4e9, CPU: 2e9}}
			}
		}
		return fewBursts(trials, at, metric.App)
	}
	for _, c := range []struct {
		bursts, afterwards int
		cpu                int64
		want               string // empty: no warning
	}{
		{3, 0, 1e9, "used 6 s of CPU without requests, in bursts in about 3 of 10 blocks: an interval needs 8 blocks"},
		{4, 0, 2e9, "used 8 s of CPU without requests, in bursts in about 4 of 10 blocks: an interval needs 8 blocks"}, // exactly a tenth
		{3, 0, 2e9, ""}, // 1.5 of 20 s
		{6, 0, 1e9, "in about 6 of 10 blocks"},
		{7, 0, 1e9, ""}, // 0.7 of the blocks
		{3, 3, 1e9, "used 12 s of CPU without requests, in bursts in about 6 of 10 blocks"}, // after the load too
		{3, 3, 2e9, "in about 6 of 10 blocks"},                                              // 3·0.5 and 3·0.25 of 20
		{3, 4, 1e9, ""},
		{0, 0, 1e9, ""},
	} {
		got := of(c.bursts, c.afterwards, c.cpu)
		if (got != nil) != (c.want != "") || got != nil && !strings.Contains(got.Message, c.want) {
			t.Errorf("%d bursts, %d afterwards, %d ns: %+v, want %q", c.bursts, c.afterwards, c.cpu, got, c.want)
		}
	}
	if hint := of(3, 0, 1e9).Hint; !strings.Contains(hint, "3 times") { // 8/3, rounded up
		t.Errorf("hint %q", hint)
	}
}

// Work that comes later than the next slice is deferred. The load of others may raise idle work by half. In the 24 slices of others
// it is 2.4 s of 0.05 cores, or 0.12 s.
func TestLimitOfIdleWork(t *testing.T) {
	p := planted{request: 300e-6, deferred: 600e-6, delay: 0.15, steady: 0.05, beside: 1}
	r := rand.New(rand.NewPCG(5, 6))
	records, rows := make([]result.Record, 8), make([][]result.Slice, 8)
	for i := range records {
		records[i], rows[i] = p.block(r, i+1)
	}
	mean := 0.0
	for _, s := range divide(records, rows) {
		mean += s.limits[metric.App].Below / 8
		if above := s.limits[metric.App].Above; above < 0 || above > 0.13 { // probes of the verification cannot have left more than all idle work
			t.Errorf("above: %v", above)
		}
	}
	if mean < 0.054 || mean > 0.066 {
		t.Errorf("limit %.4f s, want half of 0.12", mean)
	}
}

// Steady work of 0.05 cores is not deferred. It is in the guards of 12 own slices too, 10 ms each: 6 ms.
func TestSteadyWorkInGuards(t *testing.T) {
	p := planted{request: 300e-6, steady: 0.05, beside: 1}
	r := rand.New(rand.NewPCG(5, 6))
	records, rows := make([]result.Record, 8), make([][]result.Slice, 8)
	for i := range records {
		records[i], rows[i] = p.block(r, i+1)
	}
	guards, above := 0.0, 0.0
	for _, s := range divide(records, rows) {
		guards += s.guards[metric.App] / 1e9 / 8
		above += s.limits[metric.App].Above / 8
	}
	if guards < 0.0055 || guards > 0.0065 || above < 0.002 || above > 0.02 { // a third of 6 ms, and what may be deferred unseen
		t.Errorf("%.4f s in guards, limit %.4f s", guards, above)
	}
}

func TestTrendIsPerHour(t *testing.T) {
	low, high := -0.5, 1.0
	if got := (stats.Interval{Estimate: 0.25, Low: &low, High: &high}).Times(3600); got.Estimate != 900 || *got.Low != -1800 || *got.High != 3600 {
		t.Errorf("%v, %v to %v", got.Estimate, *got.Low, *got.High)
	}
}

func TestWorkOfAPlane(t *testing.T) {
	trial := &sliced{record: &result.Record{Tasks: []result.TaskUsage{{Task: mesh.Task{ID: "a", Plane: metric.App}}, {Task: mesh.Task{ID: "b", Plane: metric.Data}}, {Task: mesh.Task{ID: "c", Plane: metric.Data}}}}}
	w := work{trial: {"a": 1, "b": 2, "c": 4}}
	if app, data := w.of(trial, metric.App), w.of(trial, metric.Data); app != 1 || data != 6 {
		t.Errorf("app %v, data %v", app, data)
	}
}

// Signs of deferred work are of valid trials, or of all where none is valid.
func TestSignsAreOfValidTrials(t *testing.T) {
	a, b := &sliced{record: &result.Record{Valid: true}}, &sliced{record: &result.Record{}}
	if got := valid([]*sliced{b, a}); len(got) != 1 || got[0] != a {
		t.Errorf("of one valid trial: %v", got)
	}
	if got := valid([]*sliced{b}); len(got) != 1 || got[0] != b {
		t.Errorf("without a valid trial: %v", got)
	}
}

// The application uses 0.12 cores at 100 answers/s: 1.2 ms each. Six failures in two changes saved 3.6 ms of each change. A tenth of
// the difference, 24 ms, is less.
func TestCPUThatFailuresSaved(t *testing.T) {
	changes := changed(2, 10, 12)
	for i := range changes {
		changes[i].Failed = 3
		changes[i].CPU = &result.ChangeCPU{Seconds: [2]float64{0.1, 0.1}, NS: map[metric.Plane][2]int64{metric.App: {0, 12e6}}}
	}
	f := &figures{values: map[string]float64{}}
	changeCPU(f, metric.RouteChanged, &result.Record{Changes: changes, Load: &result.Load{Completed: 500, MeasureSeconds: 5}})
	const want = "6 requests failed during 2 changes, which saved up to 3.6 ms of CPU each"
	if len(f.warnings) != 1 || len(f.values) != 0 || !strings.Contains(f.warnings[0].Message, want) {
		t.Errorf("%+v, %v: want %q", f.warnings, f.values, want)
	}
}
