package compare

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/figures"
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

// limit puts the known limits of both sides into the interval of each comparison. A difference whose interval then contains zero
// is not shown. Both sides of an A/A pair have the same limits, which cancel.
func limit(cs []compared, byTreatment map[string][]figures.Measured) {
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
		c.Limit = &by
		difference := widened(*c.Difference, by)
		c.Difference = &difference
		if width, ok := difference.HalfWidth(); ok && by.Above+by.Below > unclearShare*2*width {
			c.Warnings = append(c.Warnings, figures.Warning{Code: "idle-unclear", Metrics: []string{c.Metric},
				Message: fmt.Sprintf("%.0f %% of the interval is CPU in the slices of others that is idle or deferred work", 50*(by.Above+by.Below)/width),
				Hint:    "raise blocks or phases.measure, or write order: random, which measures each treatment alone"})
		}
		treatment, baseline := stats.Mean(valuesOf(byTreatment[c.Treatment], c.Metric)), stats.Mean(valuesOf(byTreatment[c.Baseline], c.Metric))
		if c.Ratio != nil && c.Ratio.Known() && treatment > t.Below && baseline > b.Below {
			low := *c.Ratio.Low * (1 - t.Below/treatment) / (1 + b.Above/baseline)
			high := *c.Ratio.High * (1 + t.Above/treatment) / (1 - b.Below/baseline)
			c.Ratio = &stats.Interval{Estimate: c.Ratio.Estimate, Low: &low, High: &high}
		}
		if c.Difference.Known() && !c.Difference.Excludes(0) && (c.Verdict == Higher || c.Verdict == Lower) {
			c.Verdict = NotShown
		}
	}
}
