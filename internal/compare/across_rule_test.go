package compare

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/difftest"
)

// Two runs are judged by the rule of a report: latencies by their ratio. A change without
// spread is adjusted as any other.
func TestChangesAreJudgedAsInAReport(t *testing.T) {
	base := []float64{1, 1.2, 1.4, 1.1, 9}
	next := []float64{2, 2.4, 2.8, 2.2, 18} // twice as slow, with one slow trial
	x := estimator{confidence: 0.95}
	for _, c := range []struct {
		name    string
		onRatio bool
	}{{metric.Latency + "/p99", true}, {metric.Memory + "/data", false}} {
		got := compared{Comparison: Comparison{Metric: c.name, Runs: &Runs{}}}
		change(&x, &got, [][]float64{base}, next, false)
		want := stats.Welch(next, base, 0.95).P
		if c.onRatio {
			want = stats.WelchRatio(next, base, 0.95).P
		}
		if got.OnRatio != c.onRatio || got.P == nil || *got.P != *want {
			t.Errorf("%s: %+v, p %v, want %v", c.name, got.OnRatio, *got.P, *want)
		}
	}
	equal := func(next float64) compared {
		c := compared{Comparison: Comparison{Metric: metric.Memory + "/data", Family: Headline, Runs: &Runs{}}}
		change(&x, &c, [][]float64{{5, 5, 5}}, []float64{next, next, next}, false)
		return c
	}
	cs := []compared{equal(6), equal(5)}
	sizes := x.adjust(cs, nil)
	if c := cs[0]; c.P == nil {
		t.Errorf("three against three equal trials: %+v", c)
	} else if d := difftest.Wrong("math.Abs(*c.P-0.1) > 1e-9", math.Abs(*c.P-0.1) > 1e-9, "c.PAdjusted == nil", c.PAdjusted == nil, "c.Verdict != NotShown", c.Verdict != NotShown); d != "" {
		t.Errorf("%s: three against three equal trials: %+v", d, c)
	}
	if c := cs[1]; c.P != nil || c.Verdict != NotShown || sizes[Headline] != 1 {
		t.Errorf("no change: %+v, %v", c, sizes)
	}
}
