package report

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
)

// requestMetrics are the columns of the table of requests.
var requestMetrics = []string{metric.RequestP50, metric.RequestP90, metric.RequestP99, metric.RequestErrors}

// requestsSection has one line for each request and treatment, with the ratio of the median to
// the baseline's median.
func requestsSection(t text) {
	var rows []compare.Treatment
	names, ratios := column{heads: []string{"", "request"}, left: true}, column{heads: []string{"p50 over", "baseline"}}
	figures := make([]column, len(requestMetrics))
	for _, name := range t.view.requests() {
		for i, tr := range t.view.r.Treatments {
			rows = append(rows, tr)
			names.cells = append(names.cells, map[bool]string{true: name}[i == 0])
			for j, base := range requestMetrics {
				one := metricColumn(metric.Of(base, name), func(scale float64) []string { return []string{cell(tr, metric.Of(base, name), scale)} })
				figures[j] = column{heads: one.heads, cells: append(figures[j].cells, one.cells...)}
			}
			words := none
			if c, ok := t.view.r.Find(tr.ID, metric.Of(metric.RequestP50, name)); ok && c.Ratio != nil {
				words = ratioWithin(*c.Ratio)
			}
			ratios.cells = append(ratios.cells, words)
		}
	}
	if len(rows) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Response times by request (mean of n trials ± half of the %s interval)", t.view.percent()))
	columns := append([]column{names}, t.view.label.columns(rows)...)
	labels := len(columns)
	t.page.table(append(append(columns, figures...), ratios), labels)
}

// requests are the names of the requests with figures, sorted.
func (v view) requests() []string {
	var all []string
	for _, m := range v.r.Metrics() {
		for _, base := range requestMetrics {
			if name, ok := metric.PartOf(base, m.Name); ok {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
