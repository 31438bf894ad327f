package compare

import (
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
