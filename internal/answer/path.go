package answer

import (
	"cmp"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Path has the calls that one request at the entry causes. A field that is not known is zero.
type Path struct {
	// Calls between services, the entry's own included.
	Calls int `json:"calls_per_request,omitempty"`
	// Proxies is the number of tasks of the data plane, and Services of the application.
	Proxies  int `json:"proxies,omitempty"`
	Services int `json:"services,omitempty"`
	// Proxied are the calls that proxies handle, for one request: a call that passes two
	// sidecars counts twice.
	Proxied float64 `json:"proxied_per_request,omitempty"`
	// Counted: Proxied is from the counters of the proxies, and not from the topology.
	Counted bool `json:"proxied_counted,omitempty"`
}

// pathsByTreatment returns the request path of each treatment's valid trials. It is empty if these trials differ.
func pathsByTreatment(records []result.Record) map[string]Path {
	paths, trials := map[string]Path{}, map[string]int{}
	for i := range records {
		r := &records[i]
		if r.Error != "" || !r.Valid {
			continue
		}
		p := pathOf(r)
		was, seen := paths[r.Treatment]
		if !seen {
			paths[r.Treatment], trials[r.Treatment] = p, 1
			continue
		}
		if was.Calls != p.Calls || was.Proxies != p.Proxies || was.Services != p.Services || was.Counted != p.Counted {
			paths[r.Treatment] = Path{}
			continue
		}
		// The mean: retries and cancelled requests differ from trial to trial.
		n := float64(trials[r.Treatment])
		was.Proxied = (was.Proxied*n + p.Proxied) / (n + 1)
		paths[r.Treatment] = was
		trials[r.Treatment]++
	}
	return paths
}

func pathOf(r *result.Record) Path {
	p := Path{Calls: r.Edges}
	sidecars, loadHas := 0, false // the load has one beside it
	services := map[string]bool{}
	for _, t := range r.Tasks {
		switch t.Plane {
		case metric.App:
			name := cmp.Or(t.Service, t.Pod)
			services[name] = true
		case metric.Data:
			p.Proxies++
			if isSidecar(t.Task) {
				sidecars++
			}
			loadHas = loadHas || besideLoad(t.Task)
		}
	}
	p.Services = len(services)
	if p.Proxied, p.Counted = countedProxied(r); p.Counted {
		return p
	}
	// Every call passes the sidecars of both ends, if every proxy is a sidecar.
	if p.Proxies > 0 && sidecars == p.Proxies && p.Calls > 0 {
		p.Proxied = float64(2 * p.Calls)
		if !loadHas {
			p.Proxied--
		}
	}
	return p
}

// sides are the points at which one side of a proxy counts requests. The first with a count is used: the proxy sent
// each request that it received, and its retries. Mesh definitions need only one of them.
var sides = [][]balance.Point{{balance.OutReceived, balance.OutSent}, {balance.InReceived, balance.InSent}, {balance.Gateway}, {balance.Waypoint}}

// countedProxied are the requests that proxies handled over the sent ones. It is false unless both sides of
// every sidecar with requests are counted: the sum of the others would be too low.
// Counters are read while nothing is in flight, so both are of the same requests.
func countedProxied(r *result.Record) (float64, bool) {
	if r.Balance == nil {
		return 0, false
	}
	flows := slices.DeleteFunc(slices.Clone(r.Balance.Flows), func(f balance.Flow) bool { return f.Unit != balance.Requests })
	handled, needed := handledRequests(flows)
	beside := map[string]bool{} // services with sidecars
	for _, t := range r.Tasks {
		switch {
		case t.Plane != metric.Data:
		case t.Role == "node-proxy": // it counts connections
			return 0, false
		case isSidecar(t.Task) && besideLoad(t.Task):
			beside[balance.LoadName] = true
		case isSidecar(t.Task) && t.Service != "":
			beside[t.Service] = true
			needed = append(needed, balance.Place{Service: t.Service, Point: balance.InReceived})
		}
	}
	sent, proxied := int64(0), int64(0)
	for _, f := range flows {
		if f.Point == balance.Sent && f.Service == balance.LoadName {
			if f.Unknown != "" {
				return 0, false
			}
			sent += f.Count
		}
		if f.Point == balance.Sent && beside[f.Service] {
			needed = append(needed, balance.Place{Service: f.Service, Point: balance.OutReceived, To: f.To})
		}
	}
	for _, at := range needed {
		_, one := handled[at]
		_, all := handled[balance.Place{Service: at.Service, Point: at.Point}] // of all called services
		if !one && !all {
			return 0, false
		}
	}
	for _, n := range handled {
		proxied += n
	}
	return float64(proxied) / float64(max(sent, 1)), sent > 0 && proxied > 0
}

func isSidecar(t mesh.Task) bool { return t.Role == "sidecar" || t.Container == "sidecar" }

func besideLoad(t mesh.Task) bool {
	return t.Component == string(metric.Load) || t.Pod == balance.LoadName
}

// handledRequests counts the requests of each side of a proxy, by its first point. It returns the sides with unknown
// counters too.
func handledRequests(flows []balance.Flow) (handled map[balance.Place]int64, unknown []balance.Place) {
	handled = map[balance.Place]int64{}
	for _, side := range sides {
		for _, point := range side {
			for _, f := range flows {
				at := balance.Place{Service: f.Service, Point: side[0], To: f.To}
				if _, ok := handled[at]; f.Point != point || ok {
					continue
				}
				if f.Unknown != "" {
					unknown = append(unknown, at)
				} else {
					handled[at] = f.Count - f.Retries
				}
			}
		}
	}
	return handled, unknown
}
