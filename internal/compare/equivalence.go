package compare

import (
	"math"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Equivalence is the test whether treatment and baseline are the same to
// within a margin, which "no difference shown" does not imply.
type Equivalence struct {
	Margin float64 `json:"margin"` // of the ratio, 0..1
	// P of two one-sided tests, not adjusted. It is absent if every trial agrees to the last digit.
	P      *float64 `json:"p,omitempty"`
	Within bool     `json:"within"`
}

// judge takes the verdict of latencies from their ratio, and tests whether both
// sides are the same to within the margin.
func (x *estimator) judge(c *compared, ratio stats.Result, within func(margin float64) (float64, bool)) {
	if m, _ := metric.Lookup(c.Metric); m.Judged == metric.ByRatio && ratio.P != nil {
		c.P, c.OnRatio, c.test = ratio.P, true, ratio
	}
	if x.margin <= 0 {
		return
	}
	if p, ok := within(x.margin); ok {
		c.Equivalence = &Equivalence{Margin: x.margin, P: &p, Within: p < x.alpha()}
	} else if ratio.Why == stats.NoSpread {
		c.Equivalence = &Equivalence{Margin: x.margin, Within: math.Abs(math.Log(ratio.Estimate)) <= math.Log1p(x.margin)}
	}
	c.same()
}

// same changes the verdict [NotShown] to [Same] if the ratio is within the margin.
func (c *compared) same() {
	if c.Verdict == NotShown && c.Equivalence != nil && c.Equivalence.Within {
		c.Verdict = Same
	}
}

// direction is the basis of the verdict: above zero if the treatment is higher.
func (c *compared) direction() float64 {
	if c.OnRatio && c.Ratio != nil {
		return c.Ratio.Estimate - 1
	}
	return c.Difference.Estimate
}
