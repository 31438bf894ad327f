package record

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
)

type routeTotal struct {
	n, sum   int64                   // 2xx, and their service times, ns
	failed   int64                   // all others
	response *hdrhistogram.Histogram // 2xx, nil until the first
}

func (t *routeTotal) finish(o *Outcome, class classIndex, response int64) {
	if class != classOK {
		t.failed++
		return
	}
	t.n++
	t.sum += o.End - o.Sent
	if t.response == nil {
		t.response = newLive() // coarser: there may be many routes
	}
	put(t.response, response)
}

func (t *routeTotal) add(w *routeTotal) {
	t.n += w.n
	t.sum += w.sum
	t.failed += w.failed
	if w.response == nil {
		return
	}
	if t.response == nil {
		t.response = newLive()
	}
	t.response.Merge(w.response)
}

// addRoutes adds b to a, which has as many routes or none yet.
func addRoutes(a, b []routeTotal) []routeTotal {
	if len(a) < len(b) {
		a = append(a, make([]routeTotal, len(b)-len(a))...)
	}
	for i := range b {
		a[i].add(&b[i])
	}
	return a
}

// routesOf are the totals of routes by path, in the order of paths.
func routesOf(paths []string, totals []routeTotal) map[string]*routeTotal {
	named := map[string]*routeTotal{}
	for i, path := range paths {
		if named[path] = (&routeTotal{}); i < len(totals) {
			named[path] = &totals[i]
		}
	}
	return named
}

func routeTimes(totals map[string]*routeTotal) (named map[string]load.RouteTimes) {
	for path, t := range totals {
		set(&named, path, t.times())
	}
	return named
}

// encodeRoutes encodes the response times of routes for a merge.
func encodeRoutes(totals map[string]*routeTotal) (named map[string][]byte) {
	for path, t := range totals {
		if t.response != nil {
			encoded, _ := t.response.EncodeV2() // writes to memory: cannot fail
			set(&named, path, encoded)
		}
	}
	return named
}

// set sets the value of a key in a map that is nil until the first.
func set[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// mergeRoutes adds up the routes of several reports.
func mergeRoutes(reports []load.Report) (map[string]load.RouteTimes, error) {
	sums := map[string]*routeTotal{}
	for i := range reports {
		for path, r := range reports[i].Routes {
			part := routeTotal{n: r.Requests, sum: int64(r.MeanMS * 1e6 * float64(r.Requests)), failed: r.Failed}
			if reports[i].Parts != nil && reports[i].Parts.Routes[path] != nil {
				var err error
				if part.response, err = hdrhistogram.Decode(reports[i].Parts.Routes[path]); err != nil {
					return nil, err
				}
			}
			if sums[path] == nil {
				sums[path] = &routeTotal{}
			}
			sums[path].add(&part)
		}
	}
	return routeTimes(sums), nil
}

func (t *routeTotal) times() load.RouteTimes {
	r := load.RouteTimes{Requests: t.n, Failed: t.failed}
	if t.n > 0 {
		r.MeanMS = float64(t.sum) / float64(t.n) / 1e6
	}
	if t.response != nil {
		r.ResponseMS = quantiles(t.response, 1e6)
	}
	return r
}
