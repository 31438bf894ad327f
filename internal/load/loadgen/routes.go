package loadgen

import "net/url"

// RouteTimes is what became of the requests of one path, where targets have
// several: 2xx answers to requests intended in the measure window.
type RouteTimes struct {
	Requests int64   `json:"requests"`
	MeanMS   float64 `json:"mean_ms"` // from the actual send to the last byte
}

// routeTotal adds up service times, ns.
type routeTotal struct{ n, sum int64 }

// routes lists the paths of the targets, each once, and which of them each target
// has. One path for all is none that need be told apart.
func (p *Profile) routes() (paths []string, of []int) {
	index := map[string]int{}
	for _, raw := range p.Targets {
		path := raw
		if u, err := url.Parse(raw); err == nil {
			path = u.EscapedPath()
		}
		if _, ok := index[path]; !ok {
			index[path] = len(paths)
			paths = append(paths, path)
		}
		of = append(of, index[path])
	}
	if len(paths) <= 1 {
		paths = nil
	}
	return paths, of
}

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
func byRoute(paths []string, totals []routeTotal) map[string]RouteTimes {
	if len(paths) == 0 {
		return nil
	}
	named := map[string]RouteTimes{}
	for i, path := range paths {
		t := RouteTimes{}
		if i < len(totals) && totals[i].n > 0 {
			t = RouteTimes{totals[i].n, float64(totals[i].sum) / float64(totals[i].n) / 1e6}
		}
		named[path] = t
	}
	return named
}

// mergeRoutes adds up the routes of several reports.
func mergeRoutes(reports []Report) map[string]RouteTimes {
	var sum map[string]RouteTimes
	for i := range reports {
		for path, r := range reports[i].Routes {
			if sum == nil {
				sum = map[string]RouteTimes{}
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
