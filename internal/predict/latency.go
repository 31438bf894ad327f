package predict

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// mostGrown is the growth of the added median, over its value at the lowest rate, above which requests queue. Queues of
// several services depend on one another, so no sum of measured latencies has them.
const mostGrown = 2

// draws are the draws of calls with a probability, of which the median response is taken.
const draws = 501

// latency returns the growth of the median response by the calls on the critical path.
func (c *Costs) latency(g Graph, flow Flow, rates map[string]float64) (a Amount, path []string, err error) {
	if len(rates) > 1 {
		return a, nil, errors.New("several services are called from outside, whose responses have no common median")
	}
	for _, s := range g.Services {
		if slices.ContainsFunc(s.Calls, func(c app.Call) bool { return c.Alongside }) {
			return a, nil, fmt.Errorf("calls of %s at the same time wait for one another, in its sidecar and for CPUs: no sum of measured latencies has that", s.Name)
		}
	}
	parts := map[[2]int]part{}
	var all []part
	for _, call := range flow.Calls {
		x, err := c.delay(g, flow, call)
		if err != nil {
			return a, nil, err
		}
		parts[[2]int{call.service, call.call}] = x
		all = append(all, x)
	}
	index := map[string]int{}
	for i, s := range g.Services {
		index[s.Name] = i
	}
	entry := flow.Calls[0]
	w := walk{g: g, index: index, parts: parts, entry: entry}
	w.draw()
	estimate := w.added(mean)
	ofMean, ofOne := spread(all, w.added)
	noise := w.added(func(x part) float64 { return x.curve.Noise * mean(x) })
	_, blocks := usedBy([]proxy{{cpu: all}})
	return newAmount(estimate, ofMean, ofOne+noise*noise, 0, 0, blocks, c.confidence), w.path(), nil
}

// unmeasuredError is the reason for a missing latency that a run can measure.
type unmeasuredError struct{ error }

// delay is the latency of a call: of the caller's sidecar and of the callee's. Each has the calls of its service.
func (c *Costs) delay(g Graph, flow Flow, call Call) (part, error) {
	rate := func(service string) float64 {
		s, ok := g.Service(service)
		if !ok {
			return call.Rate // outside
		}
		var total float64
		for _, x := range flow.Calls {
			if x.From == service || x.To == service {
				total += x.Rate
			}
		}
		return total / float64(max(1, s.Replicas))
	}
	busier := max(rate(call.From), rate(call.To))
	src, err := c.find(addedLatency, call, busier)
	if err != nil {
		return part{}, unmeasuredError{fmt.Errorf("calls to %s: %w", call.To, err)}
	}
	curve := src.curves[addedLatency]
	lowest := curve.Axes[0].From
	x := part{src, curve, curve.placeOf(max(busier, lowest), call.Request, call.Response), 1}
	least := x
	least.at = slices.Clone(x.at)
	least.at[0] = lowest
	if grown := mean(x) / mean(least); grown > mostGrown {
		return part{}, fmt.Errorf("%g requests/s pass a sidecar of %s, where requests queue: the median grows to %.1f times its value at %g requests/s", math.Round(busier), call.To, grown, lowest)
	}
	return x, nil
}

// walk follows a request through a graph.
type walk struct {
	g     Graph
	index map[string]int
	parts map[[2]int]part
	entry Call
	drawn []map[[2]int]bool // optional calls that are made, of each draw
}

// draw decides which optional calls are made, the same for every deployment.
func (w *walk) draw() {
	r := rand.New(rand.NewPCG(1, 2))
	optional := false
	for range draws {
		made := map[[2]int]bool{}
		for i, s := range w.g.Services {
			for j, c := range s.Calls {
				if c.Probability != nil {
					optional = optional || *c.Probability > 0 && *c.Probability < 1
					made[[2]int{i, j}] = r.Float64() < *c.Probability
				}
			}
		}
		w.drawn = append(w.drawn, made)
		if !optional {
			return
		}
	}
}

// added is the growth of the median response, with the latency of each call.
func (w *walk) added(value func(part) float64) float64 {
	var with, without []float64
	for _, made := range w.drawn {
		with = append(with, w.call(w.entry.service, w.entry.call, w.entry.To, made, value, nil))
		without = append(without, w.call(w.entry.service, w.entry.call, w.entry.To, made, func(part) float64 { return 0 }, nil))
	}
	slices.Sort(with)
	slices.Sort(without)
	return with[len(with)/2] - without[len(without)/2]
}

// call is the time of a call with all that the callee calls, ms. The services that are called are added to path.
func (w *walk) call(service, call int, to string, made map[[2]int]bool, value func(part) float64, path *[]string) float64 {
	i := w.index[to]
	s := w.g.Services[i]
	milliseconds := func(t app.Times) float64 { return float64(t.Mean()) / 1e6 }
	total := value(w.parts[[2]int{service, call}]) + milliseconds(s.Time)
	if path != nil {
		*path = append(*path, to)
	}
	for j, c := range s.Calls {
		if happens, optional := made[[2]int{i, j}]; optional && !happens {
			continue
		}
		total += milliseconds(c.Wait)
		if c.Service != "" {
			total += w.call(i, j, c.Service, made, value, path)
		}
	}
	return total
}

// path are the services on the critical path of the first draw.
func (w *walk) path() (path []string) {
	w.call(w.entry.service, w.entry.call, w.entry.To, w.drawn[0], mean, &path)
	return path
}
