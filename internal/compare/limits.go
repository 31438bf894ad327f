package compare

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// unclearShare is the share of an interval by limits above which a warning names them.
const unclearShare = 0.2

// limitOf is the mean limit of a metric over trials.
func limitOf(trials []figures.Measured, name string) (mean figures.Limit) {
	n := 0.0
	for _, t := range trials {
		if _, ok := t.Metrics[name]; ok {
			n++
			mean.Below, mean.Above = mean.Below+t.Limits[name].Below, mean.Above+t.Limits[name].Above
		}
	}
	if n > 0 {
		mean.Below, mean.Above = mean.Below/n, mean.Above/n
	}
	return mean
}

// widened is an interval with the limits of its estimate.
func widened(i stats.Interval, by figures.Limit) stats.Interval {
	if !i.Known() {
		return i
	}
	low, high := *i.Low-by.Below, *i.High+by.Above
	return stats.Interval{Estimate: i.Estimate, Low: &low, High: &high}
}

// extremes are pairs whose change is as high, or as low, as the known limits and bounds of their values allow.
func extremes(p pairs, name string, treatment, baseline map[int]figures.Measured, high bool) pairs {
	at := func(m figures.Measured, high bool) float64 {
		v, l := m.Metrics[name], m.Limits[name]
		if most, bounded := metric.UpperBoundOf(name); bounded && high {
			return max(v, m.Metrics[most])
		}
		if high {
			return v + l.Above
		}
		return v - l.Below
	}
	var q pairs
	for _, block := range p.blocks {
		q.treatment, q.baseline = append(q.treatment, at(treatment[block], high)), append(q.baseline, at(baseline[block], !high))
	}
	return q
}

// limit puts the known limits of both sides into the interval of each comparison. A difference whose interval then contains zero
// is not shown. Both sides of an A/A pair have the same limits, which cancel.
func limit(cs []compared, questions []asked, byTreatment map[string][]figures.Measured) {
	limits := map[[2]string]figures.Limit{} // of differences, by treatment and metric
	for i := range cs {
		c := &cs[i]
		if c.Control || c.Difference == nil {
			continue
		}
		t, b := limitOf(byTreatment[c.Treatment], c.Metric), limitOf(byTreatment[c.Baseline], c.Metric)
		by := figures.Limit{Below: t.Below + b.Above, Above: t.Above + b.Below}
		if by == (figures.Limit{}) {
			continue
		}
		c.Limit, limits[[2]string{c.Treatment, c.Metric}] = &by, by
		c.Difference = new(widened(*c.Difference, by))
		if width, ok := c.Difference.HalfWidth(); ok && by.Above+by.Below > unclearShare*2*width {
			c.Warnings = append(c.Warnings, figures.Warning{Code: "idle-unclear", Metrics: []string{c.Metric},
				Message: fmt.Sprintf("%.0f %% of the interval is CPU in the slices of others that is idle or deferred work", 50*(by.Above+by.Below)/width),
				Hint:    "raise blocks or phases.measure, or write order: random, which measures each treatment alone"})
		}
		treatment, baseline := stats.Mean(valuesOf(byTreatment[c.Treatment], c.Metric)), stats.Mean(valuesOf(byTreatment[c.Baseline], c.Metric))
		if c.Ratio != nil && c.Ratio.Known() && treatment > t.Below && baseline > b.Below {
			low := *c.Ratio.Low * (1 - t.Below/treatment) / (1 + b.Above/baseline)
			c.Ratio = &stats.Interval{Estimate: c.Ratio.Estimate, Low: &low, High: new(*c.Ratio.High * (1 + t.Above/treatment) / (1 - b.Below/baseline))}
		} else {
			c.Ratio, c.OnRatio = nil, false
		}
		if e := c.Equivalence; e != nil && (c.Ratio == nil || !c.Ratio.Known() || *c.Ratio.Low < 1/(1+e.Margin) || *c.Ratio.High > 1+e.Margin) {
			c.Equivalence = &Equivalence{Margin: e.Margin}
		}
		c.Verdict = unlessZero(c.Verdict, c.Difference)
		if c.Verdict == Same && (c.Equivalence == nil || !c.Equivalence.Within) {
			c.Verdict = NotShown
		}
	}
	for _, q := range questions {
		for i := range q.pooled {
			p, mean := &q.pooled[i], figures.Limit{}
			for _, t := range q.Treatments {
				l, n := limits[[2]string{t, p.Metric}], float64(len(q.Treatments))
				mean.Below, mean.Above = mean.Below+l.Below/n, mean.Above+l.Above/n
			}
			if mean == (figures.Limit{}) || p.Difference == nil {
				continue
			}
			p.Difference, p.Ratio = new(widened(*p.Difference, mean)), nil
			p.Verdict = unlessZero(p.Verdict, p.Difference)
		}
	}
}

// unlessZero is a verdict on a difference whose interval became wider.
func unlessZero(v Verdict, difference *stats.Interval) Verdict {
	if difference.Known() && !difference.Excludes(0) && (v == Higher || v == Lower) {
		return NotShown
	}
	return v
}

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
