package report

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
)

// stageMetrics are the columns of the table of stages: times at both ends, then the CPU of each.
var stageMetrics = []string{
	metric.StageTime + "/client", metric.StageTime + "/server", metric.StageTime + "/calc",
	metric.CPUPerRequest + "/load", metric.CPUPerRequest + "/app", metric.CPUPerRequest + "/data",
}

// routeMetrics are the same times by route.
var routeMetrics = []string{metric.RouteClientTime, metric.RouteServerTime, metric.RouteCalcTime}

// stagesSection divides the time of a request, if services report stages.
func stagesSection(t text) {
	if !t.view.known(metric.StageTime + "/server") {
		return
	}
	t.page.heading(fmt.Sprintf("Time of a request by stage (mean of n trials ± half of the %s interval)", t.view.percent()))
	columns := t.view.label.columns(t.view.r.Treatments)
	labels := len(columns)
	for _, name := range stageMetrics {
		columns = append(columns, t.view.treatmentColumn(name, t.view.r.Treatments))
	}
	t.page.table(columns, labels)
	routesTable(t)
}

// routesTable has one line a route of the treatments that call several.
func routesTable(t text) {
	var rows []compare.Treatment
	var routes []string
	for _, tr := range t.view.r.Treatments {
		for _, m := range metric.Known(tr.Metrics) {
			if route, ok := metric.PartOf(metric.RouteClientTime, m.Name); ok {
				rows, routes = append(rows, tr), append(routes, route)
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	t.page.heading("Time of a request by route")
	columns := t.view.label.columns(rows)
	names := column{heads: []string{"", "route"}, left: true}
	for _, r := range routes {
		names.cells = append(names.cells, "/"+r)
	}
	columns = append(columns, names)
	t.page.table(append(columns, rowColumns(routeMetrics, routes, rows)...), len(columns))
}
