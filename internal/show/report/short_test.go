package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/analysis/analysistest"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
)

// A report without --all has 40 lines at most, in common words, and ends with the sentences that it begins with.
func TestShortText(t *testing.T) {
	many := small(nil)
	for i := range 20 {
		tr := many.Treatments[2]
		tr.ID, tr.Factors = fmt.Sprint("envoy-", i), plan.Factors{"mesh": fmt.Sprint("envoy-", i)}
		many.Treatments = append(many.Treatments, tr)
	}
	for name, s := range map[string]analysistest.Study{"many": many, "quickstart": analysistest.Quickstart(), "two rates": analysistest.TwoRates(), "troubled": troubled()} {
		r := reportOf(t, s)
		for _, width := range []int{40, 80, 0} {
			var b strings.Builder
			if err := writeText(&b, r, Options{Width: width}); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
			if len(lines) > shortLines {
				t.Errorf("%s, %d columns: %d lines\n%s", name, width, len(lines), b.String())
			}
			for _, word := range []string{"Holm", "A/A", "80 % power"} {
				if strings.Contains(b.String(), word) {
					t.Errorf("%s: %q in\n%s", name, word, b.String())
				}
			}
			if first := lines[0]; len(lines) > screenLines && strings.Count(b.String(), first+"\n") != 2 {
				t.Errorf("%s: the end is without %q\n%s", name, first, b.String())
			}
		}
	}
}

// With faults or expectations, the failed requests of each treatment come first, with what did not hold.
func TestAnswerWithFailures(t *testing.T) {
	treatment := func(mesh string, errors float64) analysis.Treatment {
		return analysis.Treatment{ID: mesh, Factors: plan.Factors{"mesh": mesh}, Metrics: map[string]analysis.Estimate{
			metric.ErrorRatio: {Interval: stats.Interval{Estimate: errors}, N: 3}, metric.Recovery: {N: 3}}}
	}
	r := &analysis.Report{Method: analysis.Paired, Count: analysis.Count{Planned: 9, Used: 9},
		Treatments: []analysis.Treatment{treatment("none", 0.514), treatment("envoy", 0.231), treatment("envoy-retries", 0)},
		Expectations: []analysis.Expectation{{Treatment: "none", Expect: "p99 < 250ms", N: 3, Held: 3}, {Treatment: "envoy", Expect: "p99 < 250ms", N: 3, Held: 1},
			{Treatment: "envoy", Expect: "status(5xx) == 0", N: 3}, {Treatment: "envoy-retries", Expect: "p99 < 250ms", N: 3, Held: 3}}}
	want := []string{"no mesh: 51 % of requests failed; every expectation held.",
		"envoy: 23 % of requests failed; did not hold: p99 < 250ms (2 of 3 trials), status(5xx) == 0 (3 of 3 trials).",
		"envoy-retries: no request failed; every expectation held.", "All 9 trials are valid."}
	got := Answer(r)
	for i, line := range want {
		if i >= len(got) || got[i] != line {
			t.Fatalf("%q, want line %d %q", got, i+1, line)
		}
	}
}
