package series

import (
	"maps"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
)

// figures adds the figures of a report at one instant. The part of a metric's name is the label part, and the label
// stat is estimate, low or high: an unknown interval has only the estimate. Differences from the baseline and ratios
// to it have names of their own.
func (c *collector) figures(r *answer.Report, at time.Time) {
	for _, t := range r.Treatments {
		c.add("tare_trials", "valid trials of a treatment", figureLabels(t.ID, t.Factors, t.Control, ""), []Point{{at, float64(t.N)}})
		for _, m := range metric.Known(t.Metrics) {
			help := m.Doc
			if m.Unit != "" {
				help += ", " + m.Unit
			}
			c.interval(seriesName(m.Name), help, figureLabels(t.ID, t.Factors, t.Control, m.Name), t.Metrics[m.Name].Interval, at)
		}
	}
	for _, x := range r.Comparisons {
		labels := figureLabels(x.Treatment, x.Factors, x.Control, x.Metric)
		labels["against"] = x.Baseline
		if x.Difference != nil {
			c.interval(seriesName(x.Metric)+"_difference", "difference to the baseline, "+x.Unit, labels, *x.Difference, at)
		}
		if x.Ratio != nil {
			c.interval(seriesName(x.Metric)+"_over_baseline", "ratio to the baseline", labels, *x.Ratio, at)
		}
	}
}

func (c *collector) interval(name, help string, labels map[string]string, i stats.Interval, at time.Time) {
	add := func(stat string, v float64) {
		of := maps.Clone(labels)
		of["stat"] = stat
		c.add(name, help, of, []Point{{at, v}})
	}
	add("estimate", i.Estimate)
	if i.Known() {
		add("low", *i.Low)
		add("high", *i.High)
	}
}

// figureLabels are the labels of a metric of a treatment.
func figureLabels(treatment string, factors plan.Factors, control bool, metricName string) map[string]string {
	labels := map[string]string{"treatment": treatment}
	for name, level := range factors {
		if name != plan.ControlFactor {
			labels["factor_"+nameChars(name)] = report.Level(level)
		}
	}
	if control {
		labels[plan.ControlFactor] = "true"
	}
	if _, part, ok := strings.Cut(metricName, "/"); ok {
		labels["part"] = part
	}
	return labels
}

func seriesName(metricName string) string { return "tare_" + nameChars(metric.Base(metricName)) }

// nameChars replaces the characters that a name of a series or label cannot have.
func nameChars(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}
