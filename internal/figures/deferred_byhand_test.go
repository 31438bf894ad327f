package figures

import (
	"math"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// unit is a 64th of a second of CPU in ns: sums of it are exact.
const unit = 1e9 / 64

// quietRows are n rows of a quarter of a second, in which the application uses a number of units a second.
func quietRows(n int, units float64) (rows []result.QuietRow) {
	for range n {
		rows = append(rows, result.QuietRow{Tasks: map[string]result.QuietUse{"app": {CPU: int64(units * unit / 4), NS: 25e7}}})
	}
	return rows
}

// unitTrial has slices of a second with their CPU in units, above zero of own slices and below zero of the slices of others.
// The time before the load is a second, and the time after it 1.5 s beyond the last answers for each of its rates.
func unitTrial(before float64, after []float64, units ...int) (result.Record, []result.Slice) {
	var rows []result.Slice
	var own, others int64
	count := 0
	for i, n := range units {
		s := result.Slice{Own: n > 0, Begin: time.Duration(i) * time.Second, End: time.Duration(i+1) * time.Second, CPU: map[metric.Plane]int64{metric.App: int64(max(n, -n)) * unit}}
		if s.Own {
			own, count = own+s.CPU[metric.App], count+1
		} else {
			others += s.CPU[metric.App]
		}
		rows = append(rows, s)
	}
	quiet := &result.Quiet{Before: quietRows(4, before)}
	for i, rate := range after {
		if i == 0 {
			quiet.After = quietRows(1, 99)
		}
		quiet.After = append(quiet.After, quietRows(6, rate)...)
	}
	idle, deferred := int64(unit), others-unit // as a run may have divided them
	return result.Record{Treatment: "t", Valid: true, Answers: []check.Answer{{Probes: 4}, {Probes: 6}},
		Quiet: quiet,
		Load:  &result.Load{Completed: 200, Slices: &result.OwnSlices{Count: count, LengthSeconds: 1, GuardSeconds: 0.05}},
		Tasks: []result.TaskUsage{{Task: mesh.Task{ID: "app", Plane: metric.App}, IdleCPU: &idle, DeferredCPU: &deferred,
			Start: result.Reading{CPU: 1e9}, End: result.Reading{CPU: 1e9 + own + deferred}}}}, rows
}

// Twelve equal trials have no error, so that each sign decides by its value alone.
func TestDivideByHand(t *testing.T) {
	for _, c := range []struct {
		name               string
		before             float64 // units a second
		after              []float64
		units              []int
		own                float64 // units
		idle, late, guards float64 // units
		below, above       float64 // units
	}{
		// 16 units in 4 s of others are 0.4 in guards of 2·50 ms. A third of them may be due to others: 0.5/1.5.
		{"steady work", 4, []float64{4}, []int{60, -4, -4, 60, -4, -4}, 120, 16, 0, 0.4, 0, 0.4 / 3},
		// Slices after own ones have 2·8 units, later ones 2·4. Not more than 1.5 times the idle rate: 24 of 16.
		{"work of the slice after", 4, []float64{4}, []int{60, -8, -4, 60, -8, -4}, 120, 16, 8, 0.4, 0, 0},
		// 48 units are beyond 1.5·16. Others may raise idle work by 8. 10 probes in 1 s are a fifth of 200 requests in 4 s: they
		// have 0.2/0.8 of the 32 units, and of as much in own slices: 8·6/4.
		{"later work", 4, []float64{4}, []int{60, -12, -12, 60, -12, -12}, 120, 16, 32, 0.4, 8, 12},
		// 16 times as much of both.
		{"much steady work", 64, []float64{64}, []int{60, -64, -64, 60, -64, -64}, 120, 256, 0, 6.4, 0, 6.4 / 3},
		{"much work of the slice after", 64, []float64{64}, []int{60, -128, -64, 60, -128, -64}, 120, 256, 128, 6.4, 0, 0},
		// Before the load is what remained of the start, 24 units in 4 s. After it are 12, and 28 are beyond 1.5·12 and beyond 24. Probes may
		// have 0.2/0.8 of the other 16, and of as much in own slices: 4·6/4.
		{"a start", 6, []float64{3}, []int{60, -7, -7, 60, -7, -7}, 120, 12, 16, 0.3, 6, 6},
		// 20 units are not beyond 24.
		{"less than the start", 6, []float64{3}, []int{60, -5, -5, 60, -5, -5}, 120, 20, 0, 0.5, 0, 0.5 / 3},
		// Slices after own ones have half of the mean rate: 0.3 of 16/4 units in 3·50 ms. An own slice after others has 2 more than one
		// after an own one. 2 units beyond the rate before the load may be deferred: (3.5-3)·4.
		{"idle work", 3, []float64{3.5}, []int{60, 64, -2, -6, 66, -2, -6}, 190, 16, 0, 0, 2.3, 2},
		// At the end less than half of that goes on: then it is deferred, 4 units beyond 3·4. Others may raise these 12 by half.
		// Probes have a quarter of the 4, and of as much in own slices: 1·7/4.
		{"work that ends", 3, []float64{3.5, 3.2}, []int{60, 64, -2, -6, 66, -2, -6}, 190, 12, 4, 0.45, 6, 1.75},
		// Without readings after the load the 4 units beyond 3·4 may be deferred.
		{"nothing read afterwards", 3, nil, []int{60, -4, -4, 60, -4, -4}, 120, 16, 0, 0.4, 0, 4 + 0.4/3},
	} {
		records, rows := make([]result.Record, 12), make([][]result.Slice, 12)
		for i := range records {
			records[i], rows[i] = unitTrial(c.before, c.after, c.units...)
		}
		for i, s := range divide(records, rows) {
			u := records[i].Tasks[0]
			for name, x := range map[string][2]float64{
				"CPU":  {float64(u.End.CPU-u.Start.CPU) / unit, c.own + c.late - c.guards},
				"idle": {float64(*u.IdleCPU) / unit, c.idle}, "deferred": {float64(*u.DeferredCPU) / unit, c.late}, "guards": {s.guards[metric.App] / unit, c.guards},
				"below": {s.limits[metric.App].Below * 64, c.below}, "above": {s.limits[metric.App].Above * 64, c.above},
			} {
				if math.Abs(x[0]-x[1]) > 1e-7 { // 2 ns
					t.Fatalf("%s: %s is %v units, want %v", c.name, name, x[0], x[1])
				}
			}
		}
	}
}

func TestSignsByHand(t *testing.T) {
	task := mesh.Task{ID: "app", Plane: metric.App}
	row := func(own bool, from, to float64, ms int64) result.Slice {
		return result.Slice{Own: own, Begin: seconds(from), End: seconds(to), CPU: map[metric.Plane]int64{metric.App: ms * 1e6}}
	}
	x := &sliced{record: &result.Record{Tasks: []result.TaskUsage{{Task: task}}, Quiet: &result.Quiet{Before: quietRows(2, 1), After: append(quietRows(1, 0), quietRows(8, 2)...)}},
		rows: []result.Slice{row(true, 0, 1, 100), row(true, 1, 3, 90), row(false, 2, 3, 12), row(false, 3, 5, 10), row(true, 5, 7, 200), row(false, 7, 7.5, 6), row(false, 7.5, 8.5, 4)}}
	x.before, x.after = usesIn(x.record.Quiet.Before), usesIn(directlyAfter(x.record.Quiet.After))
	x.record.Quiet.After[8].Tasks["app"] = result.QuietUse{CPU: 5 * unit / 4, NS: 25e7} // the last of six has 5 units a second
	s := x.signs(metric.App, work{x: {"app": 0.02}}, work{x: {"app": 0.03}})
	for name, v := range map[string][2]float64{
		"outside": {s.outside, 4.5}, "all": {s.all, 0.032}, "idle": {s.idle, 0.02}, "before": {s.before, 0.03},
		"squares": {s.squares, 144e-6 + 100e-6 + 36e-6 + 16e-6},
		"near":    {s.near, 0.018 - 0.014/3*1.5},   // 18 ms in 1.5 s, and 14 ms in 3 s
		"carried": {s.carried, 0.2 - 0.09/2*2},     // 200 ms in 2 s, and 90 ms in 2 s
		"after":   {s.after, 2.0/64*4.5 - 0.03},    // 2 units a second
		"end":     {s.end, 2.5/64*4.5 - 0.03},      // five rows of 2 and one of 5
		"without": {s.without, 0.5 + 1.5},          // 2 rows before, and 6 after
		"just":    {s.afterwards, 1.5},             // 6 rows of the window
		"ratio":   {s.nearRatio(), 12 / (64 / 9.)}, // 12 of 32/4.5 ms a second
	} {
		if math.Abs(v[0]-v[1]) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, v[0], v[1])
		}
	}
	if !s.hasNear || !s.hasCarried || !s.hasAfter {
		t.Errorf("%+v", s)
	}
	if r := (signs{nearTime: 1}).nearRatio(); r != 1 {
		t.Errorf("ratio without CPU: %v", r)
	}
}

// Two trials used 4 ms in 0.4 s and 20 ms in 0.6 s: 0.024 cores. They have 2 and 4 s of others. Each keeps what it used beyond the
// common rate, -5.6 and 5.6 ms, six times, since 1 s stands for 6.
func TestPoolByHand(t *testing.T) {
	task := result.TaskUsage{Task: mesh.Task{ID: "app", Plane: metric.App}}
	of := map[*sliced]uses{}
	var trials []*sliced
	for i, u := range []result.QuietUse{{CPU: 4e6, NS: 4e8}, {CPU: 20e6, NS: 6e8}} {
		x := &sliced{record: &result.Record{Tasks: []result.TaskUsage{task, {Task: mesh.Task{ID: "other", Plane: metric.Data}}}},
			rows: []result.Slice{{Own: true, End: seconds(7)}, {Begin: seconds(1), End: seconds(float64(3 + 2*i))}}}
		trials, of[x] = append(trials, x), uses{"app": u}
	}
	w := pool(trials, trials, metric.App, func(t *sliced) uses { return of[t] })
	for i, want := range []float64{0.024*2 - 0.0056*6, 0.024*4 + 0.0056*6} {
		if got := w.of(trials[i], metric.App); math.Abs(got-want) > 1e-12 || len(w[trials[i]]) != 1 {
			t.Errorf("trial %d: %v, want %v", i, got, want)
		}
	}
}

func TestBurstsByHand(t *testing.T) {
	a, b := &sliced{}, &sliced{}
	// (6+4)²/(9+11) = 5 bursts in 10 s, and 4 s without requests, 1.5 s of them after the load.
	without, after := bursts([]*sliced{a, b}, map[*sliced]signs{a: {all: 6, squares: 9, outside: 4, without: 3, afterwards: 1}, b: {all: 4, squares: 11, outside: 6, without: 1, afterwards: 0.5}})
	if math.Abs(without-2) > 1e-12 || math.Abs(after-0.75) > 1e-12 {
		t.Errorf("%v and %v bursts, want 2 and 0.75", without, after)
	}
	if without, after = bursts([]*sliced{a}, map[*sliced]signs{a: {squares: 1, without: 1}}); without != 0 || after != 0 {
		t.Errorf("%v and %v bursts in no time", without, after)
	}
	// A fifth of the time. Two errors are 2·√(0.2·0.8·4)/10 = 0.16.
	for near, want := range map[float64]bool{3.5: false, 3.7: true} {
		at := map[*sliced]signs{a: {all: 4, squares: 3, outside: 6, nearTime: 1.5, nearCPU: 2}, b: {all: 6, squares: 1, outside: 4, nearTime: 0.5, nearCPU: near - 2}}
		if got := shown([]*sliced{a, b}, at); got != want {
			t.Errorf("%v of 10 s of CPU in a fifth of the time: shown %v", near, got)
		}
	}
}

// 30 probes in 2 s before the load and 100 requests with 2 s of others: these have 0.3 of what the time before has.
func TestWorkOfProbesByHand(t *testing.T) {
	x := &sliced{record: &result.Record{Answers: []check.Answer{{Probes: 10}, {Probes: 20}}, Load: &result.Load{Completed: 100}},
		before: uses{"a": {NS: 2e9}, "b": {NS: 5e8}}, rows: []result.Slice{{Own: true, End: seconds(3)}, {Begin: seconds(3), End: seconds(5)}}}
	if got := x.ofProbes(signs{all: 10, idle: 6, outside: 2}); math.Abs(got-0.3/0.7*4*5/2) > 1e-9 {
		t.Errorf("%v s, want 4.3", got)
	}
	x.record.Load.Completed = 30 // then all may be of probes
	if got := x.ofProbes(signs{all: 10, idle: 6, outside: 2}); got != 6 {
		t.Errorf("%v s, want the idle work", got)
	}
}

// Both halves and the middle third of seven rows, each with a power of two.
func TestCutsByHand(t *testing.T) {
	var rows []result.QuietRow
	for i := range 7 {
		rows = append(rows, result.QuietRow{Tasks: map[string]result.QuietUse{"app": {CPU: 1 << i, NS: 1}}})
	}
	for i, want := range []struct {
		part  int64
		share float64
	}{{1 + 2 + 4, 3.0 / 7}, {8 + 16 + 32 + 64, 4.0 / 7}, {4 + 8 + 16, 3.0 / 7}} {
		c := cutsOf(rows)[i]
		if c.part["app"].CPU != want.part || c.rest["app"].CPU != 127-want.part || math.Abs(c.share-want.share) > 1e-12 {
			t.Errorf("cut %d: %+v, want %+v", i, c, want)
		}
	}
}

// The part with the most CPU beyond the rest, not with the highest rate: rows of the first half have 2 units more, the middle 3.
func TestProbedPartByHand(t *testing.T) {
	of := func(units ...float64) int {
		var trials []*sliced
		for range 4 {
			x := &sliced{record: &result.Record{Tasks: []result.TaskUsage{{Task: mesh.Task{ID: "app", Plane: metric.App}}}, Quiet: &result.Quiet{}}}
			for _, u := range units {
				x.record.Quiet.Before = append(x.record.Quiet.Before, quietRows(1, u)...)
			}
			x.cuts = cutsOf(x.record.Quiet.Before)
			trials = append(trials, x)
		}
		return probedPart(trials, metric.App)
	}
	for want, units := range map[int][]float64{
		0:  {4, 4, 4, 1, 1, 1},
		1:  {1, 1, 1, 4, 4, 4},
		2:  {1, 1, 4, 4, 1, 1},
		-1: {2, 2, 2, 2, 2, 2},
	} {
		if got := of(units...); got != want {
			t.Errorf("%v: part %d, want %d", units, got, want)
		}
	}
	// The first half has (4+4+7)/3 - (7+1+1)/3 = 2 units a second more in half of the time, the middle 7 - 10/4 = 4.5 in a third.
	if got := of(4, 4, 7, 7, 1, 1); got != 2 {
		t.Errorf("part %d, want the middle", got)
	}
	// In twelve trials the first half of 3 s has 2 units a second more. In four with 0.75 s it has 1 less, which counts for less.
	var trials []*sliced
	for i := range 16 {
		units := []float64{3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1}
		if i >= 12 {
			units = []float64{1, 2, 2}
		}
		x := &sliced{record: &result.Record{Tasks: []result.TaskUsage{{Task: mesh.Task{ID: "app", Plane: metric.App}}}, Quiet: &result.Quiet{}}}
		for _, u := range units {
			x.record.Quiet.Before = append(x.record.Quiet.Before, quietRows(1, u)...)
		}
		x.cuts = cutsOf(x.record.Quiet.Before)
		trials = append(trials, x)
	}
	if got := probedPart(trials, metric.App); got != 0 {
		t.Errorf("part %d of trials of several lengths, want the first half", got)
	}
	// The first half has 5 units a second more in half of the time, the middle 6.5 - 4.25 in a third.
	if got := of(7, 7, 8, 5, 2, 1); got != 0 {
		t.Errorf("part %d, want the first half", got)
	}
}

// Limits of a sum are the sums of the limits, relative to the CPU of the sum: 6 s of a metric of 300 are 3 s of limits each.
func TestLimitsOfByHand(t *testing.T) {
	use := func(plane metric.Plane, s float64) result.TaskUsage {
		return result.TaskUsage{Task: mesh.Task{Plane: plane}, Start: result.Reading{CPU: 1e9}, End: result.Reading{CPU: 1e9 + int64(s*1e9)}}
	}
	x := &sliced{record: &result.Record{Tasks: []result.TaskUsage{use(metric.Data, 1), use(metric.Data, 3), use(metric.Control, 2)}},
		limits: map[metric.Plane]Limit{metric.Data: {Below: 0.25, Above: 1}, metric.Control: {Below: 0.5}}}
	name := func(part string) string { return metric.Of(metric.CPUPerRequest, part) }
	got := x.limitsOf(map[string]float64{name("data"): 200, name("control"): 100, name("mesh"): 300, name("app"): 1})
	for part, want := range map[string]Limit{"data": {12.5, 50}, "control": {25, 0}, "mesh": {37.5, 50}, "app": {}} {
		if l := got[name(part)]; math.Abs(l.Below-want.Below) > 1e-9 || math.Abs(l.Above-want.Above) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", part, l, want)
		}
	}
}

// Each own slice is charged its half of 2,000 ns in guards, and CPU of others beyond 500 ns a second.
func TestSliceCostsByHand(t *testing.T) {
	row := func(own bool, from, to float64, ns, answered int64) result.Slice {
		s := result.Slice{Own: own, Begin: seconds(from), End: seconds(to), CPU: map[metric.Plane]int64{metric.App: ns}}
		s.Answered = answered
		return s
	}
	rows := []result.Slice{row(false, 0, 2, 1500, 0), row(true, 2, 3, 9000, 5), row(false, 3, 5, 3000, 0), row(true, 5, 6, 5000, 2)}
	at := func(ns float64) map[metric.Plane]float64 { return map[metric.Plane]float64{metric.App: ns} }
	got := sliceCostsOf(rows, []metric.Plane{metric.App}, at(500), at(2000), nil)
	for i, want := range []float64{(500 + 9000 - 1000 + 2000) / 5.0 / 1000, (5000 - 1000) / 2.0 / 1000} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("slice %d costs %v µs, want %v", i, got[i], want)
		}
	}
}

// Warm-ups from 95 % of the period of 4 s on are long. One burst in the only trial with a short one withholds it.
func TestShortWarmupsAtTheLimit(t *testing.T) {
	for warmup, withheld := range map[float64]bool{3.79: false, 3.81: true} {
		var trials []*sliced
		for i := range 4 {
			x := &sliced{record: &result.Record{BurstSeconds: 4, Placing: &result.Placing{Seconds: 1}}, limits: map[metric.Plane]Limit{},
				rows: []result.Slice{{Own: true, End: seconds(1), CPU: map[metric.Plane]int64{metric.App: 20e6}}, {Begin: seconds(1), End: seconds(3)}}}
			if i > 0 {
				x.record.BurstSeconds, x.record.Placing.Seconds = 0, warmup
			}
			trials = append(trials, x)
		}
		if boundLoss(trials, metric.App, 1); (trials[0].withheld != nil) != withheld || trials[1].withheld != nil {
			t.Errorf("warm-ups of %v s: %+v, %+v", warmup, trials[0].withheld, trials[1].withheld)
		}
	}
}

// 48 units in the slices of others are 32 more than at the rate before the load: half a second.
func TestDeferredWorkByHand(t *testing.T) {
	var trials []*sliced
	for range 12 {
		r, rows := unitTrial(4, []float64{4}, 60, -12, -12, 60, -12, -12)
		x := &sliced{record: &r, rows: rows, limits: map[metric.Plane]Limit{}, guards: map[metric.Plane]float64{}, atOnce: map[metric.Plane]bool{}}
		x.cuts, x.before, x.after = cutsOf(r.Quiet.Before), usesIn(r.Quiet.Before), usesIn(directlyAfter(r.Quiet.After))
		trials = append(trials, x)
	}
	if got := dividePlane(trials, metric.App); math.Abs(got-0.5) > 1e-12 {
		t.Errorf("%v s of deferred work, want 0.5", got)
	}
}
