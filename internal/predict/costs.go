package predict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Source is a run with curves, and its results directory.
type Source struct {
	Dir string
	Run *compare.Run
	// Times returns the response times of a trial, ns.
	Times func(r *result.Record) (*hdrhistogram.Histogram, error)
}

// Costs are the costs of the sidecars of one mesh, over the rate and the sizes of messages.
type Costs struct {
	Factors plan.Factors // without the axes and the protocol
	Mesh    string       // name of the definition

	key        string
	confidence float64
	sources    []*source
	called     []*source // runs of services that call others, for the memory of that alone
	control    *controlPlane
}

// callAxes are the quantities that the cost of a call depends on.
var callAxes = []string{experiment.RateFactor, experiment.RequestSizeFactor, experiment.ResponseSizeFactor, experiment.ConnectionRateFactor, experiment.ConnectionsFactor}

// connectionsAxis is the index of the connections: a graph does not have them.
var connectionsAxis = slices.Index(callAxes, experiment.ConnectionsFactor)

// protocolFactor has a source of its own for each level.
const protocolFactor = "protocol"

// noMesh is the level of the factor mesh without one.
const noMesh = "none"

// source has the curves of one protocol of one run.
type source struct {
	dir, protocol string
	pairs         []pair
	points        map[quantity][]Point
	curves        map[quantity]*Curve
	missing       map[quantity]error // why there is no curve
	growths       map[quantity]*growths
	peak          float64 // MiB, of any sidecar
}

type Kind string

// The kinds of costs, with the unit of their curves.
const (
	CPU     Kind = "CPU"     // cores
	Memory  Kind = "memory"  // MiB
	Latency Kind = "latency" // share of the median response, ms
)

// quantity is a cost of calls. A sidecar passes inbound calls to its application, and outbound calls of it to others.
type quantity struct {
	kind Kind
	of   string // calls
}

func (q quantity) String() string { return string(q.kind) + " of " + q.of }

var (
	inboundCPU     = quantity{CPU, "inbound calls"}
	outboundCPU    = quantity{CPU, "outbound calls"}
	inboundMemory  = quantity{Memory, "inbound calls"}
	outboundMemory = quantity{Memory, "outbound calls"}
)

// quantities of every source. Outbound costs may be missing if no service of a graph calls another.
var quantities = []quantity{inboundCPU, outboundCPU, inboundMemory, outboundMemory}

// CostsOf returns the costs of each mesh that the runs measured. Shared proxies are measured whole. Costs of calls come from
// runs of a service that calls no other: its sidecar has inbound calls alone, and the sidecar of the load outbound calls alone.
// Runs of services that call others have the memory of each called service.
func CostsOf(sources []Source) (all []*Costs, err error) {
	for _, s := range sources {
		if err := s.collect(&all); err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(c *Costs) bool { return c.sources == nil })
	for _, c := range all {
		for _, s := range c.sources {
			s.fit(c.confidence)
		}
		for _, s := range c.called {
			s.fitCalled(c.confidence)
		}
	}
	measured := slices.Clone(all)
	all = slices.DeleteFunc(all, func(c *Costs) bool { // a study of a control plane beside curves of its mesh
		return !c.hasCurves() && slices.ContainsFunc(measured, func(other *Costs) bool { return other.control == c.control && other.hasCurves() })
	})
	if len(all) == 0 {
		return nil, hint.New("measure a mesh on one service: tare run examples/quickstart.yaml --set 'factors.rate=[100, 220, 490, 1000]'", "no valid trial of the runs has a proxy of a service that calls no other")
	}
	return all, nil
}

// collect adds the trials of a run to the costs of their meshes.
func (s Source) collect(all *[]*Costs) error {
	type at struct {
		place
		protocol string
		control  string // key of treatments with the same control plane
	}
	places := map[string]at{}
	for _, t := range s.Run.Plan.Treatments {
		if t.Control || t.Reference {
			continue
		}
		own := t
		own.Factors = maps.Clone(t.Factors)
		delete(own.Factors, protocolFactor)
		if p, ok := placeOf(s.Run, own, callAxes); ok {
			for _, factor := range []string{experiment.BackgroundServicesFactor, experiment.BackgroundChangesFactor, experiment.BackgroundProxiesFactor, experiment.BackgroundPodsFactor} {
				delete(own.Factors, factor)
			}
			same, _ := placeOf(s.Run, own, callAxes)
			places[t.ID] = at{p, cmp.Or(t.Levels.Protocol, app.HTTP1), same.key}
		}
	}
	lowest := map[string][]float64{} // levels of each mesh: there calls themselves have least memory
	for _, p := range places {
		if at, ok := lowest[p.key]; !ok || slices.Compare(p.levels, at) < 0 {
			lowest[p.key] = p.levels
		}
	}
	without := map[string][]float64{} // response times without a mesh, by block and place
	where := func(block int, p at) string {
		rest := maps.Clone(p.factors)
		delete(rest, experiment.MeshFactor)
		return fmt.Sprint(block, p.protocol, p.levels, rest)
	}
	for i, t := range s.Run.Trials {
		if p, ok := places[t.Treatment]; ok && p.mesh == noMesh {
			without[where(t.Block, p)] = s.times(i)
		}
	}
	for i, t := range s.Run.Trials {
		p, ok := places[t.Treatment]
		r := &s.Run.Records[i]
		if !ok || !t.Valid || t.Control || r.Load == nil || r.Load.Completed == 0 || t.Metrics[metric.Rate] == 0 {
			continue
		}
		if r.Edges > 1 {
			if slices.Equal(p.levels, lowest[p.key]) {
				costs := costsFor(all, p.place, p.control, s.Run.Confidence())
				sourceOf(&costs.called, s.Dir, p.protocol).addCallers(r, t.Block)
			}
			continue
		}
		sides, kinds := sidecarsOf(r), sharedOf(r)
		if len(sides)+len(kinds) == 0 {
			continue
		}
		costs := costsFor(all, p.place, p.control, s.Run.Confidence())
		src := sourceOf(&costs.sources, s.Dir, p.protocol)
		perSecond := t.Metrics[metric.Rate] / float64(r.Load.Completed)
		costs.control.run(s.Dir).add(r, t.Block, configuredIn(r), perSecond)
		for _, side := range sides {
			var m measured
			m.add(t.Block, perProxy(callAxes, p.levels, float64(len(side.tasks))), perSecond, side.tasks)
			src.points[side.cpu] = append(src.points[side.cpu], m.cpu...)
			src.points[side.memory] = append(src.points[side.memory], m.memory...)
			src.peak = max(src.peak, m.peak)
			if src.growths[side.memory] == nil {
				src.growths[side.memory] = &growths{}
			}
			src.growths[side.memory].add(r, m.memory[0].At, side.tasks)
		}
		for kind, tasks := range kinds {
			var m measured
			m.add(t.Block, p.levels, perSecond, tasks)
			m.cpu[0].Cost *= float64(len(tasks)) // all of them, not the mean
			m.memory[0].Cost *= float64(len(tasks))
			src.points[sharedCPU(kind)] = append(src.points[sharedCPU(kind)], m.cpu...)
			src.points[sharedMemory(kind)] = append(src.points[sharedMemory(kind)], m.memory...)
		}
		if with, bare := s.times(i), without[where(t.Block, p)]; with != nil && bare != nil {
			at := p.levels
			if len(sides) > 0 {
				at = perProxy(callAxes, at, float64(len(sides[0].tasks)))
			}
			src.pairs = append(src.pairs, pair{t.Block, at, with, bare})
		}
	}
	return nil
}

// side are the sidecars of a trial that have calls of one direction alone.
type side struct {
	cpu, memory quantity
	tasks       []result.TaskUsage
}

// sidecarsOf returns the sidecars of the service first, and then the sidecars of the load.
func sidecarsOf(r *result.Record) []side {
	in, out := side{cpu: inboundCPU, memory: inboundMemory}, side{cpu: outboundCPU, memory: outboundMemory}
	for _, t := range r.Tasks {
		if t.Plane != metric.Data || t.Role != mesh.RoleSidecar || t.Missing != "" || t.Ended {
			continue
		}
		if t.Component == app.LoadName {
			out.tasks = append(out.tasks, t)
		} else if t.Component == "" {
			in.tasks = append(in.tasks, t)
		}
	}
	return lists.Where([]side{in, out}, func(s side) bool { return len(s.tasks) > 0 })
}

// costsFor returns the costs of a mesh, new ones for the first trial with it. Costs with the same control plane share it.
func costsFor(all *[]*Costs, p place, control string, confidence float64) *Costs {
	c := &Costs{Factors: p.factors, Mesh: p.mesh, key: p.key, confidence: confidence, control: &controlPlane{key: control}}
	for _, known := range *all {
		if known.key == p.key {
			return known
		}
		if known.control.key == control {
			c.control = known.control
		}
	}
	*all = append(*all, c)
	return c
}

func (c *Costs) hasCurves() bool {
	return slices.ContainsFunc(c.sources, func(s *source) bool { return len(s.curves) > 0 })
}

// sourceOf returns the source of a run and a protocol, a new one for its first trial.
func sourceOf(all *[]*source, dir, protocol string) *source {
	s, known := lists.First(*all, func(s *source) bool { return s.dir == dir && s.protocol == protocol })
	if !known {
		s = newSource(dir, protocol)
		*all = append(*all, s)
	}
	return s
}

func newSource(dir, protocol string) *source {
	return &source{dir: dir, protocol: protocol, points: map[quantity][]Point{}, curves: map[quantity]*Curve{}, missing: map[quantity]error{}, growths: map[quantity]*growths{}}
}

func (s *source) fit(confidence float64) {
	for _, q := range quantities {
		s.fitOne(q, confidence)
	}
	for _, kind := range sharedKinds {
		if len(s.points[sharedCPU(kind)]) > 0 {
			s.fitOne(sharedCPU(kind), confidence)
			s.fitOne(sharedMemory(kind), confidence)
		}
	}
}

func (s *source) fitOne(q quantity, confidence float64) {
	if len(s.points[q]) == 0 {
		s.missing[q] = fmt.Errorf("%s has no %s", s.dir, q)
		return
	}
	curve, err := Fit(s.points[q], callAxes, confidence)
	switch few := (*FewError)(nil); {
	case errors.As(err, &few): // for all costs alike
		s.missing[q] = fmt.Errorf("%s: %w", s.dir, err)
	case err != nil:
		s.missing[q] = fmt.Errorf("%s, %s: %w", s.dir, q, err)
	default:
		s.curves[q] = curve
	}
}

// usual is the size of responses that experiments have by default.
const usual = 1024

// placeOf returns the place of a call on the axes of a curve, in a sidecar with rates of requests and of new connections.
// Sizes that the graph does not have are as measured, and connections in the middle of the measured ones.
func (c *Curve) placeOf(rate float64, call Call, connections float64) []float64 {
	at := []float64{rate, call.Request, call.Response, connections, math.NaN()}
	for i, otherwise := range []float64{0, 0, usual, 0, (c.Axes[connectionsAxis].From + c.Axes[connectionsAxis].To) / 2} {
		if math.IsNaN(at[i]) {
			at[i] = min(max(otherwise, c.Axes[i].From), c.Axes[i].To)
		}
	}
	return at
}

// costs returns the cost at a place in each deployment.
func (c *Curve) costs(at []float64) map[int]float64 {
	all := map[int]float64{}
	for i, b := range c.blocks {
		all[b] = c.value(c.form, c.fits[i], at)
	}
	return all
}

// covers returns nil if a curve of the source has a call at a rate, or else the reason.
func (s *source) covers(q quantity, c Call, rate, connections float64) error {
	curve := s.curves[q]
	if curve == nil {
		return s.missing[q]
	}
	at := curve.placeOf(max(rate, curve.Axes[0].From), c, connections)
	_, err := curve.At(at...)
	return err
}

// find returns the first source that has a call in a sidecar, as [Curve.placeOf] has it. The error is of the source that is nearest: the last one of the protocol.
func (c *Costs) find(q quantity, call Call, rate, connections float64) (*source, error) {
	var measured []string
	var err error
	for _, s := range c.sources {
		measured = append(measured, s.protocol)
		if s.protocol != call.Protocol {
			continue
		}
		if err = s.covers(q, call, rate, connections); err == nil {
			return s, nil
		}
	}
	if err == nil {
		slices.Sort(measured)
		err = fmt.Errorf("calls by %s were not measured, only by %s", call.Protocol, printable.And(slices.Compact(measured)))
	}
	return nil, err
}

// common is the correlation of the costs of both sidecars of a trial, around their means at each place. It is the share of
// the variance that is common to sidecars which run at once. Without both sidecars it is 1, the widest.
func (c *Costs) common(inbound, outbound quantity) float64 {
	var both, in, out float64
	for _, s := range c.sources {
		x, y := deviations(s.points[inbound]), deviations(s.points[outbound])
		for trial, d := range x {
			if e, ok := y[trial]; ok {
				both, in, out = both+d*e, in+d*d, out+e*e
			}
		}
	}
	if in*out == 0 {
		return 1
	}
	return min(1, max(0, both/math.Sqrt(in*out)))
}

// deviations are the shares by which costs deviate from the mean at their place, by block and place.
func deviations(points []Point) map[string]float64 {
	sums, counts := map[string]float64{}, map[string]float64{}
	for _, p := range points {
		at := fmt.Sprint(p.At)
		sums[at] += p.Cost
		counts[at]++
	}
	all := map[string]float64{}
	for _, p := range points {
		at := fmt.Sprint(p.At)
		all[fmt.Sprint(p.Block, at)] = p.Cost*counts[at]/sums[at] - 1
	}
	return all
}

// calledMemory is the memory of a sidecar with inbound calls, over the number of services that it calls.
var calledMemory = quantity{Memory, "called services"}

var calledAxes = []string{"services that a sidecar calls"}

// AssumedCalled is half of the most memory of a called service, MiB, where no run has it. Envoy 1.40 had 0.24 to 0.42 MiB
// for each of 1 to 11 called services. The memory is between none and twice this.
const AssumedCalled = 0.3

// callersRun are the changes of an experiment that measures the memory of called services, with hardly any traffic.
var callersRun = []string{"application.topology=callers", "factors.rate=[10]", "factors.connections=[2]", "factors.responseSize=[100]", "factors.protocol=[http1]"}

// mostCallers is the most services that one of that application calls.
const mostCallers = 11

// addCallers adds the memory of sidecars by the number of services that theirs calls: a mean for each number in a trial.
func (s *source) addCallers(r *result.Record, block int) {
	called := map[string]map[string]bool{}
	if r.Balance == nil {
		return
	}
	for _, f := range r.Balance.Flows {
		if f.Point == balance.Sent && f.Service != app.LoadName {
			if called[f.Service] == nil {
				called[f.Service] = map[string]bool{}
			}
			called[f.Service][f.To] = true
		}
	}
	memory, n := map[int]float64{}, map[int]float64{}
	for _, t := range r.Tasks {
		if t.Plane != metric.Data || t.Role != mesh.RoleSidecar || t.Missing != "" || t.Ended || t.Component != "" {
			continue
		}
		k := len(called[t.Service])
		memory[k] += float64(t.End.RSS) / (1 << 20)
		n[k]++
	}
	for _, k := range slices.Sorted(maps.Keys(n)) {
		s.points[calledMemory] = append(s.points[calledMemory], Point{block, []float64{float64(k)}, memory[k] / n[k]})
	}
}

// fitCalled fits the curve of called services. Without a sidecar that calls none it has nothing to compare with.
func (s *source) fitCalled(confidence float64) {
	curve, err := Fit(s.points[calledMemory], calledAxes, confidence)
	if few, ok := err.(*FewError); ok && few.Rates < minRates {
		err = fmt.Errorf("sidecars call %d different numbers of services, and %d are needed", few.Rates, minRates)
	}
	if err == nil && curve.Axes[0].From > 0 {
		err = fmt.Errorf("every sidecar calls another service")
	}
	if err != nil {
		s.missing[calledMemory] = fmt.Errorf("%s: %w", s.dir, err)
		return
	}
	curve.Reason = "the memory of a sidecar that calls no other service, and memory for every called service"
	s.curves[calledMemory] = curve
}

// addCalled adds the memory of the services that a service calls. Those beyond the most that a run has are assumed.
func (c *Costs) addCalled(p *proxy, s app.Service) {
	services := map[string]bool{}
	for _, call := range s.Calls {
		if call.Service != "" {
			services[call.Service] = true
		}
	}
	n := float64(len(services))
	p.assumed = n
	for _, src := range c.called {
		curve := src.curves[calledMemory]
		if curve == nil || n == 0 {
			continue
		}
		at := math.Min(n, curve.Axes[0].To)
		p.memory = append(p.memory,
			part{source: src, curve: curve, at: []float64{at}, weight: 1, withoutCalls: true},
			part{source: src, curve: curve, at: []float64{0}, weight: -1, withoutCalls: true})
		p.assumed = n - at
		return
	}
}

// addMemory adds the memory that calls of one kind need in a sidecar, and a share of the memory that it has without them. Calls
// have memory beside one another: connections and buffers. What a sidecar has at the lowest measured levels, calls share.
func (c *Costs) addMemory(p *proxy, call Call, q quantity, share float64) error {
	own := call.Rate / p.replicas
	if err := c.add(p, call, q, own, 0, 1); err != nil {
		return err
	}
	if share == 1 {
		return nil
	}
	base := p.memory[len(p.memory)-1]
	base.at, base.weight, base.withoutCalls = make([]float64, len(base.curve.Axes)), share-1, true
	for i, axis := range base.curve.Axes {
		base.at[i] = axis.From
	}
	p.memory = append(p.memory, base)
	return nil
}

// calledStep is the run that measures the memory of called services, if a forecast assumes it.
func calledStep(sources []Source, forecasts []Forecast) []Step {
	for _, f := range forecasts {
		i := slices.IndexFunc(sources, func(s Source) bool { return slices.Contains(f.From, s.Dir) })
		if f.Memory.Causes.Called == 0 || i < 0 {
			continue
		}
		run := sources[i].Run
		meshes := lists.Set(run.Plan.Treatments, func(t plan.Treatment) any { return t.Factors[experiment.MeshFactor] })
		blocks := max(2*minBlocks, run.Count().Blocks)
		return []Step{{
			What:  fmt.Sprintf("the memory of called services, up to %d of one, as a further run for --from: none to %.2g MiB each is assumed", mostCallers, 2*AssumedCalled),
			Set:   append(slices.Clone(callersRun), fmt.Sprintf("blocks=%d", blocks)),
			Takes: run.Plan.TrialTime * time.Duration(len(meshes)*blocks),
			Dir:   sources[i].Dir,
		}}
	}
	return nil
}

// controlMeasured are the trials with a control plane, of which all tasks are one.
type controlMeasured struct {
	measured
	proxies []float64 // that it served
}

// add adds the control plane of a trial. Its cost depends on what it must know, not on requests.
func (m *controlMeasured) add(r *result.Record, block int, levels []float64, perSecond float64) {
	var cpu, memory, peak, proxies float64
	for _, t := range r.Tasks {
		switch {
		case t.Plane == metric.Data:
			proxies++
		case t.Plane != metric.Control:
		case t.Missing != "" || t.Ended:
			return
		default:
			cpu += float64(t.End.CPU-t.Start.CPU) / 1e9 * perSecond
			memory += float64(t.End.RSS) / (1 << 20)
			peak += float64(max(t.End.Peak, t.End.RSS)) / (1 << 20)
		}
	}
	if memory > 0 { // it uses no CPU while nothing changes
		m.cpu, m.memory = append(m.cpu, Point{block, levels, cpu}), append(m.memory, Point{block, levels, memory})
		m.peak, m.proxies = max(m.peak, peak), append(m.proxies, proxies)
	}
}

// controlSize returns the size of the control plane over the options of the mesh that are axes. Without such options it is
// the mean. ok is false without a control plane, or if the levels are too few for a curve.
func (g *group) controlSize(s Sizing, confidence float64) (size Size, ok bool) {
	all := s.axes()
	axes := lists.Where(all, func(axis string) bool { return !slices.Contains(loadAxes, axis) })
	at := make([]float64, len(axes))
	for i, axis := range axes {
		at[i] = s.At[axis]
	}
	band := func(points []Point) (*Curve, Band, error) {
		var over []Point
		for _, p := range points {
			at := make([]float64, len(axes))
			for j, axis := range axes {
				at[j] = p.At[slices.Index(all, axis)]
			}
			over = append(over, Point{Block: p.Block, Cost: p.Cost, At: at})
		}
		c, err := Fit(over, axes, confidence)
		if err != nil {
			return nil, Band{}, err
		}
		b, err := c.At(at...)
		return c, b, err
	}
	var errCPU, errMemory error
	size.Curve, size.CPU, errCPU = band(g.control.cpu)
	size.MemoryCurve, size.Memory, errMemory = band(g.control.memory)
	if errCPU != nil || errMemory != nil {
		return size, false
	}
	size.Place = at
	size.request(g.control.peak, s)
	size.Factors, size.Proxy, size.Workers, size.Mesh = g.factors, ControlPlane, 1, g.mesh
	for _, n := range g.control.proxies {
		size.Proxies += n / float64(len(g.control.proxies))
	}
	return size, true
}

// loadAxes are the axes of requests and connections, on which a control plane does not depend.
var loadAxes = []string{experiment.RateFactor, experiment.ConnectionsFactor, experiment.ConnectionRateFactor, experiment.RequestSizeFactor, experiment.ResponseSizeFactor}

// ControlCost is the cost of a control plane in a forecast. It depends on what it configures, and not on requests.
type ControlCost struct {
	From   string  `json:"from"`            // results directory
	CPU    Amount  `json:"cpu"`             // cores of all its tasks
	Memory Amount  `json:"memory"`          // MiB
	Month  *Amount `json:"month,omitempty"` // money, for a month of CPU and memory as used
	// Configured are proxies, services, and changes per second of endpoints.
	Configured []Configured `json:"configured"`
	// Grows: the run has a curve over proxies or services. Otherwise the cost is as measured.
	Grows bool `json:"grows,omitempty"`
}

// Configured is a number of things that a control plane configures.
type Configured struct {
	Axis            // as measured
	Wanted *float64 `json:"wanted"` // of the application, null if unknown
	At     float64  `json:"at"`     // at which the cost is
}

// controlAxes are the numbers of which the cost of a control plane is a function.
var controlAxes = []string{"proxies", "services", "changes per second"}

// changesAxis is the index of the changes: a graph does not have them.
const changesAxis = 2

// configuredIn are the numbers of a trial with one service, and simulated ones.
func configuredIn(r *result.Record) []float64 {
	at := []float64{0, 1, 0}
	for _, t := range r.Tasks {
		if t.Plane == metric.Data {
			at[0]++
		}
	}
	if b := r.Background; b != nil {
		at[1], at[changesAxis] = at[1]+float64(b.Services), b.Asked
		if b.Pushes != nil {
			at[0] += float64(b.Pushes.Proxies)
		}
	}
	return at
}

// controlPlane are the runs with the control plane of a mesh, whatever else differs.
type controlPlane struct {
	key  string
	runs []*controlRun
}

type controlRun struct {
	dir string
	controlMeasured
}

func (c *controlPlane) run(dir string) *controlRun {
	i := slices.IndexFunc(c.runs, func(r *controlRun) bool { return r.dir == dir })
	if i < 0 {
		i = len(c.runs)
		c.runs = append(c.runs, &controlRun{dir: dir})
	}
	return c.runs[i]
}

// configuredFor are the numbers of an application, NaN if unknown.
func configuredFor(g Graph, sidecars bool) []float64 {
	wanted := []float64{math.NaN(), float64(len(g.Services)), math.NaN()}
	if sidecars {
		wanted[0] = 0
		for _, s := range g.Services {
			wanted[0] += float64(max(1, s.Replicas))
		}
	}
	return wanted
}

// cost returns the cost of the control plane at wanted numbers: from the first run with several numbers of proxies or
// services, or else as measured. It is nil if no run measured one. The error is of the runs that do not have the numbers.
func (c *controlPlane) cost(wanted []float64, prices *Prices, confidence float64) (cost *ControlCost, err error) {
	var refused error
	for _, r := range c.runs {
		if len(r.cpu) == 0 {
			continue
		}
		found, err := r.cost(wanted, prices, confidence)
		if err != nil {
			refused = errors.Join(refused, fmt.Errorf("%s: %w", r.dir, err))
		} else if cost == nil || found.Grows && !cost.Grows {
			cost = found
		}
	}
	return cost, refused
}

// cost reads the cost at a wanted number. Fewer than measured cost as much as the fewest.
func (r *controlRun) cost(wanted []float64, prices *Prices, confidence float64) (*ControlCost, error) {
	cpu, axis := arm(r.cpu)
	memory, _ := arm(r.memory)
	cost := &ControlCost{From: r.dir, Grows: axis >= 0}
	for i, name := range controlAxes {
		levels := levelsOf(cpu, i)
		x := Configured{Axis: Axis{Name: name, From: levels[0], To: levels[len(levels)-1], Levels: len(levels)}, At: levels[0]}
		if w := wanted[i]; !math.IsNaN(w) {
			x.Wanted, x.At = &w, min(max(w, x.From), x.To)
		}
		if i == axis && x.Wanted != nil && *x.Wanted > x.To {
			return nil, fmt.Errorf("%g %s were not measured, only %s", *x.Wanted, name, x.span(x.From, x.To))
		}
		cost.Configured = append(cost.Configured, x)
	}
	read := func(points []Point) (Amount, error) {
		from, to, at := 0, 0, []float64{}
		if axis >= 0 {
			from, to, at = axis, axis+1, []float64{cost.Configured[axis].At}
		}
		over := lists.Map(points, func(p Point) Point { return Point{Block: p.Block, At: p.At[from:to], Cost: p.Cost} })
		curve, err := Fit(over, controlAxes[from:to], confidence)
		if err != nil {
			return Amount{}, err
		}
		b, err := curve.At(at...)
		return amountOf(b), err
	}
	var err error
	if cost.CPU, err = read(cpu); err != nil {
		return nil, err
	}
	if cost.Memory, err = read(memory); err != nil {
		return nil, err
	}
	if prices != nil {
		cost.Month = monthOf(cost.CPU, cost.Memory, *prices)
	}
	return cost, nil
}

// arm returns the points that differ in one number alone, proxies or else services, with three levels at least, and its
// axis. Studies vary one number at a time, so how numbers work together is unknown. Without such points it returns those
// at the fewest, and -1.
func arm(points []Point) (chosen []Point, axis int) {
	for axis := range changesAxis {
		arms := map[string][]Point{}
		var best string
		for _, p := range points {
			others := slices.Delete(slices.Clone(p.At), axis, axis+1)
			arms[fmt.Sprint(others)] = append(arms[fmt.Sprint(others)], p)
		}
		for _, key := range slices.Sorted(maps.Keys(arms)) {
			if best == "" || len(levelsOf(arms[key], axis)) > len(levelsOf(arms[best], axis)) {
				best = key
			}
		}
		if len(levelsOf(arms[best], axis)) >= minRates {
			return arms[best], axis
		}
	}
	fewest := slices.MinFunc(points, func(p, q Point) int { return slices.Compare(p.At, q.At) })
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return !slices.Equal(p.At, fewest.At) }), -1
}

func amountOf(b Band) Amount {
	mean, another := b.High-b.Estimate, b.NewHigh-b.Estimate
	c := Causes{Curve: mean, Deployment: math.Sqrt(max(0, another*another-mean*mean))}
	return Amount{b.Estimate, max(0, b.Estimate-c.half()), b.Estimate + c.half(), c}
}

// totalOf is the money of proxies and of their control plane. Its causes of the proxies alone are as theirs. A new deployment
// of both runs on one machine: common is the correlation of their deviations, as of sidecars. So it is of the curves if they
// are of the same deployments, and otherwise these are independent.
func totalOf(proxies, control Amount, common float64, sameRun bool) *Amount {
	sum := func(a, b, correlation float64) float64 { return math.Sqrt(a*a + b*b + 2*correlation*a*b) }
	ofCurves := 0.0
	if sameRun {
		ofCurves = common
	}
	c := proxies.Causes
	c.Curve, c.Deployment = sum(c.Curve, control.Causes.Curve, ofCurves), sum(c.Deployment, control.Causes.Deployment, common)
	estimate, half := proxies.Estimate+control.Estimate, c.half()
	return &Amount{estimate, max(0, estimate-half), estimate + half, c}
}

// monthOf is the money for a month. CPU and memory deviate together, the widest.
func monthOf(cpu, memory Amount, p Prices) *Amount {
	of := func(cores, mib float64) float64 { return cores*p.Core + mib*p.MiB }
	return &Amount{of(cpu.Estimate, memory.Estimate), of(cpu.Low, memory.Low), of(cpu.High, memory.High),
		Causes{Curve: of(cpu.Causes.Curve, memory.Causes.Curve), Deployment: of(cpu.Causes.Deployment, memory.Causes.Deployment)}}
}
