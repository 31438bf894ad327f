package report

import (
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
)

// startMetrics are the columns of the table of starts, by their parts.
var startMetrics = []struct {
	name     string
	sentence string // with the values of all treatments, empty for none
}{
	{metric.Of(metric.StartTime, "created"), ""},
	{metric.Of(metric.StartTime, "scheduled"), ""},
	{metric.Of(metric.StartTime, "initialized"), ""},
	{metric.Of(metric.StartTime, "running"), ""},
	{metric.Of(metric.StartTime, "app"), "A started application answers after %s."},
	{metric.Of(metric.StartTime, "sidecar"), ""},
	{metric.Of(metric.StartTime, "through"), "Requests are answered through its sidecar, or without one, after %s."},
	{metric.Of(metric.StartTime, "outbound"), "Its first call of another service succeeds after %s."},
	{metric.Of(metric.StartTime, "ready"), "A watch shows it ready after %s."},
	{metric.Of(metric.StopTime, "app"), ""},
	{metric.Of(metric.StopTime, "sidecar"), ""},
	{metric.StopLost, fmt.Sprintf("A stop loses %%s of %d requests per second.", metric.StartProbeRate)},
}

// startsSection is the table of starts and stops of a pod.
func startsSection(t text) {
	shown := rows(t.view)
	columns := t.view.label.columns(shown)
	labels := len(columns)
	for _, m := range startMetrics {
		if t.view.known(m.name) {
			columns = append(columns, t.view.treatmentColumn(m.name, shown))
		}
	}
	if len(columns) > labels {
		t.page.heading("Starts and stops of a pod")
		t.page.table(columns, labels)
	}
}

// startAnswers are the times of a start, and the requests that a stop loses.
func startAnswers(v view) (lines []string) {
	for _, m := range startMetrics {
		words := timeWords
		if part, of := strings.CutPrefix(m.name, metric.StartTime+"/"); of {
			words = func(tr compare.Treatment, e compare.Estimate) string {
				least, known := tr.Metrics[metric.Of(metric.StartLeast, part)]
				if !known || least.N != e.N {
					return timeWords(tr, e)
				}
				within := compare.Estimate{}
				within.Low, within.High = least.Low, e.High
				return boundWords(least.Estimate, e.Estimate) + rangeWords(within)
			}
		}
		if m.name == metric.StopLost {
			words = func(_ compare.Treatment, e compare.Estimate) string { return rough(e.Estimate) + rangeWords(e) }
		}
		if values := eachTreatment(v, m.name, words); m.sentence != "" && values != "" {
			lines = append(lines, fmt.Sprintf(m.sentence, values))
		}
	}
	return lines
}
