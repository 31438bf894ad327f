package compare

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// A treatment of 400 µs that may lack 30 or have 10 too many, and a baseline of 300 that may lack 5: the difference of 100 ±20
// is at least 100-20-10-5 and at most 100+20+30. A difference of 30 with the same interval then is not shown.
func TestLimitsWidenIntervals(t *testing.T) {
	name := metric.Of(metric.CPUPerRequest, "data")
	trial := func(value float64, l figures.Limit) figures.Measured {
		return figures.Measured{Trial: figures.Trial{Metrics: map[string]float64{name: value}}, Limits: map[string]figures.Limit{name: l}}
	}
	by := map[string][]figures.Measured{
		"envoy": {trial(390, figures.Limit{Below: 5, Above: 40}), trial(410, figures.Limit{Below: 15, Above: 20})},
		"none":  {trial(300, figures.Limit{Above: 5})},
	}
	interval := func(low, estimate, high float64) *stats.Interval {
		return &stats.Interval{Estimate: estimate, Low: &low, High: &high}
	}
	cs := []compared{
		{Comparison: Comparison{Treatment: "envoy", Baseline: "none", Metric: name, Difference: interval(80, 100, 120), Ratio: interval(1.2, 1.33, 1.5), Verdict: Higher}},
		{Comparison: Comparison{Treatment: "envoy", Baseline: "none", Metric: name, Difference: interval(10, 30, 50), Verdict: Higher}},
		{Comparison: Comparison{Treatment: "envoy", Baseline: "none", Metric: name, Difference: interval(80, 100, 120), Verdict: Higher, Control: true}},
	}
	limit(cs, nil, by)
	for i, want := range []struct {
		low, high float64
		verdict   Verdict
	}{{65, 150, Higher}, {-5, 80, NotShown}, {80, 120, Higher}} {
		if d := cs[i].Difference; *d.Low != want.low || *d.High != want.high || cs[i].Verdict != want.verdict {
			t.Errorf("comparison %d is %v to %v, %s, want %v to %v, %s", i, *d.Low, *d.High, cs[i].Verdict, want.low, want.high, want.verdict)
		}
	}
	// The ratio of 390/305 and 430/300, with the same spread.
	if r := cs[0].Ratio; *r.Low < 1.2*390/400*300/305-1e-9 || *r.Low > 1.2*390/400*300/305+1e-9 || *r.High < 1.5*430/400-1e-9 || *r.High > 1.5*430/400+1e-9 {
		t.Errorf("ratio %v to %v", *r.Low, *r.High)
	}
	if len(cs[0].Warnings) != 1 || cs[0].Warnings[0].Code != "idle-unclear" || len(cs[2].Warnings) != 0 {
		t.Errorf("warnings %v and %v", cs[0].Warnings, cs[2].Warnings)
	}
}

// A gate of at most 5 µs more: blocks of 3 ±0.1 µs hold it. With 4 µs of deferred work that may be missing it is undecided, and so
// is a breach by 7 µs of which 4 may be idle.
func TestGatesWithinLimits(t *testing.T) {
	name := metric.Of(metric.CPUPerRequest, "data")
	for _, c := range []struct {
		change float64
		limit  figures.Limit
		want   Outcome
	}{
		{3, figures.Limit{}, Holds}, {3, figures.Limit{Above: 1}, Holds}, {3, figures.Limit{Above: 4}, Undecided}, {3, figures.Limit{Below: 4}, Holds},
		{7, figures.Limit{}, Breached}, {7, figures.Limit{Below: 1}, Breached}, {7, figures.Limit{Below: 4}, Undecided}, {7, figures.Limit{Above: 4}, Breached},
	} {
		trials := map[string][]figures.Measured{}
		for block := 1; block <= 12; block++ {
			noise := 0.1 * float64(block%3-1)
			trials["b"] = append(trials["b"], figures.Measured{Trial: figures.Trial{Block: block, Metrics: map[string]float64{name: 100 + c.change + noise}}, Limits: map[string]figures.Limit{name: c.limit}})
			trials["a"] = append(trials["a"], figures.Measured{Trial: figures.Trial{Block: block, Metrics: map[string]float64{name: 100}}})
		}
		w := gateTest{gate: Gate{Metric: name, Upper: true, Limit: 5}, looks: 12, breach: decisionError, last: true}
		run := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: 12}}
		if d, _ := w.judge(run, "b", "a", trials); d.Outcome != c.want {
			t.Errorf("%+v: %s, want %s: %s", c, d.Outcome, c.want, d.Why)
		}
	}
}

// A ratio of 1.25 to 1.6 at means of 400 and 320: values of 400 may be 20 less or 40 more, and of 320 may be 32 less or 8 more.
// The difference then is 28 less to 72 more.
func TestLimitsOfBothSides(t *testing.T) {
	name := metric.Of(metric.CPUPerRequest, "data")
	by := map[string][]figures.Measured{
		"b": {{Trial: figures.Trial{Metrics: map[string]float64{name: 400}}, Limits: map[string]figures.Limit{name: {Below: 20, Above: 40}}}},
		"a": {{Trial: figures.Trial{Metrics: map[string]float64{name: 320}}, Limits: map[string]figures.Limit{name: {Below: 32, Above: 8}}}},
	}
	cs := []compared{{Comparison: Comparison{Treatment: "b", Baseline: "a", Metric: name, Difference: interval(70, 90), Ratio: interval(1.25, 1.6), Verdict: Higher}}}
	limit(cs, nil, by)
	wants(t, "low", *cs[0].Difference.Low, 70-28)
	wants(t, "high", *cs[0].Difference.High, 90+72)
	wants(t, "low ratio", *cs[0].Ratio.Low, 1.25*0.95/1.025)
	wants(t, "high ratio", *cs[0].Ratio.High, 1.6*1.1/0.9)
}

// Within 5 % are ratios of 1/1.05, which is 0.95238, to 1.05.
func TestEquivalenceWithinLimits(t *testing.T) {
	name := metric.Of(metric.CPUPerRequest, "data")
	for _, c := range []struct {
		low, high float64
		want      Verdict
	}{{0.9525, 1.0499, Same}, {0.9522, 1.0499, NotShown}, {0.9525, 1.0501, NotShown}} {
		cs := []compared{{Comparison: Comparison{Treatment: "b", Baseline: "a", Metric: name, Difference: interval(-1, 1), Ratio: interval(c.low, c.high), Verdict: Same, Equivalence: &Equivalence{Margin: 0.05, Within: true}}}}
		trial := func(l figures.Limit) []figures.Measured {
			return []figures.Measured{{Trial: figures.Trial{Metrics: map[string]float64{name: 100}}, Limits: map[string]figures.Limit{name: l}}}
		}
		limit(cs, nil, map[string][]figures.Measured{"b": trial(figures.Limit{Above: 1e-7}), "a": trial(figures.Limit{})})
		if got := cs[0]; got.Verdict != c.want || got.Equivalence.Within != (c.want == Same) || got.Equivalence.Margin != 0.05 {
			t.Errorf("%v to %v: %s, %+v", c.low, c.high, got.Verdict, got.Equivalence)
		}
	}
}

// Differences below 1e-9 of the larger value, and values that differ in the last digit, are rounding. Half of a baseline is lower.
func TestRoundingByHand(t *testing.T) {
	for _, c := range []struct {
		difference, a, b float64
		want             bool
	}{{5e-7, 1000, -900, true}, {5e-7, -900, 1000, true}, {2e-6, 1000, 900, false}, {2e-12, 1e-3, 0, false}, {-5e-13, 1e-3, 0, true}} {
		if got := isZero(c.difference, c.a, c.b); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	x, third := estimator{blocks: 2}, 0.1 // the second block has no trial
	third += 0.2                          // 0.30000000000000004
	p := x.pairs("x", map[int]figures.Measured{1: {Trial: figures.Trial{Metrics: map[string]float64{"x": third}}}}, map[int]figures.Measured{1: {Trial: figures.Trial{Metrics: map[string]float64{"x": 0.3}}}})
	if len(p.treatment) != 1 || p.treatment[0] != 0.3 || p.lost != 1 {
		t.Errorf("%v, want 0.3", p.treatment)
	}
	wants(t, "direction", (&compared{Comparison: Comparison{OnRatio: true, Ratio: interval(0.4, 0.6)}}).direction(), -0.5)
	wants(t, "direction of a mean", (&pooled{Pooled: Pooled{OnRatio: true, Ratio: interval(0.4, 0.6)}}).direction(), -0.5)
}

// The speed of a block is the mean of the relative work of all treatments, here 1+s: of one 0.005 more and of the other 0.005 less,
// or the other way round. Of a cost of 300 + 200 s the slope is 200. A row without a value, or with an infinite one, is no reading.
func TestSpeedOfSlicesByHand(t *testing.T) {
	m := &machineSpeed{byTreatment: map[string]map[int]figures.SliceCosts{"a": {}, "b": {}}}
	var p pairs
	const rows = 12
	for block := 1; block <= 6; block++ {
		of, shift := map[string]figures.SliceCosts{"a": {}, "b": {}}, 0.01*(float64(block)-3.5)
		own := 0.005 * float64(1-2*(block%2))
		work := func(id string, s float64) float64 {
			if id == "a" {
				return 60 * (1 + s + own)
			}
			return 40 * (1 + s - own)
		}
		sum := 0.0
		for row := range rows {
			s := 0.1*float64(row%3-1) + shift
			cost := 300 + 200*s + 0.1*float64(row%2)
			sum += cost / rows
			for id := range of {
				for _, part := range figures.SpeedParts {
					of[id][part] = append(of[id][part], work(id, s))
				}
			}
			of["b"]["data"], of["a"]["data"] = append(of["b"]["data"], cost), append(of["a"]["data"], 0)
		}
		of["b"]["data"], of["a"]["data"] = append(of["b"]["data"], math.NaN(), math.Inf(1)), append(of["a"]["data"], 0, 0)
		for id := range of {
			for _, part := range figures.SpeedParts {
				of[id][part] = append(of[id][part], work(id, shift), math.NaN())
			}
			m.byTreatment[id][block] = of[id]
		}
		p.blocks, p.treatment, p.baseline = append(p.blocks, block), append(p.treatment, sum), append(p.baseline, 0)
	}
	at, from, ok := m.differences(dataCPU, "b", "a", p)
	if !ok || len(from) != 2 || len(figures.SpeedParts) != 2 || math.Abs(at.Slope-200) > 1e-6 || at.DF != 4 {
		t.Errorf("%+v, %v, %v", at, from, ok)
	}
	for _, d := range at.Differences {
		if math.Abs(d-300.05) > 1e-6 {
			t.Errorf("differences %v, want 300.05", at.Differences)
		}
	}
}
