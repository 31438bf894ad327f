package predict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
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

// mostGrown is the growth of the added median, over its value at the lowest rate, above which requests queue. Queues of
// several services depend on one another, so no sum of measured latencies has them.
const mostGrown = 2

// pair has the response times of a trial with a mesh, and of the trial without in its block. All times are equally likely.
type pair struct {
	block         int
	at            []float64
	with, without []float64 // ms, ascending
}

// atOnce are the times that stand for the response times of a trial, at equal steps of probability.
const atOnce = 100

// times returns the response times of a trial, nil if they are unknown.
func (s Source) times(trial int) (times []float64) {
	t, r := s.Run.Trials[trial], &s.Run.Records[trial]
	if _, known := t.Metrics[metric.Of(metric.Latency, "p50")]; !known || !t.Valid || s.Times == nil {
		return nil
	}
	h, err := s.Times(r)
	if err != nil || h == nil || h.TotalCount() == 0 {
		return nil
	}
	for i := range atOnce {
		times = append(times, float64(h.ValueAtQuantile(100*(float64(i)+0.5)/atOnce))/1e6)
	}
	return times
}

// Latency of one of n calls that are made one after another: a share of the median response, ms. It is not the median of one
// call, because times are skewed: the median of a sum is more than the sum of medians.
func withMesh(n int) quantity {
	return quantity{Latency, fmt.Sprintf("each of %d calls with the mesh", n)}
}
func withoutMesh(n int) quantity {
	return quantity{Latency, fmt.Sprintf("each of %d calls without a mesh", n)}
}

// fitLatency fits the curves of the latency of each of n calls, with a mesh and without. Both are above zero, which their
// difference in a trial may not be.
func (s *source) fitLatency(n int, confidence float64) {
	with, without := withMesh(n), withoutMesh(n)
	if s.curves[with] != nil || s.missing[with] != nil {
		return
	}
	median := mediansOfSums(n)
	for _, p := range s.pairs {
		s.points[with] = append(s.points[with], Point{p.block, p.at, median(p.with) / float64(n)})
		s.points[without] = append(s.points[without], Point{p.block, p.at, median(p.without) / float64(n)})
	}
	s.fitOne(with, confidence)
	if s.fitOne(without, confidence); s.missing[without] != nil {
		s.missing[with] = s.missing[without]
		delete(s.curves, with)
	}
}

// sumsOf is the number of sums of which a median is taken.
const sumsOf = 1000

// mediansOfSums returns the function that returns the median of the sum of n independent times of a trial. Sums are of the
// same places in the order of times for all trials, at steps of the square roots of primes (Richtmyer, 1951), not at random.
func mediansOfSums(n int) func(times []float64) float64 {
	if n == 1 {
		return func(times []float64) float64 { return stats.Quantile(times, 0.5) }
	}
	var steps []float64
	for p := int64(2); len(steps) < n; p++ {
		if big.NewInt(p).ProbablyPrime(0) {
			steps = append(steps, math.Sqrt(float64(p)))
		}
	}
	places := make([]int, 0, sumsOf*n)
	for i := range sumsOf {
		for _, step := range steps {
			_, share := math.Modf((float64(i) + 0.5) * step)
			places = append(places, int(share*atOnce))
		}
	}
	return func(times []float64) float64 {
		sums := make([]float64, sumsOf)
		for i, place := range places {
			sums[i/n] += times[place]
		}
		slices.Sort(sums)
		return sums[sumsOf/2]
	}
}

// draws are the draws of calls with a probability, of which the median response is taken.
const draws = 501

// latency returns the growth of the median response by the calls on the critical path, and the curves that it is read from.
func (c *Costs) latency(g Graph, flow Flow, rates map[string]float64) (a Amount, path []string, used []proxy, err error) {
	if len(rates) > 1 {
		return a, nil, nil, errors.New("several services are called from outside, whose responses have no common median")
	}
	for name := range rates {
		if g.Jobs[name] {
			return a, nil, nil, fmt.Errorf("the jobs of %s have no response", name)
		}
	}
	for _, s := range g.Services {
		if slices.ContainsFunc(s.Calls, func(c app.Call) bool { return c.Alongside }) {
			return a, nil, nil, fmt.Errorf("calls of %s at the same time wait for one another, in its sidecar and for CPUs: no sum of measured latencies has that", s.Name)
		}
	}
	index := map[string]int{}
	for i, s := range g.Services {
		index[s.Name] = i
	}
	w := walk{g: g, index: index, parts: map[[2]int]delay{}, entry: flow.Calls[0]}
	w.draw()
	n := w.calls()
	var all, with, without []part
	for _, call := range flow.Calls {
		x, err := c.delay(g, flow, call, n)
		if err != nil {
			return a, nil, nil, err
		}
		w.parts[[2]int{call.service, call.call}] = x
		for _, end := range x {
			used = append(used, proxy{service: call.To, rate: end.with.at[0], cpu: []part{end.with, end.without}})
			with, without = append(with, end.with), append(without, end.without)
		}
	}
	all = slices.Concat(with, without)
	e := estimator{confidence: c.confidence, common: 1}
	ofMean, between := spread(all, w.added)
	var fit, noise float64 // the trial with a mesh and the one without have noise of their own
	for _, parts := range [][]part{with, without} {
		own := w.added(func(x part) float64 {
			if x.curve.Noise > 0 && slices.ContainsFunc(parts, func(y part) bool { return x.curve == y.curve }) {
				return x.curve.Noise * mean(x)
			}
			return 0
		})
		fit += e.fitVariance(parts, w.added)
		noise += own * own
	}
	estimate := w.added(mean)
	bounds := Causes{
		Connections: math.Abs(w.added(func(x part) float64 { return mean(x) + ofConnections(x) }) - estimate),
		Range:       math.Abs(w.withEnd(0).added(mean) - estimate),
	}
	return e.newAmount(estimate, ofMean, newDeployment(between, fit, noise), 0, bounds, all), w.path(), used, nil
}

// unmeasuredError is the reason for a missing latency that a run can measure.
type unmeasuredError struct{ error }

// delay has the latency of a call at the rate of the busier sidecar, and at the rate of the other one: runs measure both at one rate.
// Each is taken to have half of it.
type delay [2]struct{ with, without part }

func (d delay) added(value func(part) float64) (sum float64) {
	for _, end := range d {
		sum += (value(end.with) - value(end.without)) / float64(len(d))
	}
	return sum
}

// delay is the latency of a call, one of n: of the caller's sidecar and of the callee's. Each has the calls of its service.
func (c *Costs) delay(g Graph, flow Flow, call Call, n int) (d delay, err error) {
	rate := func(service string) float64 {
		s, ok := g.Service(service)
		if !ok {
			return call.Rate // outside
		}
		return flow.through(s)
	}
	for _, s := range c.sources {
		s.fitLatency(n, c.confidence)
	}
	var fresh float64
	if call.Fresh {
		fresh = 1
	}
	busier, calmer := max(rate(call.From), rate(call.To)), min(rate(call.From), rate(call.To))
	if !c.has(inboundCPU) { // all calls pass the shared proxies
		busier = lists.Sum(flow.Calls, func(x Call) float64 { return x.Rate })
		calmer = busier
	}
	src, err := c.find(withMesh(n), call, busier, busier*fresh)
	if err != nil {
		return d, unmeasuredError{fmt.Errorf("calls to %s: %w", call.To, err)}
	}
	curve, bare := src.curves[withMesh(n)], src.curves[withoutMesh(n)]
	lowest := curve.Axes[0].From
	at := func(rates ...float64) (d delay) {
		for i, rate := range rates {
			place := curve.placeOf(max(rate, lowest), call, max(rate, lowest)*fresh)
			d[i].with, d[i].without = part{source: src, curve: curve, at: place, weight: 1}, part{source: src, curve: bare, at: place, weight: 1}
		}
		return d
	}
	d = at(busier, calmer)
	if grown := at(busier, busier).added(mean) / at(lowest, lowest).added(mean); grown > mostGrown {
		return d, fmt.Errorf("%g requests/s pass a sidecar of %s, where requests queue: the median grows to %.1f times its value at %g requests/s", math.Round(busier), call.To, grown, lowest)
	}
	return d, nil
}

// walk follows a request through a graph.
type walk struct {
	g     Graph
	index map[string]int
	parts map[[2]int]delay
	entry Call
	drawn []map[[2]int]bool // optional calls that are made, of each draw
}

// withEnd is the walk with one of the two latencies of each call.
func (w walk) withEnd(end int) *walk {
	w.parts = maps.Clone(w.parts)
	for call, d := range w.parts {
		w.parts[call] = delay{d[end], d[end]}
	}
	return &w
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
	total := milliseconds(s.Time)
	if d, ok := w.parts[[2]int{service, call}]; ok {
		total += d.added(value)
	}
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

// calls is the mean number of calls that a response waits for, at least 1.
func (w *walk) calls() int {
	var path []string
	for _, made := range w.drawn {
		w.call(w.entry.service, w.entry.call, w.entry.To, made, func(part) float64 { return 0 }, &path)
	}
	return max(1, int(math.Round(float64(len(path))/float64(len(w.drawn)))))
}

// path are the services on the critical path of the first draw.
func (w *walk) path() (path []string) {
	w.call(w.entry.service, w.entry.call, w.entry.To, w.drawn[0], mean, &path)
	return path
}
