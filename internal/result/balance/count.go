// Package balance checks that requests are conserved: the requests that were sent,
// proxied and served add up along the topology. Its equations are data, derived from
// the topology and from the counters that exist. It reads nothing.
//
// Counters are read while nothing is in flight, before the load and after it. The
// equations are then exact, and every difference has a cause: a client outside the
// trial, a retry, a cache, or a way around the proxies.
package balance

import (
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Count is one reading of one counter.
type Count struct {
	Place
	Tally
	// By is the task that counts, such as "echo-0/sidecar".
	By string
	// Instance changes with a restart of the task, which begins at 0 again.
	Instance string
	// Config changes with the configuration of the task.
	Config string
	// Unknown is the reason why the counter has no value.
	Unknown string
	// Bytes of one request, if the count is of bytes that sockets received. 0: it is a counter.
	Bytes int64
}

// Flow is the change of a counter during the load, summed over replicas.
type Flow struct {
	Place
	Tally
	Reconfigured bool   `json:"reconfigured,omitempty"` // a fault changed the service's configuration
	Unknown      string `json:"unknown,omitempty"`      // why there is no count
	Bytes        int64  `json:"bytes,omitempty"`        // bytes of a request: `count` is received bytes of sockets over it
}

// Changes returns the flows between two readings.
func Changes(before, after []Count) []Flow {
	var flows []Flow
	add := func(f Flow) {
		i := slices.IndexFunc(flows, func(o Flow) bool { return o.Place == f.Place })
		switch {
		case i < 0:
			flows = append(flows, f)
		case flows[i].Unknown != "":
		case f.Unknown != "":
			flows[i] = f
		default:
			flows[i].Tally = flows[i].plus(f.Tally, 1)
			flows[i].Reconfigured = flows[i].Reconfigured || f.Reconfigured
		}
	}
	for _, a := range after {
		i := slices.IndexFunc(before, a.same)
		if i < 0 {
			add(Flow{Place: a.Place, Unknown: a.By + " was started during the load"})
			continue
		}
		add(change(before[i], a))
	}
	for _, b := range before {
		if !slices.ContainsFunc(after, b.same) {
			add(Flow{Place: b.Place, Unknown: b.By + " was ended during the load"})
		}
	}
	return flows
}

func (c Count) same(o Count) bool { return c.Place == o.Place && c.By == o.By }

func change(before, after Count) Flow {
	f := Flow{Place: after.Place, Tally: after.plus(before.Tally, -1), Reconfigured: before.Config != after.Config, Bytes: after.Bytes}
	switch {
	case after.Unknown != "":
		f.Unknown = after.Unknown
	case before.Unknown != "":
		f.Unknown = before.Unknown
	case before.Instance != after.Instance:
		f.Unknown = after.By + " was restarted during the load"
	case f.negative():
		f.Unknown = fmt.Sprintf("a counter of %s went back", after.By)
	}
	if f.Unknown != "" {
		f.Tally, f.Bytes = Tally{}, 0
	}
	return f
}

// Service names of places outside the topology.
const (
	LoadName     = "load"     // the load generator
	WaypointName = "waypoint" // all waypoints
)

// Point is a point on the way of a request at which it is counted.
type Point string

// Points, in the order in which a request passes them.
const (
	Sent        Point = "sent"              // by the load or an application, to another service
	OutReceived Point = "outbound-received" // by the caller's proxy, from the caller
	OutSent     Point = "outbound-sent"     // by the caller's proxy, to the called service
	InReceived  Point = "inbound-received"  // by the proxy of the called service
	InSent      Point = "inbound-sent"      // by that proxy, to its application
	Served      Point = "served"            // by the application
	// Waypoint requests are requests that the waypoints of a namespace receive, for all services together.
	Waypoint Point = "waypoint"
	// NodeOut and NodeIn are connections in the proxies that the pods of a node share: from the pods of a service, and to them.
	NodeOut Point = "node-outbound"
	NodeIn  Point = "node-inbound"
	// Gateway requests are the requests of the load that the ingress gateways receive.
	Gateway Point = "gateway"
)

var (
	outbound = []Point{Sent, OutReceived, OutSent, NodeOut, Gateway}
	inbound  = []Point{NodeIn, InReceived, InSent, Served}
	way      = []Point{Sent, OutReceived, OutSent, InReceived, InSent, Served} // of a request through two sidecars
)

// Unit is the thing that a counter counts.
type Unit string

// Units. Each has equations of its own.
const (
	Requests    Unit = "request"
	Connections Unit = "connection"
	Handshakes  Unit = "handshake" // of TLS
)

var units = []Unit{Requests, Connections, Handshakes}

// Place identifies a counter in the topology.
type Place struct {
	Service string `json:"service"`      // whose requests, application or sidecar are counted, where `load` is the generator
	Point   Point  `json:"point"`        // one of the [points](conservation.md#equations)
	To      string `json:"to,omitempty"` // called service, absent for all of them
	Unit    Unit   `json:"unit"`         // `request`, `connection`, `handshake`
}

// Tally is the content of a counter.
type Tally struct {
	Count   int64 `json:"count"`             // count in the whole load, summed over replicas
	Failed  int64 `json:"failed,omitempty"`  // of these, failed: at `sent` for the caller, at `served` by the service
	Retries int64 `json:"retries,omitempty"` // of these, retries
	Partial int64 `json:"partial,omitempty"` // served requests that ended before all of their calls
	Unsure  int64 `json:"unsure,omitempty"`  // requests that may have been sent beyond `count`
}

func (t Tally) plus(o Tally, sign int64) Tally {
	return Tally{t.Count + sign*o.Count, t.Failed + sign*o.Failed, t.Retries + sign*o.Retries, t.Partial + sign*o.Partial, t.Unsure + sign*o.Unsure}
}

func (t Tally) negative() bool {
	return t.Count < 0 || t.Failed < 0 || t.Retries < 0 || t.Partial < 0 || t.Unsure < 0
}

// edge is a caller and a service that it calls.
type edge struct {
	caller, service string
	// times is the number of requests for one request at the caller, and variance that
	// of a single request, if calls have probabilities.
	times, variance float64
}

// edges lists the callers and their services, the load first.
func edges(t app.Topology) []edge {
	all := []edge{{caller: LoadName, service: t.EntryName(), times: 1}}
	for _, s := range t.Services {
		for _, c := range s.Calls {
			if c.Service == "" {
				continue
			}
			i := slices.IndexFunc(all, func(e edge) bool { return e.caller == s.Name && e.service == c.Service })
			if i < 0 {
				i, all = len(all), append(all, edge{caller: s.Name, service: c.Service})
			}
			p, n := 1.0, float64(1+t.Redirected(c))
			if c.Probability != nil {
				p = *c.Probability
			}
			all[i].times += p * n
			all[i].variance += p * (1 - p) * n * n
		}
	}
	return all
}

// chance is the number of standard deviations by which the calls with a probability may
// differ from their expectation: one in 500 million trials differs by more.
const chance = 6

// expected returns the requests for n requests at the caller, and the random deviation.
func (e edge) expected(n int64) (calls, deviation int64) {
	return int64(math.Round(e.times * float64(n))), int64(math.Ceil(chance * math.Sqrt(e.variance*float64(n))))
}

// groups joins services whose requests are known only together, because a proxy of a
// caller counts all that it calls in one counter.
func groups(services []string, all []edge, joint func(caller string) bool) (out [][]string) {
	parent := map[string]string{}
	var root func(string) string
	root = func(s string) string {
		if p, ok := parent[s]; ok {
			return root(p)
		}
		return s
	}
	first := map[string]string{} // service of each joint caller
	for _, e := range all {
		if !joint(e.caller) {
			continue
		}
		if first[e.caller] == "" {
			first[e.caller] = e.service
		}
		if a, b := root(first[e.caller]), root(e.service); a != b {
			parent[b] = a
		}
	}
	place := map[string]int{}
	for _, s := range services {
		i, ok := place[root(s)]
		if !ok {
			i, out = len(out), append(out, nil)
			place[root(s)] = i
		}
		out[i] = append(out[i], s)
	}
	return out
}
