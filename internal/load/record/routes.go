package record

import (
	"github.com/tare-mesh/tare/internal/load"
)

// routeTotal adds up service times, ns.
type routeTotal struct{ n, sum int64 }

// addRoutes adds b to a, which has as many routes or none yet.
func addRoutes(a, b []routeTotal) []routeTotal {
	if len(a) < len(b) {
		a = append(a, make([]routeTotal, len(b)-len(a))...)
	}
	for i, r := range b {
		a[i].n += r.n
		a[i].sum += r.sum
	}
	return a
}

// byRoute is the report of routes in the order of paths.
func byRoute(paths []string, totals []routeTotal) map[string]load.RouteTimes {
	if len(paths) == 0 {
		return nil
	}
	named := map[string]load.RouteTimes{}
	for i, path := range paths {
		t := load.RouteTimes{}
		if i < len(totals) && totals[i].n > 0 {
			t = load.RouteTimes{Requests: totals[i].n, MeanMS: float64(totals[i].sum) / float64(totals[i].n) / 1e6}
		}
		named[path] = t
	}
	return named
}

// mergeRoutes adds up the routes of several reports.
func mergeRoutes(reports []load.Report) map[string]load.RouteTimes {
	var sum map[string]load.RouteTimes
	for i := range reports {
		for path, r := range reports[i].Routes {
			if sum == nil {
				sum = map[string]load.RouteTimes{}
			}
			was := sum[path]
			n := was.Requests + r.Requests
			if n > 0 {
				was.MeanMS = (was.MeanMS*float64(was.Requests) + r.MeanMS*float64(r.Requests)) / float64(n)
			}
			was.Requests = n
			sum[path] = was
		}
	}
	return sum
}
