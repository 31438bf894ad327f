package report

import (
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// The answer of compared runs is what both have: the time, the rate and the failures of imports, the CPU of a request otherwise.
func TestAcrossAnswer(t *testing.T) {
	change := func(name string, was, is float64, n int, verdict compare.Verdict, interval stats.Interval) compare.Comparison {
		return compare.Comparison{Treatment: "istio", Factors: plan.Factors{"mesh": "istio"}, Metric: name, Verdict: verdict, Difference: &interval, Runs: &compare.Runs{Base: &was, New: &is, NBase: n, NNew: n}}
	}
	service := metric.Of(metric.ServiceTime, "p50")
	for name, c := range map[string]struct {
		changes []compare.Comparison
		want    []string
	}{
		"one import each": {[]compare.Comparison{change(service, 2, 3.3, 1, compare.Insufficient, stats.Interval{Estimate: 1.3}), change(metric.Rate, 500, 400, 1, compare.Insufficient, stats.Interval{Estimate: -100}), change(metric.ErrorRatio, 0, 0, 1, compare.Insufficient, stats.Interval{})},
			[]string{"istio: the median service time is 3.3 ms, before 2.0 ms (+1.30 ms): one run each, and an interval needs three.", "istio: the rate of answers is 400 /s, before 500 /s (-100 /s): one run each, and an interval needs three."}},
		"several imports": {[]compare.Comparison{change(service, 2, 3.3, 4, compare.Higher, around(1.3, 0.02)), change(metric.ErrorRatio, 0.01, 0.02, 4, compare.NotShown, around(0.01, 0.03))},
			[]string{"istio: the median service time is higher: 3.3 ms, before 2.0 ms (+1.300 ms ±0.020).", "istio: no change of the share of failed requests is shown: 2.0 %, before 1.0 % (+1.0 points ±3.0)."}},
		"a run of tare": {[]compare.Comparison{change(answerCost, 120, 140, 8, compare.Higher, around(20, 3)), change(service, 2, 3, 8, compare.Higher, around(1, 0.1))},
			[]string{"istio: the CPU per request is higher: 140 µs, before 120 µs (+20.0 µs ±3.0)."}},
		"nothing": {nil, []string{"The runs have no figure in common."}},
	} {
		a := &compare.Across{Confidence: 0.95, Base: compare.Side{Dir: "runs/a"}, Changes: c.changes}
		if got := AcrossAnswer(a); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	gate := &compare.Across{Confidence: 0.95, Base: compare.Side{Dir: "runs/a"}, Changes: []compare.Comparison{change(answerCost, 120, 140, 8, compare.Higher, around(20, 3))},
		Gates: []compare.GateCheck{{Gate: "cpu_us_per_request/total < +3%", Treatment: "istio", Factors: plan.Factors{"mesh": "istio"}, Metric: answerCost, Unit: "%", Outcome: compare.Breached, Change: interval(16, 2)}}}
	if got, want := AcrossAnswer(gate)[0], "The gate “cpu_us_per_request/total < +3%” is breached: +16.0 % (+14.0 to +18.0), istio."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
