package compare

import (
	"math"

	"github.com/tare-mesh/tare/internal/stats"
)

// Judged is the comparison with the interval that its verdict rests on, of the difference or of the ratio. An undecided
// comparison whose own interval excludes no difference has the wider one of all comparisons together. The other interval is
// absent where it contradicts the verdict.
func (c Comparison) Judged(confidence float64) Comparison {
	if c.Verdict == Insufficient || c.P == nil || c.PAdjusted == nil {
		return c
	}
	shown := c.Verdict == Higher || c.Verdict == Lower
	level := (1 - confidence) * *c.P / max(*c.PAdjusted, math.SmallestNonzeroFloat64)
	switch {
	case shown:
	case c.OnRatio && c.Ratio != nil && c.Ratio.Excludes(1) && *c.Ratio.Low > 0:
		c.Ratio = new(stats.AtLevel(c.Ratio.Map(math.Log), 0, *c.P, level, c.N).Map(math.Exp))
	case !c.OnRatio && c.Difference != nil && c.Difference.Excludes(0):
		c.Difference = new(stats.AtLevel(*c.Difference, 0, *c.P, level, c.N))
	}
	c.Difference, c.Ratio = agreeing(c.Difference, 0, shown), agreeing(c.Ratio, 1, shown)
	return c
}

// Judged is the mean over levels with the interval that its verdict rests on.
func (p Pooled) Judged(confidence float64) Pooled {
	c := Comparison{Difference: p.Difference, Ratio: p.Ratio, N: p.N, P: p.P, PAdjusted: p.PAdjusted, OnRatio: p.OnRatio, Verdict: p.Verdict}.Judged(confidence)
	p.Difference, p.Ratio = c.Difference, c.Ratio
	return p
}

// agreeing is i, without its ends if they contradict a verdict.
func agreeing(i *stats.Interval, none float64, shown bool) *stats.Interval {
	if i == nil || !i.Known() || i.Excludes(none) == shown {
		return i
	}
	return &stats.Interval{Estimate: i.Estimate}
}
