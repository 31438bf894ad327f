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
	var requests []string
	for _, name := range t.view.requests() {
		for _, tr := range t.view.r.Treatments {
			rows, requests = append(rows, tr), append(requests, name)
		}
	}
	if len(rows) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Response times by request (mean of n trials ± half of the %s interval)", t.view.percent()))
	names := column{heads: []string{"", "request"}, left: true}
	for i, r := range requests {
		if i > 0 && requests[i-1] == r {
			r = ""
		}
		names.cells = append(names.cells, r)
	}
	columns := append([]column{names}, t.view.label.columns(rows)...)
	labels := len(columns)
	columns = append(columns, rowColumns(requestMetrics, requests, rows)...)
	ratios := column{heads: []string{"p50 over", "baseline"}}
	for i, tr := range rows {
		words := none
		if c, ok := t.view.r.Find(tr.ID, metric.Of(metric.RequestP50, requests[i])); ok && c.Ratio != nil {
			words = ratioWithin(*c.Ratio)
		}
		ratios.cells = append(ratios.cells, words)
	}
	t.page.table(append(columns, ratios), labels)
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
