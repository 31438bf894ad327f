package compare

import (
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// withinBounds widens the difference of a metric that is a lower bound by the upper bounds of both sides. It is shown only if the
// bounds do not overlap. There is no ratio.
func (c *compared) withinBounds(x *estimator, treatment, baseline map[int]figures.Measured) {
	most, bounded := metric.UpperBoundOf(c.Metric)
	if !bounded || c.Difference == nil {
		return
	}
	var least, greatest []float64 // differences
	for block := 1; block <= x.blocks; block++ {
		t, b := treatment[block].Metrics, baseline[block].Metrics
		tLow, ok1 := t[c.Metric]
		tHigh, ok2 := t[most]
		bLow, ok3 := b[c.Metric]
		bHigh, ok4 := b[most]
		if ok1 && ok2 && ok3 && ok4 {
			least, greatest = append(least, tLow-bHigh), append(greatest, tHigh-bLow)
		}
	}
	if len(least) == 0 || len(least) < c.N { // results from before upper bounds were kept
		return
	}
	low, high := stats.MeanInterval(least, x.confidence), stats.MeanInterval(greatest, x.confidence)
	c.Ratio, c.OnRatio, c.Equivalence = nil, false, nil
	c.Difference = &stats.Interval{Estimate: c.Difference.Estimate, Low: low.Low, High: high.High}
	switch {
	case c.P == nil:
	case low.Estimate > 0 && low.P != nil:
		c.P = low.P
	case high.Estimate < 0 && high.P != nil:
		c.P = high.P
	default:
		c.P = new(1.0)
	}
}
