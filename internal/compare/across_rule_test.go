package compare

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Two runs are judged by the rule of a report: latencies by their ratio. A change without
// spread is adjusted as any other.
func TestChangesAreJudgedAsInAReport(t *testing.T) {
	base := []float64{1, 1.2, 1.4, 1.1, 9}
	next := []float64{2, 2.4, 2.8, 2.2, 18} // twice as slow, with one slow trial
	for _, c := range []struct {
		name    string
		onRatio bool
	}{{metric.Latency + "/p99", true}, {metric.Memory + "/data", false}} {
		m, _ := metric.Lookup(c.name)
		x := Change{Metric: c.name}
		x.fill([][]float64{base}, next, 0.95, m.Judged)
		want := stats.Welch(next, base, 0.95).P
		if c.onRatio {
			want = stats.WelchRatio(next, base, 0.95).P
		}
		if x.OnRatio != c.onRatio || x.P == nil || *x.P != *want {
			t.Errorf("%s: %+v, p %v, want %v", c.name, x.OnRatio, *x.P, *want)
		}
	}
	a := &Across{Confidence: 0.95, Changes: []Change{{Family: Headline}, {Family: Headline}}}
	a.Changes[0].fill([][]float64{{5, 5, 5}}, []float64{6, 6, 6}, 0.95, metric.ByDifference)
	a.Changes[1].fill([][]float64{{5, 5, 5}}, []float64{5, 5, 5}, 0.95, metric.ByDifference)
	a.adjust()
	if c := a.Changes[0]; c.P == nil || math.Abs(*c.P-0.1) > 1e-9 || c.PAdjusted == nil || c.Verdict != NotShown {
		t.Errorf("three against three equal trials: %+v", c)
	}
	if c := a.Changes[1]; c.P != nil || c.Verdict != NotShown || a.Families[Headline] != 1 {
		t.Errorf("no change: %+v, %v", c, a.Families)
	}
}
