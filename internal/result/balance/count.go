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
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
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

// actions are the words for what happens at a point.
var actions = map[Point]string{
	Sent: "sent by", OutReceived: "received by", OutSent: "sent by", InReceived: "received by", InSent: "sent to the application by", Served: "served by",
	Waypoint: "received by", NodeOut: "sent by", NodeIn: "received by", Gateway: "received by",
}

// plurals of units in texts.
var plurals = map[Unit]string{Requests: "requests", Connections: "connections", Handshakes: "TLS handshakes"}

func (p Place) counted() string {
	text := plurals[p.Unit] + " " + actions[p.Point] + " " + p.counter()
	if p.To != "" {
		text += " to " + p.To
	}
	return text
}

// between names the part of the way between two sets of counters.
func between(before, after []Flow) string {
	from, to := names(before), names(after)
	switch {
	case from == "":
		return "at " + to + ", which nothing calls"
	case slices.ContainsFunc(slices.Concat(before, after), func(f Flow) bool { return f.Service != before[0].Service }):
		return "between " + from + " and " + to
	case before[0].counter() == after[0].counter():
		return "in " + to + after[0].direction()
	case before[0].Point == Sent:
		return "between " + from + " and " + after[0].next()
	}
	return "between " + from + " and its application"
}

// next names the proxy that a caller's requests reach first.
func (p Place) next() string {
	switch p.Point {
	case Gateway:
		return "the gateway"
	case NodeOut:
		return "its node proxy"
	}
	return "its sidecar"
}

// direction describes the direction of requests in a sidecar.
func (p Place) direction() string {
	switch {
	case p.Point == InSent:
		return " (inbound)"
	case p.To != "":
		return " (outbound to " + p.To + ")"
	}
	return " (outbound)"
}

// maxNames bounds the names in a text.
const maxNames = 3

func names(flows []Flow) string {
	var all []string
	for _, f := range flows {
		if name := f.counter(); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if len(all) > maxNames {
		all = append(all[:maxNames-1], fmt.Sprintf("%d others", len(all)-maxNames+1))
	}
	return printable.And(all)
}

// counter names the application or proxy that counts at a point.
func (p Place) counter() string {
	switch {
	case p.Point == Waypoint:
		return "the waypoint"
	case p.Point == Gateway:
		return "the gateway"
	case p.Point == NodeOut || p.Point == NodeIn:
		return "the node proxy of " + p.Service
	case p.Point != Sent && p.Point != Served:
		return "the sidecar of " + p.Service
	case p.Service == LoadName:
		return LoadName
	}
	return "the application " + p.Service
}

func inside(e edge) string {
	return fmt.Sprintf("in the application %s, by its calls of %s (%.4g a request)", e.caller, e.service, e.times)
}

func uncounted(unit Unit, group []string) string {
	return fmt.Sprintf("%s to %s: a counter is missing on one side", plurals[unit], strings.Join(group, ", "))
}

// String describes a violation.
func (e Equation) String() string {
	verb, limit := "appeared", e.More
	if e.Counted < e.Expected {
		verb, limit = "vanished", e.Fewer
	}
	text := fmt.Sprintf("%d %s %s %s: %d expected, %d counted, allowed difference %d", e.off(), plurals[e.Unit], verb, e.Where, e.Expected, e.Counted, limit)
	if e.Retries > 0 {
		text += "; the proxy counted " + printable.Counted(int(e.Retries), "retry")
	}
	return text
}

// maxViolations bounds the violations in a message.
const maxViolations = 3

// Message describes the violations, or "" if the equations hold.
func (b Balance) Message() string {
	all := b.violated()
	texts := lists.Map(all[:min(len(all), maxViolations)], Equation.String)
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more in the record (balance)", more))
	}
	if cause := b.cause(); cause != "" {
		texts = append(texts, "probable cause: "+cause)
	}
	return strings.Join(texts, "; ")
}

// Causes of violations. docs/reference/conservation.md lists them too.
const (
	causeClient  = "a client outside the trial"
	causeEither  = "a client outside the trial, or a proxy that repeats requests and does not count them"
	causeRetries = "a proxy that repeats requests, which its mesh definition does not declare"
	causeBypass  = "requests that bypass the proxies"
	causeAnswer  = "a proxy that answers itself, such as a cache"
	causeCalls   = "an application that does not call as its topology declares"
)

// cause returns the probable cause of the largest violation, or "" if the equations hold.
func (b Balance) cause() string {
	all := b.violated()
	if len(all) == 0 {
		return ""
	}
	first := all[0]
	more := first.Counted > first.Expected
	switch {
	case first.From == Served:
		return causeCalls
	case more && (first.Retries > 0 || first.inside() || b.spans(first) && b.refused(first)):
		return causeRetries
	case slices.ContainsFunc(all, func(e Equation) bool {
		return e.Unit == first.Unit && (e.Counted > e.Expected) != more && alike(e, first)
	}):
		return causeBypass
	case more && b.spans(first):
		return causeEither
	case more:
		return causeClient
	}
	return causeAnswer
}

// violated returns the equations that do not hold, the largest difference first.
func (b Balance) violated() (all []Equation) {
	all = lists.Where(b.Equations, func(e Equation) bool { return !e.OK })
	slices.SortStableFunc(all, func(x, y Equation) int { return int(y.off() - x.off()) })
	return all
}

// inside reports whether both counters are of one side of one sidecar, which no client can reach.
func (e Equation) inside() bool {
	return e.Unit == Requests && (e.From == OutReceived && e.To == OutSent || e.From == InReceived && e.To == InSent)
}

// spans reports whether a proxy between both points has no counter of what it sends, and may have sent a request again.
func (b Balance) spans(e Equation) bool {
	has := func(points ...Point) bool {
		return slices.ContainsFunc(b.Flows, func(f Flow) bool { return f.Unit == Requests && slices.Contains(points, f.Point) })
	}
	if slices.ContainsFunc(b.Flows, func(f Flow) bool { return f.Bytes > 0 && f.Point == e.To }) {
		return true
	}
	from, to := slices.Index(way, e.From), slices.Index(way, e.To)
	across := func(received, sent Point) bool {
		return from <= slices.Index(way, received) && to >= slices.Index(way, sent) && has(received, sent)
	}
	return e.Unit == Requests && (e.From == Gateway || e.From == Waypoint || from >= 0 && (across(OutReceived, OutSent) || across(InReceived, InSent)))
}

// refused reports whether the services refused as many requests as the equation has more, and the callers got none of them.
func (b Balance) refused(e Equation) bool {
	n := int64(0)
	for _, f := range b.Flows {
		switch {
		case f.Unit != Requests || f.Unknown != "":
		case f.Point == Served:
			n += f.Failed
		case f.Point == Sent:
			n -= f.Failed
		}
	}
	return n > 0 && alike(Equation{Counted: n}, e)
}

// alike reports whether two differences are equal within a tenth.
func alike(a, b Equation) bool { return 10*a.off() >= 9*b.off() && 10*b.off() >= 9*a.off() }

// off is the absolute difference.
func (e Equation) off() int64 { return max(e.Counted-e.Expected, e.Expected-e.Counted) }
