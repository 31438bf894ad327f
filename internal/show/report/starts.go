package report

import (
	"slices"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// startMetrics are the metrics of the table of starts, without their parts.
var startMetrics = []string{metric.StartTime, metric.StopTime, metric.StopLost}

// startParts are the claims about parts of a start.
var startParts = []struct {
	part string
	form ClaimForm
}{{"app", startApp}, {"through", startThrough}}

// startsSection is the table of starts and stops of a pod.
func startsSection(t text) {
	var columns []column
	for _, m := range t.view.r.Metrics() {
		if slices.Contains(startMetrics, metric.Base(m.Name)) {
			columns = append(columns, t.view.treatmentColumn(m.Name, rows(t.view)))
		}
	}
	if columns != nil {
		t.page.heading("Starts and stops of a pod")
		t.byTreatment(columns)
	}
}

// startClaims are the times of a start.
func startClaims(v view) (all []Claim) {
	for _, of := range startParts {
		each := v.each(func(tr compare.Treatment) (c Claim) {
			name, bound := metric.Of(metric.StartTime, of.part), metric.Of(metric.StartLeast, of.part)
			e, least := tr.Metrics[name], tr.Metrics[bound]
			switch {
			case e.N == 0:
				return c
			case least.N == e.N:
				within := stats.Interval{Estimate: least.Estimate, Low: least.Low, High: e.High}
				c = part(tr, bound, within, boundWords(least.Estimate, e.Estimate)+rangeWords(within))
				c.AtMost = &e.Estimate
				return c
			}
			return part(tr, name, e.Interval, rough(e.Estimate)+" ms"+rangeWords(e.Interval))
		})
		if each != nil {
			all = append(all, Claim{Form: of.form, Of: each}.fill(sentenceWords{}))
		}
	}
	return all
}
