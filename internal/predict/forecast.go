package predict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Forecast is the predicted cost of one mesh around an application: of its proxies, and of its control plane by itself.
type Forecast struct {
	Mesh       string       `json:"mesh"`    // name of the definition
	Factors    plan.Factors `json:"factors"` // of the treatments that were measured, without rate, sizes and protocol
	Confidence float64      `json:"confidence"`
	From       []string     `json:"from"`   // results directories of the curves
	Blocks     int          `json:"blocks"` // deployments of the run with the fewest

	// Common is the share of the variance of deployments that is common to sidecars which run at once.
	Common float64 `json:"common"`

	CPU     Amount  `json:"cpu"`               // cores of all proxies
	Memory  Amount  `json:"memory"`            // MiB of all proxies
	Latency *Amount `json:"latency,omitempty"` // added to the median response, ms
	// NoLatency is the reason for a missing latency.
	NoLatency string   `json:"no_latency,omitempty"`
	Path      []string `json:"path,omitempty"`  // the critical path: services, the entry first
	Month     *Amount  `json:"month,omitempty"` // money, for a month of CPU and memory as used

	Services []ServiceCost `json:"services"` // in the order of the graph
	Shared   []SharedCost  `json:"shared,omitempty"`
	Curves   []Used        `json:"curves"` // that the costs are read from

	Control *ControlCost `json:"control_plane,omitempty"`
	// NoControl is the reason why the control plane of a run is not used.
	NoControl string `json:"no_control_plane,omitempty"`
	// Total is Month with the month of the control plane, nil without one of them.
	Total *Amount `json:"month_in_all,omitempty"`

	// Growing is the memory of the sidecars that grew fastest at the end, nil if none did.
	Growing *Growing `json:"growing,omitempty"`

	// Refused is the reason for no forecast, if another mesh has one.
	Refused string `json:"refused,omitempty"`
	// Unmeasured reports that a run can measure the missing latency.
	Unmeasured bool `json:"unmeasured,omitempty"`
}

// ServiceCost is the cost of the sidecars of a service.
type ServiceCost struct {
	Service  string  `json:"service"`
	Replicas int     `json:"replicas"`
	Rate     float64 `json:"rate"`  // requests/s that it receives
	Calls    float64 `json:"calls"` // requests/s that it sends to other services
	CPU      Amount  `json:"cpu"`   // cores of all its sidecars
	Memory   Amount  `json:"memory"`
}

// SharedCost is the cost of the shared proxies of a kind: node proxies, waypoints, gateways. They are as many as measured.
type SharedCost struct {
	Kind   string  `json:"kind"`
	Rate   float64 `json:"rate"` // requests/s that pass them
	CPU    Amount  `json:"cpu"`  // cores
	Memory Amount  `json:"memory"`
}

// Amount is a prediction with its interval for a new deployment.
type Amount struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Causes   Causes  `json:"causes"`
}

// Causes are half widths of intervals from one cause alone. The square of an interval's half width is the sum of their squares.
type Causes struct {
	Curve      float64 `json:"curve"`      // the mean of the deployments that were measured, common to all sidecars, and what their form leaves open
	Deployment float64 `json:"deployment"` // how much a new deployment deviates
	Graph      float64 `json:"graph"`      // calls per request that were counted in a sample
	// Range is from causes that are only bounded: CPU of sidecars below the measured rates, latency between sidecars with different rates.
	Range float64 `json:"range"`
	// Connections are unknown: the cost is between those at the fewest and at the most measured ones.
	Connections float64 `json:"connections"`
	// Called services have an assumed memory in a sidecar, unless a run has it.
	Called float64 `json:"called_services"`
}

// Prices are the prices of a month, of a core and of a MiB.
type Prices struct{ Core, MiB float64 }

// Forecasts returns the forecast for each mesh. rates are requests/s from outside, by service.
func Forecasts(all []*Costs, g Graph, rates map[string]float64, prices *Prices) (forecasts []Forecast, err error) {
	flow, err := g.Spread(rates)
	if err != nil {
		return nil, err
	}
	var refused error
	for _, c := range all {
		f, err := c.forecast(g, flow, rates, prices)
		if err != nil {
			refused = cmp.Or(refused, fmt.Errorf("%s: %w", c.Mesh, err))
			f.Refused = err.Error()
		}
		forecasts = append(forecasts, f)
	}
	if !slices.ContainsFunc(forecasts, func(f Forecast) bool { return f.Refused == "" }) {
		return nil, refused
	}
	return forecasts, nil
}

func (c *Costs) forecast(g Graph, flow Flow, rates map[string]float64, prices *Prices) (f Forecast, err error) {
	f = Forecast{Mesh: c.Mesh, Factors: c.Factors, Confidence: c.confidence}
	proxies, err := c.proxies(g, flow)
	if err != nil {
		return f, err
	}
	f.From, f.Blocks = usedBy(partsOf(proxies, weights{1, 1}))
	e := estimator{confidence: c.confidence, common: c.common(inboundCPU, outboundCPU), more: c.counted(g, rates)}
	f.Common = e.common
	ofMemory := e
	ofMemory.common = c.common(inboundMemory, outboundMemory)
	cpu, memory := weights{cores: 1}, weights{mib: 1}
	f.CPU, f.Memory = e.amount(proxies, cpu), ofMemory.amount(proxies, memory)
	if prices != nil {
		f.Month = new(e.amount(proxies, weights{prices.Core, prices.MiB}))
	}
	for i, p := range proxies {
		e.only, ofMemory.only = []int{i}, []int{i}
		if p.shared {
			f.Shared = append(f.Shared, SharedCost{Kind: p.service, Rate: p.rate, CPU: e.amount(proxies, cpu), Memory: ofMemory.amount(proxies, memory)})
			continue
		}
		f.Services = append(f.Services, ServiceCost{Service: p.service, Replicas: int(p.replicas), Rate: flow.Rates[p.service], Calls: p.calls,
			CPU: e.amount(proxies, cpu), Memory: ofMemory.amount(proxies, memory)})
	}
	f.Curves, f.Growing = usedCurves(proxies), c.growing(proxies)
	if f.Control, err = c.control.cost(configuredFor(g, c.has(inboundCPU)), prices, c.confidence); err != nil {
		f.NoControl = err.Error()
	}
	if f.Month != nil && f.Control != nil {
		f.Total = totalOf(*f.Month, *f.Control.Month, f.Common, slices.Contains(f.From, f.Control.From))
	}
	latency, path, used, err := c.latency(g, flow, rates)
	if err != nil {
		f.NoLatency, f.Unmeasured = err.Error(), errors.As(err, new(unmeasuredError))
		return f, nil
	}
	f.Latency, f.Path = &latency, path
	f.Curves = append(f.Curves, usedCurves(used)...)
	return f, nil
}

// proxy are the sidecars of a service, or the shared proxies of a kind, which are one.
type proxy struct {
	service     string // or kind
	shared      bool
	replicas    float64
	calls       float64 // requests/s to other services
	rate        float64 // requests/s through one sidecar, of both directions
	cpu, memory []part  // of one sidecar
	// scale and unsure are for rates below the measured ones: the CPU is from the measured share to the whole of the cost
	// at the lowest rate, because fixed work is in it.
	scale, unsure float64
	assumed       float64 // called services whose memory no run has
}

// part is a cost at a place of a curve, with its weight.
type part struct {
	source *source
	curve  *Curve
	at     []float64
	weight float64
	// withoutCalls: the part has no calls, so that its connections are not unknown.
	withoutCalls bool
}

// proxies returns the sidecars of each service. Calls through a sidecar share its fixed work and its wake-ups, so each call
// costs as much CPU as in a sidecar that has all calls of the service at the same rate. Their memory adds up.
func (c *Costs) proxies(g Graph, flow Flow) (all []proxy, err error) {
	all, refused := c.shared(flow)
	for i := range g.Services {
		if all != nil && !c.has(inboundCPU) { // the mesh has no sidecars
			break
		}
		p, unmeasured := c.sidecar(g, flow, i)
		all, refused = append(all, p), append(refused, unmeasured...)
	}
	if refused != nil {
		return nil, c.refuse(g, flow, refused)
	}
	return all, nil
}

// sidecar returns the sidecars of a service by its index, and the calls whose cost was not measured.
func (c *Costs) sidecar(g Graph, flow Flow, service int) (p proxy, refused []refusal) {
	s := g.Services[service]
	p = proxy{service: s.Name, replicas: float64(max(1, s.Replicas)), scale: 1}
	type pass struct {
		Call
		cpu, memory quantity
	}
	var passes []pass
	var total float64
	fresh := map[quantity]pass{} // calls on new connections, by direction, with the sum of their rates
	passed := func(call Call, cpu, memory quantity) {
		passes = append(passes, pass{call, cpu, memory})
		total += call.Rate
		if call.Fresh {
			call.Rate += fresh[cpu].Rate
			fresh[cpu] = pass{call, cpu, memory}
		}
	}
	for _, call := range flow.Calls {
		if call.To == s.Name {
			passed(call, inboundCPU, inboundMemory)
		}
		if call.From == s.Name {
			passed(call, outboundCPU, outboundMemory)
			p.calls += call.Rate
		}
	}
	if passes == nil { // no request: it only waits
		idle := g.callOf(Edge{To: s.Name}, 0, service, -1, app.CallOptions{})
		passes = append(passes, pass{idle, inboundCPU, inboundMemory})
	}
	p.rate = total / p.replicas
	refuse := func(x pass, err error) {
		if err != nil {
			refused = append(refused, refusal{x.Call, "sidecar of " + s.Name, err})
		}
	}
	for _, x := range passes {
		weight := 1 / float64(len(passes))
		if total > 0 {
			weight = x.Rate / total
		}
		refuse(x, cmp.Or(c.add(&p, x.Call, x.cpu, p.rate, 0, weight), c.addMemory(&p, x.Call, x.memory, weight)))
	}
	for _, direction := range []quantity{inboundCPU, outboundCPU} { // what new connections add
		if x, ok := fresh[direction]; ok {
			for _, q := range []quantity{x.cpu, x.memory} {
				refuse(x, cmp.Or(c.add(&p, x.Call, q, p.rate, x.Rate/p.replicas, 1), c.add(&p, x.Call, q, p.rate, 0, -1)))
			}
		}
	}
	c.addCalled(&p, s)
	return p, refused
}

// add adds a cost of a proxy that has calls of one kind alone, at a rate and with new connections/s, by a weight.
func (c *Costs) add(p *proxy, call Call, q quantity, rate, connections, weight float64) error {
	src, err := c.find(q, call, rate, connections)
	if err != nil {
		return err
	}
	curve := src.curves[q]
	lowest := curve.Axes[0].From
	x := part{source: src, curve: curve, at: curve.placeOf(max(rate, lowest), call, connections), weight: weight}
	if q.kind == Memory {
		p.memory = append(p.memory, x)
		return nil
	}
	p.cpu = append(p.cpu, x)
	if rate < lowest {
		p.scale, p.unsure = (1+rate/lowest)/2, (1-rate/lowest)/2
	}
	return nil
}

// weights are the price of a core and of a MiB.
type weights struct{ cores, mib float64 }

// cost is the cost of a proxy's replicas, with the value of each part.
func (p proxy) cost(w weights, value func(part) float64) (sum float64) {
	sum = lists.Sum(p.cpu, func(x part) float64 { return w.cores * p.scale * x.weight * value(x) })
	for _, x := range p.memory {
		sum += w.mib * x.weight * value(x)
	}
	return sum * p.replicas
}

// estimator combines the costs of proxies.
type estimator struct {
	confidence float64
	common     float64   // share of the variance of deployments that is common to their sidecars
	more       [][]proxy // proxies with one more standard error of a counted call
	only       []int     // proxies that count, nil for all
}

// amount is the sum of the costs of proxies. The error of curves is common to all. Of the deviation of a new deployment a
// part is common too, because the machine is slow for all at once, and the rest is of each proxy by itself.
func (e estimator) amount(proxies []proxy, w weights) Amount {
	priced := partsOf(proxies, w)
	counts := func(i int) bool { return e.only == nil || slices.Contains(e.only, i) }
	sum := func(all []proxy, value func(part) float64) (total float64) {
		for i, p := range all {
			if counts(i) {
				total += p.cost(w, value)
			}
		}
		return total
	}
	var apart, together variance
	var unsure, connections, assumed float64
	for i, p := range proxies {
		if !counts(i) {
			continue
		}
		v := e.newOne(partsOf([]proxy{p}, w), func(value func(part) float64) float64 { return p.cost(w, value) })
		apart.add(v.times(1 / p.replicas))
		if sd := math.Sqrt(v.sum()); sd > 0 {
			together.add(v.times(1 / sd)) // deviations that are common add up, not their squares
		}
		unsure += p.unsure * p.cost(weights{cores: w.cores}, mean) / p.scale
		connections += math.Abs(p.cost(w, ofConnections))
		assumed += w.mib * p.replicas * p.assumed * AssumedCalled
	}
	deployment := together.times(e.common * together.sum())
	deployment.add(apart.times(1 - e.common))
	curve, _ := spread(priced, func(value func(part) float64) float64 { return sum(proxies, value) })
	estimate := sum(proxies, mean)
	gap := sum(proxies, func(x part) float64 { return x.curve.gap(x.at) })
	var graph float64
	for _, counted := range e.more {
		by := sum(counted, mean) - estimate
		graph += by * by
	}
	return e.newAmount(estimate+assumed, curve, deployment, graph, Causes{Curve: gap, Range: unsure, Connections: connections, Called: assumed}, priced)
}

// newOne is the variance of a sum of parts in one more deployment.
func (e estimator) newOne(parts []part, sum func(value func(part) float64) float64) variance {
	_, between := spread(parts, sum)
	noise := sum(func(x part) float64 { return x.curve.Noise * mean(x) })
	return newDeployment(between, e.fitVariance(parts, sum), noise*noise)
}

// fitVariance is the variance that the noise of trials causes in a sum of parts, from the curves of one deployment. The
// noise of several curves is partly common, as deviations are.
func (e estimator) fitVariance(parts []part, sum func(value func(part) float64) float64) float64 {
	const step = 1e-6 // a sum of medians is linear only in small steps
	var apart, together float64
	known := map[*Curve]bool{}
	middle := sum(mean)
	for _, x := range parts {
		if known[x.curve] {
			continue
		}
		known[x.curve] = true
		by := make([]float64, len(x.curve.form.terms))
		for i := range by {
			by[i] = (sum(func(y part) float64 {
				v := mean(y)
				if y.curve == x.curve {
					v += step * y.curve.parts(y.curve.form, y.at)[i]
				}
				return v
			}) - middle) / step
		}
		v := x.curve.fitVariance(x.curve.form, by)
		apart, together = apart+v, together+math.Sqrt(v)
	}
	return e.common*together*together + (1-e.common)*apart
}

// newAmount returns an amount from the variance of each cause, and bounds. All have the degrees of freedom of their sum.
func (e estimator) newAmount(estimate, curve float64, deployment variance, graph float64, bounds Causes, parts []part) Amount {
	v := deployment
	v.add(variance{blocks: curve})
	free := math.Inf(1)
	for _, x := range parts {
		free = min(free, x.curve.free)
	}
	var factor float64 // of a standard error
	if v.sum() > 0 {
		_, blocks := usedBy(parts)
		factor = v.halfWidth(float64(blocks-1), free, e.confidence) / math.Sqrt(v.sum())
	}
	half := func(variance float64) float64 { return factor * math.Sqrt(variance) }
	c := bounds
	c.Curve, c.Deployment, c.Graph = c.Curve+half(curve), half(deployment.sum()), half(graph)
	all := c.half()
	return Amount{estimate, max(0, estimate-all), estimate + all, c}
}

func mean(x part) float64 {
	sum := lists.Sum(x.curve.fits, func(k []float64) float64 { return x.curve.value(x.curve.form, k, x.at) })
	return sum / float64(len(x.curve.fits))
}

// ofConnections is half of the difference of a part's cost between the most and the fewest measured connections.
func ofConnections(x part) float64 {
	if x.withoutCalls {
		return 0
	}
	few, most := x, x
	few.at, most.at = slices.Clone(x.at), slices.Clone(x.at)
	axis := x.curve.Axes[connectionsAxis]
	few.at[connectionsAxis], most.at[connectionsAxis] = axis.From, axis.To
	return (mean(most) - mean(few)) / 2
}

// spread returns the variances of a sum of parts: of its mean over the deployments of each run, and of one deployment.
// The blocks of a run are common to its curves.
func spread(parts []part, sum func(value func(part) float64) float64) (ofMean, ofOne float64) {
	type known struct {
		mean  float64
		costs map[int]float64
	}
	type reading struct {
		curve *Curve
		at    string
	}
	values := map[reading]known{}
	dirs := map[string]map[int]int{} // number of parts with each block
	for _, x := range parts {
		if at := (reading{x.curve, fmt.Sprint(x.at)}); values[at].costs == nil {
			values[at] = known{mean(x), x.curve.costs(x.at)}
		}
		if dirs[x.source.dir] == nil {
			dirs[x.source.dir] = map[int]int{}
		}
		for _, b := range x.curve.blocks {
			dirs[x.source.dir][b]++
		}
	}
	for dir, blocks := range dirs {
		most := slices.Max(slices.Collect(maps.Values(blocks)))
		var sums []float64
		for _, b := range slices.Sorted(maps.Keys(blocks)) {
			if blocks[b] < most {
				continue
			}
			sums = append(sums, sum(func(x part) float64 {
				v := values[reading{x.curve, fmt.Sprint(x.at)}]
				if x.source.dir == dir {
					return v.costs[b]
				}
				return v.mean
			}))
		}
		sd := stats.SD(sums)
		ofOne += sd * sd
		ofMean += sd * sd / float64(len(sums))
	}
	return ofMean, ofOne
}

// partsOf returns the parts of proxies that have a price.
func partsOf(proxies []proxy, w weights) (all []part) {
	for _, p := range proxies {
		if w.cores > 0 {
			all = append(all, p.cpu...)
		}
		if w.mib > 0 {
			all = append(all, p.memory...)
		}
	}
	return all
}

// usedBy returns the runs of parts, and the fewest blocks of a curve.
func usedBy(parts []part) (dirs []string, blocks int) {
	for _, x := range parts {
		dirs = lists.Add(dirs, x.source.dir)
		if n := len(x.curve.blocks); blocks == 0 || n < blocks {
			blocks = n
		}
	}
	return dirs, blocks
}

// counted returns the proxies with one more standard error of each counted call.
func (c *Costs) counted(g Graph, rates map[string]float64) (all [][]proxy) {
	for e, se := range g.Counted {
		more := g.withMoreCalls(e, se)
		flow, err := more.Spread(rates)
		if err != nil {
			continue
		}
		if p, err := c.proxies(more, flow); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// mostFresh is the highest rate of new connections through a sidecar, in one direction.
func (g Graph) mostFresh(flow Flow) (most float64) {
	for _, s := range g.Services {
		var in, out float64
		for _, call := range flow.Calls {
			switch {
			case !call.Fresh:
			case call.To == s.Name:
				in += call.Rate
			case call.From == s.Name:
				out += call.Rate
			}
		}
		most = max(most, in/float64(max(1, s.Replicas)), out/float64(max(1, s.Replicas)))
	}
	return most
}

const quickstart = "examples/quickstart.yaml"

// CurveCommand is a command that measures Envoy at rates around one, in requests/s. 0: the usual ones.
func CurveCommand(rate float64) string {
	down, up := 100.0, max(1000, twoDigits(rate*1.1))
	if rate > 0 {
		down = min(down, twoDigits(rate*0.9))
	}
	return measureRates(quickstart, down, up)
}

// measureRates is a command that runs an experiment at four rates, each as many times the one before.
func measureRates(file string, down, up float64) string {
	third := math.Cbrt(up / down)
	return fmt.Sprintf("tare run %s --set 'factors.rate=%s'", printable.ShellWord(file), list([]float64{down, twoDigits(down * third), twoDigits(up / third), up}))
}

// Command is a command that measures a mesh over the rates, sizes and protocols of a graph, with the experiment of a results
// directory. Without one it measures Envoy.
func (g Graph) Command(flow Flow, dir string) string {
	low, high := math.Inf(1), 0.0
	sizes := map[string][2]float64{}
	var protocols []string
	grow := func(name string, x float64) {
		if math.IsNaN(x) {
			return
		}
		r, ok := sizes[name]
		if !ok {
			r = [2]float64{x, x}
		}
		sizes[name] = [2]float64{min(r[0], x), max(r[1], x)}
	}
	for _, s := range g.Services {
		if total := flow.through(s); total > 0 {
			low, high = min(low, total), max(high, total)
		}
	}
	for _, call := range flow.Calls {
		grow("requestSize", call.Request)
		grow("responseSize", call.Response)
		protocols = lists.Add(protocols, call.Protocol)
	}
	down, up := twoDigits(low*0.9), twoDigits(high*1.1)
	if up < 4*down {
		down = twoDigits(up / 4)
	}
	file := quickstart
	if dir != "" {
		file = filepath.Join(dir, result.ExperimentFile)
	}
	command := measureRates(file, down, up)
	if fresh := g.mostFresh(flow); fresh > 0 {
		command += fmt.Sprintf(" --set 'factors.connectionRate=[0, %g]'", math.Floor(min(math.Ceil(fresh), down))) // a connection has a request
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if r := sizes[name]; r[1] > 0 {
			levels := []string{fmt.Sprint(app.Size(math.Floor(r[0]))), fmt.Sprint(app.Size(math.Ceil(r[1])))}
			command += fmt.Sprintf(" --set 'factors.%s=[%s]'", name, strings.Join(slices.Compact(levels), ", "))
		}
	}
	if len(protocols) > 1 || len(protocols) == 1 && protocols[0] != app.HTTP1 {
		command += fmt.Sprintf(" --set 'factors.protocol=[%s]'", strings.Join(protocols, ", "))
	}
	return command + " --set blocks=8"
}
