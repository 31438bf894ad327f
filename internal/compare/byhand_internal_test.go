package compare

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

func wants(t *testing.T, name string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

// Six pairs find 1.4352 deviations with 80 % at 5 % (R's power.t.test).
func TestSensitivityByHand(t *testing.T) {
	s := Sensitivity{Spread: stats.Interval{Estimate: 0.1}, Level: 0.05}
	d, ok := s.Shows(6)
	if math.Abs(d-0.14352) > 1e-4 || !ok {
		t.Errorf("six blocks show %v", d)
	}
	if n, high, ok := s.Blocks(0.1436); n != 6 || high != 0 || !ok {
		t.Errorf("%d blocks, at most %d", n, high)
	}
	if n, _, _ := s.Blocks(0.1434); n != 7 {
		t.Errorf("%d blocks, want 7", n)
	}
	s.Ratio = true
	if d, _ := s.Shows(6); math.Abs(d-math.Expm1(0.14352)) > 1e-4 {
		t.Errorf("six blocks show a ratio of %v", d)
	}
	if n, _, _ := s.Blocks(math.Expm1(0.1436)); n != 6 {
		t.Errorf("%d blocks of a ratio", n)
	}
	low, high := 0.05, 0.2 // twice the spread needs as many blocks as half of the share
	s.Spread.Low, s.Spread.High = &low, &high
	_, most, _ := s.Blocks(math.Expm1(0.2872))
	if most != 6 {
		t.Errorf("%d blocks at the upper end, want 6", most)
	}
}

// Values 10, 12 and 14 have a deviation of 2. It is relative to the mean of the treatment, but not of logarithms.
func TestSpreadByHand(t *testing.T) {
	name := metric.Of(metric.CPUPerRequest, "total")
	treatments := []Treatment{{ID: "a"}, {ID: "b", Metrics: map[string]Estimate{name: {Interval: stats.Interval{Estimate: 40}}}}}
	c := compared{Comparison: Comparison{Treatment: "b", Metric: name}, values: []float64{10, 12, 14}}
	spread, df, ok := c.spread(treatments, true)
	wants(t, "spread", spread, 0.05)
	wants(t, "freedom", df, 2)
	c.Speed, c.test = &SpeedAdjusted{}, stats.Result{SD: 1, DF: 30}
	adjusted, freedom, _ := c.spread(treatments, true)
	wants(t, "spread at the mean speed", adjusted, 1.0/40)
	wants(t, "freedom at the mean speed", freedom, 30)
	c.OnRatio = true
	logs, _, _ := c.spread(treatments, true)
	wants(t, "spread of logarithms", logs, 2)
	c.values = c.values[:2]
	if _, _, two := c.spread(treatments, true); !ok || two {
		t.Errorf("known: %v, of two values: %v", ok, two)
	}
}

// Memory that surely grows by 4.8 MiB a minute grows by 1.2 in the second half of 30 s: 2 % of 60 MiB.
func TestStillGrowsAtTheLimit(t *testing.T) {
	high := 99.0
	for low, want := range map[float64]bool{4.8: false, 4.81: true} {
		if got := StillGrows(stats.Interval{Estimate: 9, Low: &low, High: &high}, 60, 30); got != want {
			t.Errorf("%v MiB a minute: %v", low, got)
		}
	}
}

// Of 200 requests/s for the treatment 30 of 1000 lack, and 20 of 2000 for the baseline: 194 and 198, so 4 less or 2.02 %.
func TestChangeOfRateByHand(t *testing.T) {
	treatment, baseline := stats.Count{K: 30, N: 1000, Scale: 200}, stats.Count{K: 20, N: 2000, Scale: 200}
	g := Gate{Metric: metric.Rate}
	change := g.changeOfCounts(treatment, baseline, 0.025)
	wants(t, "change", change.Estimate, -4)
	// Clopper and Pearson: 30 of 1000 is 0.020331 to 0.042564, and 20 of 2000 0.006118 to 0.015403 (bisection of binomial sums).
	if low := -4 - 200*math.Hypot(0.042564-0.03, 0.01-0.006118); math.Abs(*change.Low-low) > 2e-2 {
		t.Errorf("from %v, want %v", *change.Low, low)
	}
	if high := -4 + 200*math.Hypot(0.03-0.020331, 0.015403-0.01); math.Abs(*change.High-high) > 2e-2 {
		t.Errorf("to %v, want %v", *change.High, high)
	}
	g.Relative = true
	wants(t, "relative change", g.changeOfCounts(treatment, baseline, 0.025).Estimate, -400.0/198)
	// A share of 3 % is three times 1 %: 200 % more.
	wants(t, "change of a share", Gate{Metric: metric.ErrorRatio, Relative: true}.changeOfCounts(stats.Count{K: 30, N: 1000, Scale: 1}, stats.Count{K: 20, N: 2000, Scale: 1}, 0.025).Estimate, 200)
	if g := (Gate{Upper: true, Limit: 3}).widened(0.5); g.Limit != 3.5 {
		t.Errorf("an upper limit of 3 with 0.5: %v", g.Limit)
	}
	if g := (Gate{Limit: -3}).widened(0.5); g.Limit != -3.5 {
		t.Errorf("a lower limit of -3 with 0.5: %v", g.Limit)
	}
}

// Half of the planned pairs, rounded up, and at most 20. The first look is after four.
func TestLeastToHold(t *testing.T) {
	for planned, want := range map[int]int{6: 4, 9: 5, 10: 5, 15: 8, 39: 20, 300: 20} {
		if got := LeastToHold(planned); got != want {
			t.Errorf("%d planned: from %d pairs on, want %d", planned, got, want)
		}
	}
	w := gateTest{looks: 15}
	if w.holdsAfter(7) || !w.holdsAfter(8) {
		t.Error("a gate of 15 pairs holds from 8 on")
	}
	if w.last = true; !w.holdsAfter(4) || w.holdsAfter(3) {
		t.Error("at the end a gate holds from 4 on")
	}
}

// Half a deviation at 10 % with 80 % power: R's power.t.test gives 26.14 pairs.
func TestMorePairsByHand(t *testing.T) {
	for pairs, want := range map[int]int{10: 17, 26: 1, 30: 1} {
		if got := morePairs(0.5, pairs); got != want {
			t.Errorf("after %d pairs %d more, want %d", pairs, got, want)
		}
	}
	if got := morePairs(0.01, 10); got != 0 {
		t.Errorf("%d more for a hundredth of a deviation", got)
	}
}

// A limit is far from an interval if it is beyond three times its half width.
func TestFarFromAtTheLimit(t *testing.T) {
	r := stats.Result{Interval: *interval(8, 12)}
	for limit, far := range map[float64]bool{16: false, 16.1: true, 4: false, 3.9: true} {
		if farFrom(limit, r) != far {
			t.Errorf("%v is far from 8 to 12: %v", limit, !far)
		}
	}
}

// A metric that one of four trials lacks has the mean of the others, and a warning.
func TestUnknownInTrialsByHand(t *testing.T) {
	name := metric.Of(metric.CPUPerRequest, "total")
	run := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: 4}, Plan: plan.Plan{Trials: []plan.Trial{{Treatment: "a"}, {Treatment: "b"}, {Treatment: "a"}}}}
	trials := measuredIn("a", name, 10, 11, 15, 99)
	delete(trials[3].Metrics, name)
	got := run.treatment(plan.Treatment{ID: "a"}, trials)
	e := got.Metrics[name]
	wants(t, "mean", e.Estimate, 12)
	if got.Planned != 2 || len(e.Warnings) != 1 || e.Warnings[0].Code != "unknown-in-trials" || e.Warnings[0].Trials != 1 {
		t.Errorf("%d planned, %+v", got.Planned, e.Warnings)
	}
	if d := (gateTest{gate: Gate{Metric: name, Relative: true}, detect: 0.02}).open(0); d.Detect != 2 || d.Unit != "%" {
		t.Errorf("%+v, want a detected change of 2 %%", d)
	}
}

// Limits of more than a fifth of the interval have a warning: of 10 to 30 widened by 2 and 3 they are 5 of 25.
func TestUnclearLimits(t *testing.T) {
	name := metric.Of(metric.CPUPerRequest, "data")
	for above, warned := range map[float64]bool{3: false, 3.1: true} {
		cs := []compared{{Comparison: Comparison{Treatment: "b", Baseline: "a", Metric: name, Difference: interval(10, 30), Verdict: Higher}}}
		limit(cs, nil, map[string][]figures.Measured{"b": {{Trial: figures.Trial{Metrics: map[string]float64{name: 100}}, Limits: map[string]figures.Limit{name: {Below: 2, Above: above}}}}})
		if got := cs[0].Warnings != nil; got != warned || warned && !strings.HasPrefix(cs[0].Warnings[0].Message, "20 % ") {
			t.Errorf("limits of %v and 2: %+v", above, cs[0].Warnings)
		}
	}
}

// The surer of two steps is tested at half of the level, and the other by Bonferroni.
func TestLadderLevelsByHand(t *testing.T) {
	name := metric.Of(metric.CPUPerRequest, "total")
	m, _ := metric.Lookup(name)
	values := [][]float64{{100, 101, 99, 100}, {110, 112, 110, 109}, {112, 112, 111, 113}}
	var steps []map[int]figures.Measured
	for i, v := range values {
		steps = append(steps, byBlock(measuredIn(fmt.Sprint(i), name, v...)))
	}
	x := estimator{confidence: 0.95, method: Paired, blocks: 4}
	l := x.ladderMetric(m, []string{"0", "1", "2"}, steps)
	for i := range 2 {
		want := stats.PairedDifference(values[i+1], values[i], 0.975)
		wants(t, "low", *l.Increments[i].Adjusted.Low, *want.Low)
		wants(t, "high", *l.Increments[i].Adjusted.High, *want.High)
	}
	wants(t, "sum", l.Sum, 10.25+1.75)
	wants(t, "whole", l.Whole.Estimate, 12)
}

// The mean over two levels has the mean of their limits: 2 and 4 below, 3 and 1 above.
func TestLimitsOfMeans(t *testing.T) {
	name := metric.Of(metric.CPUPerRequest, "data")
	by, cs := map[string][]figures.Measured{}, []compared{}
	for id, l := range map[string]figures.Limit{"b": {Below: 2, Above: 3}, "c": {Below: 4, Above: 1}} {
		by[id] = []figures.Measured{{Trial: figures.Trial{Metrics: map[string]float64{name: 100}}, Limits: map[string]figures.Limit{name: l}}}
		cs = append(cs, compared{Comparison: Comparison{Treatment: id, Baseline: "a", Metric: name, Difference: interval(10, 30), Verdict: Higher}})
	}
	q := asked{Question: Question{Treatments: []string{"b", "c"}}, pooled: []pooled{{Pooled: Pooled{Metric: name, Difference: interval(10, 30), Verdict: Higher}}}}
	limit(cs, []asked{q}, by)
	d := q.pooled[0].Difference
	wants(t, "low", *d.Low, 7)
	wants(t, "high", *d.High, 32)
}
