package compare

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// diagnosisLevel is the chance of a diagnosis of each kind in a run without any fault.
const diagnosisLevel = 0.05

// diagnosed are the headline comparisons of one treatment.
type diagnosed struct {
	treatment string
	order     stats.Order
}

// diagnoses warn of pairs that depend on one another, of an effect that changes during the
// run, and of outliers. It examines ratios in their order: a machine that becomes slower
// changes the difference, and not the ratio.
func diagnoses(cs []compared) []figures.Warning {
	var all []diagnosed
	for _, treatment := range treatmentsOf(cs) {
		var series [][]float64
		for _, c := range cs {
			if c.Treatment == treatment && c.diagnosable() && len(c.logs) > 0 && (series == nil || len(c.logs) == len(series[0])) {
				series = append(series, c.logs)
			}
		}
		if o, ok := stats.InOrder(series); ok {
			all = append(all, diagnosed{treatment, o})
		}
	}
	var ws []figures.Warning
	lags, trends := make([]float64, len(all)), make([]float64, len(all))
	for i, d := range all {
		lags[i], trends[i] = d.order.Lag1P, d.order.TrendP
	}
	lags, trends = stats.Holm(lags), stats.Holm(trends)
	var dependent, drifting []string
	for i, d := range all {
		switch {
		case trends[i] < diagnosisLevel: // a trend is autocorrelation too
			drifting = append(drifting, fmt.Sprintf("%s (correlation %.2f, p %.2g)", d.treatment, d.order.Trend, d.order.TrendP))
		case lags[i] < diagnosisLevel:
			dependent = append(dependent, fmt.Sprintf("%s (autocorrelation %.2f, p %.2g)", d.treatment, d.order.Lag1, d.order.Lag1P))
		}
	}
	if drifting != nil {
		ws = append(ws, figures.Warning{Code: "effect-drifts", Message: "ratios to the baseline change over the run: " + printable.Listed(drifting, 4),
			Hint: "the mean is that of several effects: find the cause that changes with time, and run again"})
	}
	if dependent != nil {
		ws = append(ws, figures.Warning{Code: "pairs-dependent", Message: "ratios to the baseline depend on the block before: " + printable.Listed(dependent, 4),
			Hint: "intervals of dependent blocks are too narrow: find what lasts from block to block, and run more blocks"})
	}
	return append(ws, outliers(cs)...)
}

// outliers warn of blocks far from all others.
func outliers(cs []compared) []figures.Warning {
	type outlier struct {
		c          *compared
		block      int
		deviations float64
	}
	var found []outlier
	var p []float64
	for i := range cs {
		c := &cs[i]
		if !c.diagnosable() {
			continue
		}
		if at, deviations, chance, ok := stats.Outlier(c.values); ok {
			found, p = append(found, outlier{c, c.blocks[at], deviations}), append(p, chance)
		}
	}
	var list, metrics []string
	named := map[string]bool{} // a block's metrics share their CPU
	for i, v := range stats.Holm(p) {
		if v >= diagnosisLevel {
			continue
		}
		f := found[i]
		if block := fmt.Sprintf("block %d of %s", f.block, f.c.Treatment); !named[block] {
			named[block] = true
			m, _ := metric.Lookup(f.c.Metric)
			list = append(list, fmt.Sprintf("%s (%s, %+.1f standard deviations)", block, m.Title(), f.deviations))
		}
		if !slices.Contains(metrics, f.c.Metric) {
			metrics = append(metrics, f.c.Metric)
		}
	}
	if list == nil {
		return nil
	}
	return []figures.Warning{{Code: "outlier-block", Metrics: metrics, Message: "a block differs from all others: " + printable.Listed(list, 3),
		Hint: "rare outliers in one direction make intervals too narrow: read the events of its trials, and run more blocks"}}
}

func treatmentsOf(cs []compared) []string {
	var all []string
	for _, c := range cs {
		if !slices.Contains(all, c.Treatment) {
			all = append(all, c.Treatment)
		}
	}
	return all
}

// diagnosable reports whether c is a headline metric with continuous noise: counts and
// memory are equal in most blocks, and one that differs would look like an outlier.
func (c *compared) diagnosable() bool {
	m, _ := metric.Lookup(c.Metric)
	return (c.Family == Headline || c.Family == HeadlineAA) && m.SpeedSensitive
}
