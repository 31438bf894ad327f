package figures

import (
	"strings"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// stageMetrics are the metrics of the stages that services report: of all requests, and by route.
var stageMetrics = map[string][2]string{
	"total": {metric.StageTime + "/server", metric.RouteServerTime + "/"},
	"calc":  {metric.StageTime + "/calc", metric.RouteCalcTime + "/"},
}

// stageFigures computes the time of a request by stage, as the services that
// keep their own times saw it and as the client did. Means, since the records
// are sums: they can be subtracted from one another.
func stageFigures(f *figures, r *result.Record) {
	if r.Error != "" || len(r.Stages) == 0 {
		return
	}
	counts, sums := map[string]int64{}, map[string]float64{}
	routes := map[string]bool{}
	for _, s := range r.Stages {
		counts[s.Stage] += s.Count
		sums[s.Stage] += s.Seconds
		routes[s.Route] = true
	}
	for stage, names := range stageMetrics {
		if counts[stage] > 0 {
			f.set(names[0], 1e6*sums[stage]/float64(counts[stage]))
		}
	}
	if v, ok := f.values[metric.ServiceTime+"/mean"]; ok {
		f.set(metric.StageTime+"/client", 1e3*v)
	}
	if len(routes) < 2 {
		return
	}
	for _, s := range r.Stages {
		if names, ok := stageMetrics[s.Stage]; ok && s.Count > 0 {
			f.setRoute(names[1], s.Route, 1e6*s.Seconds/float64(s.Count))
		}
	}
	if r.Load == nil {
		return
	}
	for path, times := range r.Load.Routes {
		if times.Requests > 0 {
			f.setRoute(metric.RouteClientTime+"/", path, 1e3*times.MeanMS)
		}
	}
}

// setRoute sets the metric of a route that has one.
func (f *figures) setRoute(base, path string, v float64) {
	name := base + strings.TrimPrefix(path, "/")
	if _, ok := metric.Lookup(name); ok {
		f.set(name, v)
	}
}
