package compare

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
)

// The interval of a verdict excludes no difference only if the verdict shows one. Four pairs with t = 4 have p 0.0280; at level
// 0.0125, one fourth of 5 %, Student's quantile with three degrees of freedom is 5.392.
func TestJudged(t *testing.T) {
	const p, adjusted = 0.028009, 0.112037
	low, high := 640-3.18245*160, 640+3.18245*160
	c := Comparison{Difference: &stats.Interval{Estimate: 640, Low: &low, High: &high}, N: 4, P: new(p), PAdjusted: new(adjusted), Verdict: NotShown}
	got := c.Judged(0.95).Difference
	if half := (*got.High - *got.Low) / 2; math.Abs(half-5.392*160) > 1 || got.Estimate != 640 {
		t.Errorf("640 ± %g, want ± %g", half, 5.392*160)
	}
	c.PAdjusted, c.Verdict = new(p), Higher
	if got := c.Judged(0.95).Difference; *got.Low != low || *got.High != high {
		t.Errorf("a shown difference: %g to %g", *got.Low, *got.High)
	}
	ratio := stats.Interval{Estimate: 1.5, Low: new(1.13), High: new(2.0)}
	c = Comparison{Difference: c.Difference, Ratio: &ratio, N: 4, OnRatio: true, P: new(p), PAdjusted: new(adjusted), Verdict: NotShown}
	of := c.Judged(0.95)
	if of.Ratio.Excludes(1) || of.Difference.Known() {
		t.Errorf("ratio %g to %g, difference %v", *of.Ratio.Low, *of.Ratio.High, of.Difference)
	}
	c.Verdict = Insufficient
	if of := c.Judged(0.95); of.Ratio != &ratio {
		t.Error("an interval without a verdict changed")
	}
}
