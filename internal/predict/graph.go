package predict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Graph is an application that was not measured.
type Graph struct {
	app.Topology
	// Counted is the standard error of the calls per request of the caller, where calls were counted. Absent: exact.
	Counted map[Edge]float64
	// Messages are the messages of a queue per request of a service, and the service that takes them. It works on one as on a
	// request, and no sidecar passes it.
	Messages map[Edge]float64
	// Jobs are services that work by themselves. Their rate from outside is jobs per second, which no sidecar passes.
	Jobs map[string]bool
	// Unsized marks a graph without the sizes of messages: they are as measured.
	Unsized bool
	// Where returns the place of a service, or of one of its calls (call -1: the service), in the file. Nil: no file.
	Where func(service, call int) string
}

// Edge is a caller and the service that it calls.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Flow is the load of each service and of each call.
type Flow struct {
	Rates map[string]float64 // requests/s that each service receives
	Calls []Call             // the calls from outside first, then in the order of the graph
}

// Call is a proxied request from a service to another.
type Call struct {
	Edge             // From is empty for requests from outside
	Rate     float64 // requests/s
	Protocol string
	// Request and Response are mean bytes of the bodies, NaN: as measured.
	Request, Response float64
	Fresh             bool // on a new connection

	service, call int // indices in the graph, call -1 for requests from outside
}

// Spread returns the load of every service for the rates at which services are called from outside.
func (g Graph) Spread(rates map[string]float64) (Flow, error) {
	if g.CallsUnknown() || len(g.Services) == 0 {
		return Flow{}, hint.New("list services with their calls, as examples/graphs/shop.yaml does", "the graph has no calls between its services")
	}
	f := Flow{Rates: map[string]float64{}}
	worked := map[string]float64{} // messages and jobs per second
	done := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		i := slices.IndexFunc(g.Services, func(s app.Service) bool { return s.Name == name })
		if i < 0 {
			names := lists.Map(g.Services, func(s app.Service) string { return s.Name })
			return Flow{}, hint.Usage(fmt.Errorf("--rate %s: the graph has no service %.60q", name, name), strict.DidYouMean(name, names))
		}
		if !(rates[name] > 0) || math.IsInf(rates[name], 0) {
			return Flow{}, hint.Usage(fmt.Errorf("--rate %s: %v is not above 0", name, rates[name]), "write the requests/s from outside: --rate checkout=300")
		}
		if g.Jobs[name] {
			worked[name] += rates[name]
			continue
		}
		f.Rates[name] += rates[name]
		f.Calls = append(f.Calls, g.callOf(Edge{To: name}, rates[name], i, -1, app.CallOptions{}))
	}
	for _, i := range g.callersFirst() {
		s := g.Services[i]
		served := f.Rates[s.Name] + worked[s.Name]
		if s.RateLimit > 0 {
			served = min(served, s.RateLimit)
		}
		if s.Errors != nil {
			served *= 1 - s.Errors.Ratio // failed requests make no calls
		}
		done[s.Name] = true
		for e, n := range g.Messages {
			if e.From == s.Name {
				worked[e.To] += served * n
				if done[e.To] {
					return Flow{}, fmt.Errorf("the calls and messages of %s and %s form a cycle", e.From, e.To)
				}
			}
		}
		for j, c := range s.Calls {
			if c.Service == "" {
				continue
			}
			rate := served * float64(1+g.Redirected(c))
			if c.Probability != nil {
				rate *= *c.Probability
			}
			if done[c.Service] && rate > 0 {
				return Flow{}, fmt.Errorf("the calls and messages of %s and %s form a cycle", s.Name, c.Service)
			}
			f.Rates[c.Service] += rate
			f.Calls = append(f.Calls, g.callOf(Edge{s.Name, c.Service}, rate, i, j, c.CallOptions))
		}
	}
	return f, nil
}

// through is the requests/s that pass each sidecar of a service, received and sent.
func (f Flow) through(s app.Service) (rate float64) {
	for _, call := range f.Calls {
		if call.From == s.Name || call.To == s.Name {
			rate += call.Rate
		}
	}
	return rate / float64(max(1, s.Replicas))
}

func (g Graph) callOf(e Edge, rate float64, service, call int, o app.CallOptions) Call {
	callee, _ := g.Service(e.To)
	c := Call{Edge: e, Rate: rate, Protocol: cmp.Or(o.Protocol, callee.Protocol, app.HTTP1), Request: o.RequestSize.Mean(), Response: math.NaN(), Fresh: o.NewConnection, service: service, call: call}
	if !callee.ResponseSize.IsZero() {
		c.Response = callee.ResponseSize.Mean()
	}
	if g.Unsized && o.RequestSize.IsZero() || e.From == "" {
		c.Request = math.NaN()
	}
	return c
}

// callersFirst returns the indices of the services, each after all that call it.
func (g Graph) callersFirst() (order []int) {
	index, seen := map[string]int{}, map[int]bool{}
	for i, s := range g.Services {
		index[s.Name] = i
	}
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, c := range g.Services[i].Calls {
			if j, ok := index[c.Service]; ok {
				visit(j)
			}
		}
		for e := range g.Messages {
			if j, ok := index[e.To]; ok && e.From == g.Services[i].Name {
				visit(j)
			}
		}
		order = append(order, i)
	}
	for i := range g.Services {
		visit(i)
	}
	slices.Reverse(order)
	return order
}

// place returns the place of a call in the graph's file, and a colon, or nothing.
func (g Graph) place(c Call) string {
	if g.Where == nil {
		return ""
	}
	return g.Where(c.service, c.call) + ": "
}

// withMoreCalls returns the graph with more calls of an edge per request, by one standard error.
func (g Graph) withMoreCalls(e Edge, more float64) Graph {
	g.Services = slices.Clone(g.Services)
	i := slices.IndexFunc(g.Services, func(s app.Service) bool { return s.Name == e.From })
	calls := slices.Clone(g.Services[i].Calls)
	j := slices.IndexFunc(calls, func(c app.Call) bool { return c.Service == e.To })
	c := calls[j]
	c.Probability = &more // an extra call, with what it adds as its probability
	g.Services[i].Calls = append(calls, c)
	return g
}
