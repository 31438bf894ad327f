package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// simulated is a random application under load, its mesh, and what each counter counts.
type simulated struct {
	rng      *rand.Rand
	topology app.Topology
	retries  bool
	flows    map[Place]*Tally
}

func (s *simulated) tally(service string, p Point, to string) *Tally {
	place := Place{service, p, to, Requests}
	if s.flows[place] == nil {
		s.flows[place] = &Tally{}
	}
	return s.flows[place]
}

// simulate sends requests through a random application, in which requests fail anywhere.
func simulate(seed uint64, requests int) *simulated {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &simulated{rng: rng, retries: rng.IntN(2) == 0, flows: map[Place]*Tally{}}
	n := 1 + rng.IntN(5)
	for i := range n {
		service := app.Service{Name: fmt.Sprint("s", i)}
		for j := i + 1; j < n; j++ {
			for range rng.IntN(3) {
				c := app.Call{Service: fmt.Sprint("s", j)}
				if rng.IntN(3) == 0 {
					p := rng.Float64()
					c.Probability = &p
				}
				service.Calls = append(service.Calls, c)
			}
		}
		s.topology.Services = append(s.topology.Services, service)
	}
	for _, e := range edges(s.topology) { // counters that nothing moves are 0
		for _, p := range sidecarOut {
			s.tally(e.caller, p, e.service)
		}
	}
	for _, service := range s.topology.Services {
		for _, p := range sidecarIn {
			s.tally(service.Name, p, "")
		}
	}
	for range requests {
		s.send(LoadName, "s0", rng.Float64()*0.2)
	}
	return s
}

// send sends one request, which fails in a proxy or in the service with a probability.
func (s *simulated) send(caller, to string, failing float64) {
	sent := s.tally(caller, Sent, to)
	sent.Count++
	fails := func() bool {
		failed := s.rng.Float64() < failing/5
		if failed {
			sent.Failed++
		}
		return failed
	}
	if fails() {
		return
	}
	s.tally(caller, OutReceived, to).Count++
	if fails() {
		return
	}
	for repeat := 0; ; repeat++ {
		out := s.tally(caller, OutSent, to)
		out.Count++
		if repeat > 0 {
			out.Retries++
		}
		if s.arrive(to, failing) && s.serve(to, failing) {
			return
		}
		if !s.retries || repeat == 2 {
			sent.Failed++
			return
		}
	}
}

// arrive counts an attempt in the proxy of a service. It may be lost there.
func (s *simulated) arrive(to string, failing float64) bool {
	for _, p := range []Point{InReceived, InSent} {
		if s.rng.Float64() < failing/5 {
			return false
		}
		s.tally(to, p, "").Count++
	}
	return true
}

func (s *simulated) serve(name string, failing float64) bool {
	served := s.tally(name, Served, "")
	served.Count++
	if s.rng.Float64() < failing {
		served.Failed++
		served.Partial++
		return false
	}
	service, _ := s.topology.Service(name)
	for _, c := range service.Calls {
		if c.Probability == nil || s.rng.Float64() < *c.Probability {
			s.send(name, c.Service, failing)
		}
	}
	return true
}

// list returns the flows, some of which are unknown.
func (s *simulated) list() (flows []Flow) {
	for place, tally := range s.flows {
		flows = append(flows, Flow{Place: place, Tally: *tally})
	}
	slices.SortFunc(flows, func(a, b Flow) int {
		if a.counted() < b.counted() {
			return -1
		}
		return 1
	})
	return flows
}

// Requests that fail, are repeated and are chosen at random are conserved. Requests of an outside
// client at any point are not.
func FuzzConserved(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint16(seed*97))
	}
	f.Fuzz(func(t *testing.T, seed uint64, where uint16) {
		s := simulate(seed, 500)
		rules := Rules{Retries: s.retries, Measured: 1}
		flows := s.list()
		b := Check(s.topology, rules, flows)
		if b.Message() != "" || len(b.Equations) == 0 {
			t.Fatalf("%s: %+v", b.Message(), flows)
		}
		i := int(where) % len(flows)
		if flows[i].Point == Sent { // a client sends to a proxy or to an application
			return
		}
		// Below the proxies of this caller or service all counters have them.
		surplus := flows[i].Count/20 + flows[i].Retries + 100
		for j := range flows {
			same := flows[j].Service == flows[i].Service && flows[j].To == flows[i].To
			if same && slices.Index(passed, flows[j].Point) >= slices.Index(passed, flows[i].Point) {
				flows[j].Count += surplus
			}
		}
		if b := Check(s.topology, rules, flows); b.Message() == "" {
			t.Errorf("%d requests at %s are not found", surplus, flows[i].counted())
		}
	})
}

// Points of a mesh with sidecars.
var (
	sidecarOut = []Point{Sent, OutReceived, OutSent}
	sidecarIn  = []Point{InReceived, InSent, Served}
	passed     = slices.Concat(sidecarOut, sidecarIn)
)
