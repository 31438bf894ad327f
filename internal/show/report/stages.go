package report

import (
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/metric"
)

// stageColumns are what the table of stages shows: times at both ends, then the CPU of each.
var stageColumns = []shown{
	{"stage_us/client", [2]string{"request at", "the client, µs"}, 1},
	{"stage_us/server", [2]string{"at the", "server, µs"}, 1},
	{"stage_us/calc", [2]string{"of it the", "calculation, µs"}, 1},
	{"cpu_us_per_request/load", [2]string{"CPU/request", "client, µs"}, 1},
	{"cpu_us_per_request/app", [2]string{"CPU/request", "server, µs"}, 1},
	{"cpu_us_per_request/data", [2]string{"CPU/request", "sidecar, µs"}, 1},
}

// routeColumns are the same times by route.
var routeColumns = []shown{
	{"route_client_us/", [2]string{"request at", "the client, µs"}, 1},
	{"route_server_us/", [2]string{"at the", "server, µs"}, 1},
	{"route_calc_us/", [2]string{"of it the", "calculation, µs"}, 1},
}

// stages are the tables of where the time of a request went, where services tell.
func (t *text) stages() {
	told := func(tr analysis.Treatment) bool { _, ok := tr.Metrics["stage_us/server"]; return ok }
	if !slices.ContainsFunc(t.r.Treatments, told) {
		return
	}
	t.title("Where the time of a request went (means of n trials ± half of their 95 % interval)")
	columns := t.label.columns(t.r.Treatments)
	labels := len(columns)
	for _, h := range stageColumns {
		c := column{heads: h.heads[:]}
		for _, tr := range t.r.Treatments {
			c.cells = append(c.cells, cell(tr, h.metric, h.scale))
		}
		columns = append(columns, c)
	}
	t.table(columns, labels, "  ")
	t.routes()
}

// routes is the table by route of the treatments that ask for several.
func (t *text) routes() {
	var rows []analysis.Treatment
	var routes []string
	for _, tr := range t.r.Treatments {
		for _, m := range metric.All() {
			route, ok := strings.CutPrefix(m.Name, routeColumns[0].metric)
			if _, has := tr.Metrics[m.Name]; ok && has {
				rows, routes = append(rows, tr), append(routes, "/"+route)
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	t.title("The same by route, where several are called side by side")
	columns := t.label.columns(rows)
	columns = append(columns, column{heads: []string{"", "of the route"}, left: true, cells: routes})
	labels := len(columns)
	for _, h := range routeColumns {
		c := column{heads: h.heads[:]}
		for i, tr := range rows {
			c.cells = append(c.cells, cell(tr, h.metric+strings.TrimPrefix(routes[i], "/"), h.scale))
		}
		columns = append(columns, c)
	}
	t.table(columns, labels, "  ")
}
