package analysis

import (
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Path has the calls that one request at the entry causes. A field that is not known is zero.
type Path struct {
	// Calls between services, the entry's own included.
	Calls int `json:"calls_per_request,omitempty"`
	// Proxies are the tasks of the data plane, and Services those of the application.
	Proxies  int `json:"proxies,omitempty"`
	Services int `json:"services,omitempty"`
	// Proxied are the calls that proxies handle, for one request: a call that passes two
	// sidecars counts twice.
	Proxied float64 `json:"proxied_per_request,omitempty"`
	// Counted: Proxied is from the counters of the proxies, and not from the topology.
	Counted bool `json:"proxied_counted,omitempty"`
}

// pathsByTreatment are those of the valid trials. A treatment whose trials differ has none.
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
	sidecars, loads := 0, 0
	services := map[string]bool{}
	for _, t := range r.Tasks {
		switch t.Plane {
		case metric.App:
			name := t.Service
			if name == "" {
				name = t.Pod
			}
			services[name] = true
		case metric.Data:
			p.Proxies++
			if t.Role == "sidecar" || t.Container == "sidecar" {
				sidecars++
			}
			if t.Component == string(metric.Load) || t.Pod == balance.LoadName {
				loads++
			}
		}
	}
	p.Services = len(services)
	if p.Proxied, p.Counted = countedProxied(r.Balance); p.Counted {
		return p
	}
	// Every call passes the sidecars of both ends, if every proxy is a sidecar.
	if p.Proxies > 0 && sidecars == p.Proxies && p.Calls > 0 {
		p.Proxied = float64(2 * p.Calls)
		if loads == 0 { // the load has none
			p.Proxied--
		}
	}
	return p
}

// countedProxied are the requests that proxies received over those that the load sent.
// Counters are read while nothing is in flight, so both are of the same requests.
func countedProxied(b *balance.Balance) (float64, bool) {
	if b == nil {
		return 0, false
	}
	sent, proxied := int64(0), int64(0)
	for _, f := range b.Flows {
		if f.Unit != balance.Requests {
			continue
		}
		switch {
		case f.Point == balance.Sent && f.Service == balance.LoadName:
			if f.Unknown != "" {
				return 0, false
			}
			sent += f.Count
		case f.Point == balance.OutReceived || f.Point == balance.InReceived:
			if f.Unknown != "" {
				return 0, false
			}
			proxied += f.Count
		}
	}
	return float64(proxied) / float64(max(sent, 1)), sent > 0 && proxied > 0
}
