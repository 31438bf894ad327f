package report

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
)

// startMetrics are the metrics of the table of starts, without their parts.
var startMetrics = []string{metric.StartTime, metric.StopTime, metric.StopLost}

// startSentences are the sentences about parts of a start.
var startSentences = []struct{ part, form string }{
	{"app", "A started application answers after %s."}, {"through", "Requests are answered through its sidecar, or without one, after %s."},
}

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

// startAnswers are the times of a start.
func startAnswers(v view) (lines []string) {
	for _, of := range startSentences {
		if values, known := v.each(func(tr compare.Treatment) (string, bool) {
			e, least := tr.Metrics[metric.Of(metric.StartTime, of.part)], tr.Metrics[metric.Of(metric.StartLeast, of.part)]
			switch {
			case e.N == 0:
				return "", false
			case least.N == e.N:
				within := e
				within.Low = least.Low
				return boundWords(least.Estimate, e.Estimate) + rangeWords(within), true
			}
			return rough(e.Estimate) + " ms" + rangeWords(e), true
		}); known {
			lines = append(lines, fmt.Sprintf(of.form, values))
		}
	}
	return lines
}
