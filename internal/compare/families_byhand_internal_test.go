package compare

import (
	"errors"
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// Four metrics, three of them with two levels. Bonferroni's first tests are 2·0.001, 2·0.002, 2·0.03 and 0.6, which Holm multiplies by
// 4, 3, 2 and 1. Two are shown. Their levels are tested at 2/4 of 5 %, and the others as if three were shown, at 3/4.
func TestFamiliesByHand(t *testing.T) {
	x := estimator{confidence: 0.95}
	test := stats.MeanInterval([]float64{1, 2, 4}, 0.95)
	var cs []compared
	var family []int
	for i, ps := range [][]float64{{0.001, 0.01}, {0.002, 0.5}, {0.03, 0.5}, {0.6}} {
		for _, p := range ps {
			family = append(family, len(cs))
			cs = append(cs, compared{Comparison: Comparison{Metric: metric.Headlines()[i], Difference: &test.Interval, P: &p, N: 3}, test: test})
		}
	}
	steps := firstTests(cs, family, &asked{})
	for i, want := range []float64{0.002, 0.004, 0.06, 0.6} {
		wants(t, "first test", steps[i].p, want)
	}
	x.headlines(cs, steps)
	for i, want := range []struct {
		adjusted, level float64
		verdict         Verdict
	}{
		// Holm of 0.001 and 0.01 is 0.002 and 0.01, by 4/2. Both tests are at 2.5 %, since the other one is shown.
		{0.008, 0.025, Higher}, {0.02, 0.025, Higher},
		// 2·0.002 by 4/2 is less than the first test, 3·0.004.
		{0.012, 0.0125, Higher}, {1, 0.025, NotShown},
		// 2·0.03 by 4/3 is less than the first test, 2·0.06. Both are live, at half of 3.75 %.
		{0.12, 0.01875, NotShown}, {0.5 / 0.75, 0.01875, NotShown},
		{0.6, 0.025, NotShown}, // of one level, at Holm's level of the metrics that are not shown
	} {
		wants(t, "adjusted p", *cs[i].PAdjusted, want.adjusted)
		wants(t, "level", cs[i].Smallest.Level, want.level)
		if cs[i].Verdict != want.verdict {
			t.Errorf("test %d: %s, want %s", i, cs[i].Verdict, want.verdict)
		}
	}
}

// Gates on counts have a tenth of the error of breaches, if there are others too. Each has its share.
func TestErrorsOfGatesByHand(t *testing.T) {
	run := countedRun("", 6, 810, func(int, string) int64 { return 0 })
	for _, c := range []struct {
		gates []string
		want  []float64
	}{
		{[]string{"error_ratio < 1%"}, []float64{0.05}},
		{[]string{"error_ratio < 1%", "timeouts < 5"}, []float64{0.025, 0.025}},
		{[]string{"error_ratio < 1%", "memory_mib/data < +1", "timeouts < 5", "cpu_cores/data < +1"}, []float64{0.0025, 0.0225, 0.0025, 0.0225}},
		{[]string{"memory_mib/data < +1"}, []float64{0.045, 0.005}}, // the gate on failures that every run has
	} {
		var gates []Gate
		for _, text := range c.gates {
			gates = append(gates, must.Get(ParseGate(text))(t))
		}
		due := must.Get(gateTests(run, gates))(t)
		if len(due) != len(c.want) {
			t.Fatalf("%v: %d tests", c.gates, len(due))
		}
		for i, want := range c.want {
			wants(t, due[i].gate.Text, due[i].breach, want)
		}
	}
}

// After three blocks a gate on failures may err with 1/12 of its error, and of holds with half of that. The bounds of 48 and 24 of 2,430
// requests decide at the limit.
func TestErrorsOfLooksAtCountsByHand(t *testing.T) {
	var c counts
	for range 3 {
		c.treatment, c.baseline = append(c.treatment, stats.Count{K: 16, N: 810, Scale: 1}), append(c.baseline, stats.Count{K: 8, N: 810, Scale: 1})
	}
	all, base := stats.Count{K: 48, N: 2430, Scale: 1}, stats.Count{K: 24, N: 2430, Scale: 1}
	of := func(limit float64) Decision {
		return gateTest{gate: Gate{Metric: metric.ErrorRatio, Upper: true, Limit: limit}, looks: 3, breach: 0.02, last: true}.decideCounts(c)
	}
	holds := stats.CountDifference(all, base, 0.05*0.5/12)
	d := of(1)
	wants(t, "low", *d.Change.Low, *holds.Low)
	wants(t, "high", *d.Change.High, *holds.High)
	must.Contain(t, d.Why, "48 of 2430 requests failed, and 24 of 2430 of the baseline")
	low := *stats.CountDifference(all, base, 0.02/12).Low
	for limit, want := range map[float64]Outcome{low - 1e-9: Breached, low + 1e-9: Undecided} {
		if got := of(limit); got.Outcome != want {
			t.Errorf("limit %v: %s, want %s", limit, got.Outcome, want)
		}
	}
	// 16 of 810 requests without an answer are 3 of 150 requests/s less.
	for i := range c.treatment {
		c.treatment[i].Scale, c.baseline[i].Scale = 150, 150
	}
	d = gateTest{gate: Gate{Metric: metric.Rate}, looks: 3, breach: 0.02}.decideCounts(c)
	wants(t, "rate", *d.B, 150-150*16/810.0)
	wants(t, "rate of the baseline", *d.A, 150-150*8/810.0)
	// As many failures on both sides are not none.
	c.treatment = c.baseline
	d = gateTest{gate: Gate{Metric: metric.ErrorRatio, Upper: true, Limit: 1}, looks: 3, breach: 0.02}.decideCounts(c)
	base.Scale = 150
	wants(t, "low of equal counts", *d.Change.Low, *stats.CountDifference(base, base, 0.05*0.5/12).Low)
}

// The last failed execution of each side is named: the second of three, and none.
func TestLastFailuresAreNamed(t *testing.T) {
	run := &Run{Plan: plan.Plan{Blocks: 1}, Records: []result.Record{
		{Treatment: "b", Block: 1, Executions: []execution.Reading{{Exit: 1}, {Exit: 2}, {}}}, {Treatment: "a", Block: 1, Executions: make([]execution.Reading, 3)},
	}}
	c := countsOf(run, metric.ErrorRatio, "b", "a")
	if c == nil || !c.executed || len(c.treatment) != 1 || c.treatment[0].K != 2 || c.treatment[0].N != 3 || len(c.failures) != 1 {
		t.Fatalf("%+v", c)
	}
	must.Contain(t, c.failures[0], "b: exit code 2,")
	must.Contain(t, c.words(metric.ErrorRatio), "2 of 3 executions failed, and 0 of 3 of the baseline")
}

// The gate on failures takes its limit as 2 % and as 0.02.
func TestFailureGateByHand(t *testing.T) {
	run := &Run{}
	run.File.Validity.ErrorRatio = 0.02
	if g := failureGate(run); g.Limit != 0.02 || g.Text != "error_ratio < +2%" {
		t.Errorf("%+v", g)
	}
}

// Between runs the counts of two earlier runs are one sum, and each bound is wrong with 2.5 %.
func TestCountsBetweenRunsByHand(t *testing.T) {
	of := func(failed, requests int64) earlier {
		return earlier{run: &Run{Records: []result.Record{{Treatment: "b", Load: &result.Load{Classes: map[string]int64{"2xx": requests - failed, "timeout": failed}}}, {Treatment: "a", Load: &result.Load{Classes: map[string]int64{"timeout": 99}}}}}}
	}
	a := &Across{Confidence: 0.95, runs: []earlier{of(4, 500), of(4, 500), of(30, 1000)}, matched: map[string][]string{"b": {"b", "b", "b"}}}
	got, ok := a.checkCounts(Gate{Metric: metric.ErrorRatio, Upper: true, Limit: 0.01}, &Comparison{Treatment: "b", Metric: metric.ErrorRatio})
	want := stats.CountDifference(stats.Count{K: 30, N: 1000, Scale: 1}, stats.Count{K: 8, N: 1000, Scale: 1}, 0.025)
	if !ok || got.Outcome != Undecided {
		t.Fatalf("%+v, %v", got, ok)
	}
	wants(t, "change", got.Change.Estimate, 0.022)
	wants(t, "low", *got.Change.Low, *want.Low)
	wants(t, "high", *got.Change.High, *want.High)
	a.matched["b"][0] = "none"
	if _, ok := a.checkCounts(Gate{Metric: metric.ErrorRatio}, &Comparison{Treatment: "b"}); ok {
		t.Error("a run without counts is compared by counts")
	}
	var e *GateError
	if err := (&Across{}).noneFor(must.Get(ParseGate("rate{mesh=x} > -1%"))(t)); !errors.As(err, &e) || e.Column != 5 {
		t.Errorf("%+v, want column 5", e)
	}
}

// The distance to a limit is in deviations of a pair. Changes 1, 7, 2 and 6 have the mean 4 and the variance 26/3.
func TestDistancesOfGatesByHand(t *testing.T) {
	sd := math.Sqrt(26.0 / 3)
	_, distance := gateTest{gate: Gate{Metric: metric.Memory + "/data", Upper: true, Limit: 5}, looks: 4, breach: decisionError, last: true}.decide([]float64{11, 17, 12, 16}, []float64{10, 10, 10, 10})
	wants(t, "distance", distance, 1/sd)
	// Logarithms of ratios, of which a limit of +2 % is ln 1.02, and with 2 % more ln 1.04. Those of -1 % are ln 0.99 and ln 0.97.
	for _, c := range []struct {
		gate string
		mean float64
		want float64
	}{
		{"rate < +2%", 0.03, max(0.03-math.Log(1.02), math.Log(1.04)-0.03)}, {"rate < +2%", 0.024, math.Log(1.04) - 0.024}, {"rate < +2%", 0.035, 0.035 - math.Log(1.02)},
		{"rate > -1%", -0.015, -0.015 - math.Log(0.97)}, {"rate > -1%", -0.026, math.Log(0.99) + 0.026},
	} {
		var a, b []float64
		for _, noise := range []float64{-3, 3, -2, 2} {
			a, b = append(a, 200), append(b, 200*math.Exp(c.mean+0.1*noise))
		}
		_, distance := gateTest{gate: must.Get(ParseGate(c.gate))(t), detect: 0.02, looks: 4, breach: decisionError, last: true}.decide(b, a)
		wants(t, c.gate, distance, c.want/(0.1*sd))
	}
}

// The last third of twelve changes, 1, 2, 1 and 2, has the mean 1.5 and a half-width of 0.4728 at 80 % (Student's t of 3 is 1.6377).
func TestRecentChangesAtTheLimit(t *testing.T) {
	changes := []float64{90, 80, 90, 80, 90, 80, 90, 80, 1, 2, 1, 2}
	for limit, within := range map[float64]bool{1.972: false, 1.974: true} {
		if recentWithin(changes, limit, 1) != within {
			t.Errorf("below %v: %v", limit, !within)
		}
	}
	for limit, within := range map[float64]bool{1.028: false, 1.026: true} {
		if recentWithin(changes, limit, -1) != within {
			t.Errorf("above %v: %v", limit, !within)
		}
	}
	for limit, within := range map[float64]bool{2: false, 2.1: true} { // three of six, without spread
		if recentWithin([]float64{9, 9, 9, 2, 2, 2}, limit, 1) != within {
			t.Errorf("equal changes of 2 are below %v: %v", limit, !within)
		}
	}
	// All of four signs agree with a probability of 1/16, the least of so few.
	for _, c := range []struct {
		changes []float64
		want    bool
	}{{[]float64{3, 4, 5, 6}, true}, {[]float64{3, 4, 5, 1.5}, false}} {
		if got := rankedBeyond(c.changes, 2, 1); got != c.want {
			t.Errorf("%v are beyond 2: %v", c.changes, got)
		}
	}
}

// A plan needs as many tests as the levels of a question have headline metrics, and one more with an objective for the capacity.
func TestTestsOfPlansByHand(t *testing.T) {
	of := func(rates int, objective string) int {
		p := plan.Plan{}
		for i := range rates {
			rate := float64(i)
			base := plan.Treatment{ID: "none" + LevelText(rate), Factors: plan.Factors{"mesh": "none", "rate": rate}}
			base.Levels.Capacity.Objective = objective
			p.Treatments = append(p.Treatments, base, plan.Treatment{ID: "envoy" + LevelText(rate), Baseline: base.ID, Factors: plan.Factors{"mesh": "envoy", "rate": rate}})
		}
		few := TooFewBlocks(&p, 0.95)
		// With two degrees of freedom Student's t is (1-a)/√(a·(1-a/2)) at 1-a/2.
		a := 0.05 / float64(few.Tests)
		if three := (1-a)/math.Sqrt(a*(1-a/2)) <= 10*math.Sqrt(3); (few.Needed == stats.MinN) != three {
			t.Errorf("%d tests: %d blocks", few.Tests, few.Needed)
		}
		return few.Tests
	}
	one := of(1, "")
	if two, more := of(2, ""), of(1, "p99 < 10ms"); one < len(sweepMetrics) || two != 2*one || more != one+1 {
		t.Errorf("%d tests, %d of two levels, %d with an objective", one, two, more)
	}
}
