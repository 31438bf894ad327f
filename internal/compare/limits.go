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
			high := *c.Ratio.High * (1 + t.Above/treatment) / (1 - b.Below/baseline)
			c.Ratio = &stats.Interval{Estimate: c.Ratio.Estimate, Low: &low, High: &high}
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
			difference := widened(*p.Difference, mean)
			p.Difference, p.Ratio = &difference, nil
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
