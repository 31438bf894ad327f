package report

import (
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/stats"
)

// A difference whose interval contradicts a verdict by the ratio has none. It is not the same each time.
func TestWordsOfADifferenceWithoutInterval(t *testing.T) {
	ratio := &stats.Interval{Estimate: 1.48, Low: new(0.79), High: new(2.77)}
	alone := &stats.Interval{Estimate: 1.05}
	for _, test := range []struct {
		c    compare.Comparison
		want string
	}{
		{compare.Comparison{Difference: alone, Ratio: ratio, OnRatio: true}, "no difference shown"},
		{compare.Comparison{Difference: alone, Ratio: ratio}, "no difference shown, the same each time"},
		{compare.Comparison{Difference: alone, Ratio: &stats.Interval{Estimate: 1.48}, OnRatio: true}, "no difference shown, the same each time"},
	} {
		test.c.Metric, test.c.N, test.c.Verdict = "latency_ms/p99", 6, compare.NotShown
		if got := verdictWords(test.c); got != test.want {
			t.Errorf("%+v: %q, want %q", test.c, got, test.want)
		}
	}
}
