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
	c.bound(stats.MeanInterval(least, x.confidence), stats.MeanInterval(greatest, x.confidence))
}

// bound replaces a difference by the interval from the least to the greatest one that the bounds of both sides allow.
func (c *compared) bound(least, greatest stats.Result) {
	c.Ratio, c.OnRatio, c.Equivalence = nil, false, nil
	c.Difference = new(between(c.Difference.Estimate, least, greatest))
	switch {
	case c.P == nil:
	case least.Estimate > 0 && least.P != nil:
		c.P = least.P
	case greatest.Estimate < 0 && greatest.P != nil:
		c.P = greatest.P
	default:
		c.P = new(1.0)
	}
}

// againstRuns compares the trials of a new run with those of earlier runs: with one, Welch's comparison of their trials, with
// several, the run is the unit.
func againstRuns(next []float64, runs [][]float64, several bool, confidence float64) (difference, ratio stats.Result) {
	if several {
		return stats.AgainstRuns(next, runs, confidence), stats.AgainstRunsRatio(next, runs, confidence)
	}
	return stats.Welch(next, runs[0], confidence), stats.WelchRatio(next, runs[0], confidence)
}

// boundChange does the same to a change between runs. It keeps the ratio, which gates need, with the bounds of its ends.
func (c *compared) boundChange(x *estimator, base [][]figures.Measured, next []figures.Measured) {
	most, bounded := metric.UpperBoundOf(c.Metric)
	if !bounded || c.Difference == nil {
		return
	}
	of := func(name string) (runs [][]float64) {
		for _, trials := range base {
			if v := valuesOf(trials, name); len(v) > 0 {
				runs = append(runs, v)
			}
		}
		return runs
	}
	nextMost, baseMost := valuesOf(next, most), of(most)
	if len(nextMost) < c.NNew || len(baseMost) < c.BaseRuns { // results from before upper bounds were kept
		return
	}
	least, leastRatio := againstRuns(valuesOf(next, c.Metric), baseMost, len(base) > 1, x.confidence)
	greatest, greatestRatio := againstRuns(nextMost, of(c.Metric), len(base) > 1, x.confidence)
	ratio := c.Ratio
	c.bound(least, greatest)
	if ratio != nil {
		c.Ratio = new(between(ratio.Estimate, leastRatio, greatestRatio))
	}
}

// between is the interval from the lower end of one result to the upper end of another. Without spread an end is the value.
func between(estimate float64, least, greatest stats.Result) stats.Interval {
	i := stats.Interval{Estimate: estimate, Low: least.Low, High: greatest.High}
	if least.Why == stats.NoSpread {
		i.Low = &least.Estimate
	}
	if greatest.Why == stats.NoSpread {
		i.High = &greatest.Estimate
	}
	return i
}
