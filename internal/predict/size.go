package predict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/stats"
)

// Sizing is the load of a proxy, and its headroom.
type Sizing struct {
	Rate     float64 `json:"rate"`     // requests/s through one proxy, 0 if only shared ones are sized
	Headroom float64 `json:"headroom"` // share above what was measured, 0.3 for 30 %
	// At are levels of factors, and of options of meshes, that are numbers: connections of one proxy, clusters it knows.
	At map[string]float64 `json:"at,omitempty"`

	Objective *Objective `json:"objective,omitempty"`
	// TotalRate is requests/s through all replicas of a waypoint or gateway, of ReplicaCPU cores each. 0: one proxy at Rate.
	TotalRate  float64 `json:"total_rate,omitempty"`
	ReplicaCPU float64 `json:"replica_cpu,omitempty"`
	Pods       []int   `json:"pods,omitempty"` // of each node with pods. Then Rate is through the proxy of a mean node
}

// axes are the rate, and the names of At.
func (s Sizing) axes() []string {
	return append([]string{experiment.RateFactor}, slices.Sorted(maps.Keys(s.At))...)
}

// Size has the needs of one proxy of a kind.
type Size struct {
	Factors plan.Factors `json:"factors"` // of the treatments that were measured, without the axes of the curve
	Proxy   string       `json:"proxy"`   // kind: "sidecar of echo", "waypoint"
	Place   []float64    `json:"place"`   // levels of the curve's axes at which it is sized
	CPU     Band         `json:"cpu"`     // cores, without headroom
	Memory  Band         `json:"memory"`  // MiB at the end of the measure phase, without headroom
	Peak    float64      `json:"peak"`    // MiB, the largest of any proxy of the kind

	RequestCPU    float64 `json:"request_cpu"`    // cores
	RequestMemory float64 `json:"request_memory"` // MiB
	LimitMemory   float64 `json:"limit_memory"`   // MiB
	Curve         *Curve  `json:"curve"`          // of CPU
	MemoryCurve   *Curve  `json:"memory_curve"`

	Growing *Growing `json:"growing,omitempty"` // memory that was still growing at the end

	Mesh string `json:"mesh"` // name of the definition that a variant comes from

	Limited []Limited `json:"limited,omitempty"` // what limits did, of variants that differ in them alone

	LimitCPU float64   `json:"limit_cpu,omitempty"` // cores: the lowest measured limit that keeps the objective, 0 for none
	Workers  int       `json:"workers"`             // worker threads: one for each core of request or limit that is begun
	Replicas *Replicas `json:"replicas,omitempty"`  // of a waypoint or gateway, if the total rate is known
	Nodes    *Nodes    `json:"nodes,omitempty"`     // of a node proxy, if the pods of nodes are known
	Proxies  float64   `json:"proxies,omitempty"`   // that a control plane served, mean of trials
}

// ControlPlane is the kind of all tasks of a control plane together.
const ControlPlane = "control plane"

// steps round requests up: to 5 thousandths of a core, and to 2 MiB.
const (
	stepCPU    = 0.005
	stepMemory = 2
)

// Sizes returns the size of each kind of proxy of each treatment of a run.
func Sizes(run *compare.Run, s Sizing) (all []Size, err error) {
	axes := s.axes()
	for _, axis := range axes {
		if !slices.ContainsFunc(run.Plan.Treatments, func(t plan.Treatment) bool { return hasAxis(run, t, axis) }) {
			return nil, hint.New("name a factor or an option of the run that is a number", "the run has no %s", axis)
		}
	}
	groups := groupsOf(run, axes)
	var left []string             // shared proxies alone can do without a rate
	refused := map[string]error{} // by definition, of variants with one level of an option
	for _, g := range groups {
		if g.hasFree(groups) {
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(g.kinds)) {
			if s.Rate == 0 && !shared(kind) {
				left = append(left, kind)
				continue
			}
			size, err := sizeOf(kind, g.kinds[kind], run.Confidence(), s)
			if err != nil {
				outside := (*OutsideError)(nil)
				if errors.As(err, &outside) {
					outside.Set = g.measuring(run, outside)
				}
				err = fmt.Errorf("%s, %v: %w", kind, cmp.Or(g.mesh, fmt.Sprint(g.factors)), err)
				if outside == nil || outside.Axis.Levels > 1 || isFactor(run, outside.Axis.Name) {
					return nil, err
				}
				refused[g.mesh] = err // unless other variants vary it
				continue
			}
			size.Factors, size.Proxy, size.Mesh = g.factors, kind, g.mesh
			size.Limited = g.limited(kind, limitedOnes(g, groups), size.Place, s, run.Confidence())
			size.LimitCPU = limitThatHolds(size.Limited, size.RequestCPU)
			size.Workers = int(math.Ceil(max(size.RequestCPU, size.LimitCPU)))
			all = append(all, size)
		}
		if size, ok := g.controlSize(s, run.Confidence()); ok && len(g.kinds) > 0 {
			all = append(all, size)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if !slices.ContainsFunc(all, func(s Size) bool { return s.Mesh == name }) {
			return nil, refused[name]
		}
	}
	if all == nil && left != nil {
		return nil, hint.New("write the requests/s through one proxy: --rate 800", "the run has no waypoint and no gateway, and a %s needs a rate", left[0])
	}
	if all == nil {
		return nil, hint.New("measure a mesh at several rates, such as --set 'factors.rate=[100, 220, 490, 1000]'", "no valid trial of the run has a proxy of its own and a rate")
	}
	return all, nil
}

// groupsOf returns treatments that differ in axes alone, with the proxies of their trials, in the order of the plan.
func groupsOf(run *compare.Run, axes []string) (all []*group) {
	byKey, byTreatment := map[string]*group{}, map[string]place{}
	for _, t := range run.Plan.Treatments {
		at, ok := placeOf(run, t, axes)
		if t.Control || !ok {
			continue
		}
		byTreatment[t.ID] = at
		if byKey[at.key] == nil {
			byKey[at.key] = &group{place: at, kinds: map[string]*measured{}}
			all = append(all, byKey[at.key])
		}
	}
	for i := range run.Records {
		if at, ok := byTreatment[run.Trials[i].Treatment]; ok {
			byKey[at.key].trials = append(byKey[at.key].trials, newLimitedTrial(&run.Records[i], run.Trials[i], at.levels))
			byKey[at.key].add(&run.Records[i], run.Trials[i], axes, at.levels)
		}
	}
	return all
}

// place is where a treatment lies on the axes.
type place struct {
	levels  []float64    // of each axis
	factors plan.Factors // the others
	mesh    string       // definition
	level   string       // of the factor mesh
	key     string       // of treatments that differ in the axes alone

	limits    experiment.Amounts // of its sidecars
	unlimited string             // key of treatments that differ in the axes and limits alone
}

// isFactor reports whether an axis is a factor, and not an option.
func isFactor(run *compare.Run, axis string) bool {
	_, factor := experiment.LevelOf(axis, run.Plan.Treatments[0].Levels)
	return factor
}

// hasAxis reports whether an axis is a factor, or an option of the treatment's mesh.
func hasAxis(run *compare.Run, t plan.Treatment, axis string) bool {
	if isFactor(run, axis) {
		return true
	}
	name, _ := t.Factors[experiment.MeshFactor].(string)
	_, options, _ := run.OptionsOf(name)
	_, option := options[axis]
	return option || t.Factors[axis] != nil
}

// placeOf finds each axis among the factors of a treatment, or else among the options of its mesh.
func placeOf(run *compare.Run, t plan.Treatment, axes []string) (at place, ok bool) {
	at.factors = maps.Clone(t.Factors)
	name, _ := t.Factors[experiment.MeshFactor].(string)
	var options map[string]string
	var other string
	at.mesh, options, other = run.OptionsOf(name)
	at.level = name
	for _, axis := range axes {
		level, factor := t.Factors[axis]
		if l, known := experiment.LevelOf(axis, t.Levels); !factor && known {
			level, factor = l.Value, true
		}
		if !factor {
			n, err := strconv.ParseFloat(cmp.Or(options[axis], "0"), 64) // without the option there are 0 items
			if err != nil {
				return at, false
			}
			level = n
			delete(options, axis)
			delete(at.factors, experiment.MeshFactor) // variants that differ in the option are one curve
		}
		n, numeric := level.(float64)
		if !numeric {
			return at, false
		}
		at.levels = append(at.levels, n)
		delete(at.factors, axis)
	}
	at.key = fmt.Sprint(at.factors, at.mesh, options, other)
	at.limits, at.unlimited = at.limitsOf(run, name, options)
	if _, kept := at.factors[experiment.MeshFactor]; !kept && name != "" {
		at.factors[experiment.MeshFactor] = at.mesh
	}
	return at, true
}

// group are treatments that differ in the axes alone.
type group struct {
	place
	kinds   map[string]*measured
	control controlMeasured
	trials  []limitedTrial
}

// measured are the trials with a kind of proxy.
type measured struct {
	cpu, memory []Point
	peak        float64
	growths     growths
}

func (g *group) add(r *result.Record, t figures.Measured, axes []string, levels []float64) {
	answered, known := t.Metrics[metric.Rate]
	if !t.Valid || t.Control || !known || r.Load == nil || r.Load.Completed == 0 {
		return
	}
	perSecond := answered / float64(r.Load.Completed)
	for kind, tasks := range proxyTasks(r) {
		if g.kinds[kind] == nil {
			g.kinds[kind] = &measured{}
		}
		own := perProxy(axes, levels, float64(len(tasks)))
		g.kinds[kind].add(t.Block, own, perSecond, tasks)
		g.kinds[kind].growths.add(r, own, tasks)
	}
	g.control.add(r, t.Block, levels, perSecond)
}

// perProxy are the levels of one of several proxies, among which the load divides.
func perProxy(axes []string, levels []float64, proxies float64) []float64 {
	own := slices.Clone(levels)
	for i, axis := range axes {
		if axis == experiment.RateFactor || axis == experiment.ConnectionsFactor || axis == experiment.ConnectionRateFactor {
			own[i] /= proxies
		}
	}
	return own
}

// add adds the mean proxy of a trial, at its own levels. perSecond is answers a second for each answer of the trial: it makes a rate of CPU.
func (m *measured) add(block int, levels []float64, perSecond float64, tasks []result.TaskUsage) {
	n := float64(len(tasks))
	var cpu, memory float64
	for _, t := range tasks {
		cpu += float64(t.End.CPU-t.Start.CPU) / 1e9 * perSecond / n
		memory += float64(t.End.RSS) / (1 << 20) / n
		m.peak = max(m.peak, float64(max(t.End.Peak, t.End.RSS))/(1<<20))
	}
	m.cpu = append(m.cpu, Point{block, levels, cpu})
	m.memory = append(m.memory, Point{block, levels, memory})
}

// proxyTasks returns the proxies through which all requests of the load pass, by kind: the sidecars of the service that
// the load calls, and each other kind. Those of other services have other rates.
func proxyTasks(r *result.Record) map[string][]result.TaskUsage {
	entry := ""
	if r.Balance != nil {
		for _, f := range r.Balance.Flows {
			if f.Service == balance.LoadName && f.Point == balance.Sent {
				entry = f.To
			}
		}
	}
	kinds := map[string][]result.TaskUsage{}
	for _, t := range r.Tasks {
		kind := t.Role
		if kind == mesh.RoleSidecar {
			kind = "sidecar of " + entry
		}
		if t.Plane != metric.Data || t.Component != "" || t.Role == mesh.RoleSidecar && t.Service != entry {
			continue
		}
		kinds[kind] = append(kinds[kind], t)
	}
	return withKnownUsage(kinds)
}

func sizeOf(kind string, m *measured, confidence float64, s Sizing) (size Size, err error) {
	at := s.place()
	if size.Curve, err = Fit(m.cpu, s.axes(), confidence); err != nil {
		return size, err
	}
	if size.MemoryCurve, err = Fit(m.memory, s.axes(), confidence); err != nil {
		return size, fmt.Errorf("memory: %w", err)
	}
	switch {
	case shared(kind) && s.TotalRate > 0:
		if size.Replicas, err = replicasOf(size.Curve, at, s); err != nil {
			return size, err
		}
		at[0] = size.Replicas.Rate
	case kind == mesh.RoleNodeProxy && len(s.Pods) > 0:
		if size.Nodes, err = nodesOf(size.Curve, size.MemoryCurve, at, s); err != nil {
			return size, err
		}
		at = perProxy(s.axes(), at, 1/size.Nodes.Ratio)
	}
	if size.CPU, err = size.Curve.At(at...); err != nil {
		return size, err
	}
	if size.Memory, err = size.MemoryCurve.At(at...); err != nil {
		return size, err
	}
	size.Place, size.Growing = at, m.growths.fastest(confidence)
	size.request(m.peak, s)
	if size.Replicas != nil {
		size.RequestCPU = s.ReplicaCPU
	}
	return size, nil
}

func (s Sizing) place() []float64 {
	return append([]float64{s.Rate}, lists.Map(s.axes()[1:], func(axis string) float64 { return s.At[axis] })...)
}

// request adds the headroom. peak is in MiB.
func (size *Size) request(peak float64, s Sizing) {
	up := func(v, step float64) float64 { return math.Ceil(v*(1+s.Headroom)/step) * step }
	size.Peak = peak
	size.RequestCPU, size.RequestMemory = up(size.CPU.Estimate, stepCPU), up(size.Memory.NewHigh, stepMemory)
	size.LimitMemory = max(size.RequestMemory, up(peak, stepMemory))
}

// Growing is memory of proxies that was still growing at the end of the measure phase: longer trials have more.
type Growing struct {
	PerMinute stats.Interval `json:"mib_per_minute"` // of the mean proxy
	Rate      float64        `json:"rate"`           // requests/s at which it grew fastest, 0 if the rate is no factor
}

// growths are the growths of the mean proxy of a kind, in the trials at each place.
type growths struct {
	places  []grown
	seconds float64 // of load, the longest
}

type grown struct {
	at                []float64
	perMinute, memory []float64 // MiB, of each trial
}

func (g *growths) add(r *result.Record, at []float64, tasks []result.TaskUsage) {
	perMinute, ok := figures.MemoryGrowth(r, tasks)
	if !ok {
		return
	}
	g.seconds = max(g.seconds, r.Load.LoadedSeconds())
	i := slices.IndexFunc(g.places, func(p grown) bool { return slices.Equal(p.at, at) })
	if i < 0 {
		i = len(g.places)
		g.places = append(g.places, grown{at: at})
	}
	p, n := &g.places[i], float64(len(tasks))
	memory := lists.Sum(tasks, func(t result.TaskUsage) float64 { return float64(t.End.RSS) / (1 << 20) / n })
	p.perMinute, p.memory = append(p.perMinute, perMinute/n), append(p.memory, memory)
}

// fastest returns the fastest growth that [compare.StillGrows], or nil.
func (g *growths) fastest(confidence float64) (found *Growing) {
	for _, p := range g.places {
		growth := stats.MeanInterval(p.perMinute, confidence).Interval
		if !compare.StillGrows(growth, stats.Mean(p.memory), g.seconds) || found != nil && growth.Estimate <= found.PerMinute.Estimate {
			continue
		}
		found = &Growing{PerMinute: growth}
		if len(p.at) > 0 {
			found.Rate = p.at[0]
		}
	}
	return found
}

// growing returns the fastest growth of memory in the sources of sidecars, or nil.
func (c *Costs) growing(proxies []proxy) (fastest *Growing) {
	for _, x := range partsOf(proxies, weights{1, 1}) {
		for _, g := range x.source.growths {
			if found := g.fastest(c.confidence); found != nil && (fastest == nil || found.PerMinute.Estimate > fastest.PerMinute.Estimate) {
				fastest = found
			}
		}
	}
	return fastest
}

// Replicas are the proxies that share a load: a waypoint, a gateway.
type Replicas struct {
	N     int     `json:"n"`
	Rate  float64 `json:"rate"`  // requests/s of each
	Cores Band    `json:"cores"` // that all use, without headroom
	// Range: fewer replicas have CPU enough, but so high a rate was not measured.
	Range bool `json:"range,omitempty"`
}

// shared reports whether proxies of a kind share the load of many pods, so that their number is free.
func shared(kind string) bool { return kind == mesh.RoleWaypoint || kind == mesh.RoleGateway }

// sharedKinds are the kinds of proxies that are of no single pod.
var sharedKinds = []string{mesh.RoleNodeProxy, mesh.RoleWaypoint, mesh.RoleGateway}

func sharedCPU(kind string) quantity    { return quantity{CPU, "all proxies of kind " + kind} }
func sharedMemory(kind string) quantity { return quantity{Memory, "all proxies of kind " + kind} }

// sharedOf returns the shared proxies of a trial by kind.
func sharedOf(r *result.Record) map[string][]result.TaskUsage {
	kinds := map[string][]result.TaskUsage{}
	for _, t := range r.Tasks {
		if t.Plane == metric.Data && slices.Contains(sharedKinds, t.Role) {
			kinds[t.Role] = append(kinds[t.Role], t)
		}
	}
	return withKnownUsage(kinds)
}

// withKnownUsage leaves out the kinds with a task whose usage is unknown.
func withKnownUsage(kinds map[string][]result.TaskUsage) map[string][]result.TaskUsage {
	maps.DeleteFunc(kinds, func(_ string, tasks []result.TaskUsage) bool {
		return slices.ContainsFunc(tasks, func(t result.TaskUsage) bool { return t.Missing != "" || t.Ended })
	})
	return kinds
}

func (c *Costs) has(q quantity) bool {
	return slices.ContainsFunc(c.sources, func(s *source) bool { return len(s.points[q]) > 0 })
}

// shared returns the shared proxies of each kind, as many as were measured. All calls pass them, and those from outside
// alone pass gateways.
func (c *Costs) shared(flow Flow) (all []proxy, refused []refusal) {
	for _, kind := range sharedKinds {
		if !c.has(sharedCPU(kind)) {
			continue
		}
		passed := lists.Where(flow.Calls, func(c Call) bool { return kind != mesh.RoleGateway || c.From == "" })
		rate := lists.Sum(passed, func(c Call) float64 { return c.Rate })
		p := proxy{service: kind, shared: true, replicas: 1, scale: 1, rate: rate}
		for _, call := range passed {
			share := call.Rate / p.rate
			if err := cmp.Or(c.add(&p, call, sharedCPU(kind), p.rate, 0, share), c.add(&p, call, sharedMemory(kind), p.rate, 0, share)); err != nil {
				refused = append(refused, refusal{call, kind, err})
			}
		}
		all = append(all, p)
	}
	return all, refused
}

// replicasOf returns the fewest replicas whose CPU, with headroom, is within the CPU of a replica.
func replicasOf(c *Curve, at []float64, s Sizing) (*Replicas, error) {
	rates := c.Axes[0]
	least := max(1, math.Ceil(s.TotalRate/rates.To))
	own := slices.Clone(at)
	for n := least; n <= s.TotalRate/rates.From; n++ {
		own[0] = s.TotalRate / n
		one, err := c.At(own...)
		if err != nil {
			return nil, err
		}
		if one.Estimate*(1+s.Headroom) <= s.ReplicaCPU {
			return &Replicas{N: int(n), Rate: own[0], Cores: one.times(n), Range: n == least && n > 1}, nil
		}
	}
	if s.TotalRate < rates.From {
		return nil, &OutsideError{Axis: rates, At: s.TotalRate}
	}
	return nil, hint.New("raise --replica-cpu, or measure a lower rate", "a replica of %g cores is too small even at the lowest measured rate, %g requests/s", s.ReplicaCPU, rates.From)
}

// times is the band of a multiple.
func (b Band) times(n float64) Band {
	return Band{b.Estimate * n, b.Low * n, b.High * n, b.NewLow * n, b.NewHigh * n}
}

// Nodes are nodes with a proxy each. The node with most pods decides the size of all: they are a DaemonSet.
type Nodes struct {
	N       int     `json:"n"`
	Hottest int     `json:"hottest"` // most pods of a node
	Ratio   float64 `json:"ratio"`   // hottest to mean
	CPU     Band    `json:"cpu"`     // cores of a proxy on a mean node, without headroom
	Memory  Band    `json:"memory"`  // MiB
}

// nodesOf spreads the load over nodes by their pods. at is the place of a mean node.
func nodesOf(cpu, memory *Curve, at []float64, s Sizing) (n *Nodes, err error) {
	n = &Nodes{N: len(s.Pods), Hottest: slices.Max(s.Pods)}
	pods := lists.Sum(s.Pods, func(n int) int { return n })
	n.Ratio = float64(n.Hottest) * float64(n.N) / float64(pods)
	if n.CPU, err = cpu.At(at...); err != nil {
		return nil, err
	}
	n.Memory, err = memory.At(at...)
	return n, err
}

// Limited has the effects of a proxy's limits in the trials at one place of the axes.
type Limited struct {
	CPU       float64            `json:"cpu,omitempty"`    // limit, cores
	Memory    float64            `json:"memory,omitempty"` // limit, MiB
	At        map[string]float64 `json:"at"`               // the measured place, near to the wanted one
	Trials    int                `json:"trials"`
	OOMKilled int                `json:"oom_killed"`       // trials that failed because a sidecar was OOMKilled
	Periods   int64              `json:"periods"`          // in which proxies of the kind wanted CPU
	Reached   int64              `json:"reached"`          // of these, in which they reached the limit
	P99       *stats.Interval    `json:"p99_ms,omitempty"` // growth of the p99, ms, against trials without limits in the same blocks

	Time *stats.Interval `json:"time_ms,omitempty"`   // the percentile of the objective, ms
	Met  Met             `json:"objective,omitempty"` // empty without an objective
}

// Objective is an upper limit of a percentile of response times.
type Objective struct {
	Text       string  `json:"text"`       // as written: "p99 < 20ms"
	Percentile string  `json:"percentile"` // p99
	MS         float64 `json:"ms"`
}

// ParseObjective reads a bound such as "p99 < 20ms".
func ParseObjective(text string) (*Objective, error) {
	known := []string{"p50", "p90", "p99", "p99.9"}
	bounds, err := capacity.ParseBounds(text)
	if err != nil {
		return nil, err
	}
	percentile, ms, ok := bounds[0].TimeLimit()
	if len(bounds) > 1 || !ok || !slices.Contains(known, percentile) {
		return nil, fmt.Errorf("%.60q is not one upper limit of %s", text, strings.Join(known, ", "))
	}
	return &Objective{strings.TrimSpace(text), percentile, ms}, nil
}

// Met is the verdict on an objective, by the interval of its percentile.
type Met string

// Verdicts on an objective.
const (
	Holds     Met = "holds"     // the whole interval is below the limit
	Missed    Met = "missed"    // the whole interval is above it
	Undecided Met = "undecided" // otherwise, and with too few trials
)

// met compares the percentile of trials with the objective.
func (o *Objective) met(times []float64, confidence float64) (*stats.Interval, Met) {
	if len(times) < minBlocks {
		return nil, Undecided
	}
	i := intervalOf(times, confidence)
	switch {
	case *i.High < o.MS:
		return i, Holds
	case *i.Low >= o.MS:
		return i, Missed
	}
	return i, Undecided
}

func intervalOf(values []float64, confidence float64) *stats.Interval {
	mean, half := stats.Mean(values), stats.HalfWidth(stats.SD(values), len(values), confidence)
	low, high := mean-half, mean+half
	return &stats.Interval{Estimate: mean, Low: &low, High: &high}
}

// oomKilled is in the error of a trial whose sidecar was killed at its memory limit, on every platform.
const oomKilled = "OOMKilled"

// limitsOf returns the limits of a treatment's sidecars, and a key of the treatments that differ in limits and axes alone.
func (at place) limitsOf(run *compare.Run, name string, options map[string]string) (l experiment.Amounts, key string) {
	limits, other := run.LimitsOf(name)
	_ = l.CPU.UnmarshalScalar(limits["cpu"]) // no limit, or the file would not be valid
	_ = l.Memory.UnmarshalScalar(limits["memory"])
	factors := maps.Clone(at.factors)
	delete(factors, experiment.MeshFactor)
	return l, fmt.Sprint(factors, at.mesh, options, other)
}

type limitedTrial struct {
	block  int
	levels []float64
	ms     map[string]float64            // response times by percentile
	failed bool                          // without figures
	oom    bool                          // a sidecar was OOMKilled
	tasks  map[string][]result.TaskUsage // by kind
}

func newLimitedTrial(r *result.Record, t figures.Measured, levels []float64) limitedTrial {
	l := limitedTrial{block: t.Block, levels: levels, ms: map[string]float64{}, failed: !t.Valid, oom: strings.Contains(r.Error, oomKilled), tasks: proxyTasks(r)}
	for name, v := range t.Metrics {
		if percentile, ok := strings.CutPrefix(name, metric.Latency+"/"); ok {
			l.ms[percentile] = v
		}
	}
	return l
}

// limited compares the trials of groups with limits with the trials of g, at the measured place next to the wanted one.
// With an objective, g without limits is the first.
func (g *group) limited(kind string, with []*group, want []float64, s Sizing, confidence float64) (all []Limited) {
	if s.Objective != nil {
		with = append([]*group{g}, with...)
	}
	for _, other := range with {
		place := nearest(other.trials, want)
		l := Limited{CPU: float64(other.limits.CPU), Memory: float64(other.limits.Memory) / (1 << 20), At: map[string]float64{}}
		for i, axis := range s.axes() {
			l.At[axis] = place[i]
		}
		var grown, times []float64
		for _, t := range other.trials {
			if !slices.Equal(t.levels, place) {
				continue
			}
			l.Trials++
			if t.oom {
				l.OOMKilled++
			}
			if t.failed {
				continue
			}
			for _, task := range t.tasks[kind] {
				if task.Start.Periods != nil && task.End.Periods != nil && task.Start.Reached != nil && task.End.Reached != nil {
					l.Periods += *task.End.Periods - *task.Start.Periods
					l.Reached += *task.End.Reached - *task.Start.Reached
				}
			}
			if ms, known := t.ms[s.percentile()]; known {
				times = append(times, ms)
			}
			for _, free := range g.trials {
				p99, known := t.ms["p99"]
				without, both := free.ms["p99"]
				if known && both && other != g && free.block == t.block && slices.Equal(free.levels, place) && !free.failed {
					grown = append(grown, p99-without)
				}
			}
		}
		if len(grown) >= minBlocks {
			l.P99 = intervalOf(grown, confidence)
		}
		if s.Objective != nil {
			l.Time, l.Met = s.Objective.met(times, confidence)
			if l.OOMKilled > 0 {
				l.Met = Missed
			}
		}
		all = append(all, l)
	}
	return all
}

// percentile is the objective's percentile, empty without an objective.
func (s Sizing) percentile() string {
	if s.Objective == nil {
		return ""
	}
	return s.Objective.Percentile
}

// limitThatHolds returns the lowest CPU limit that was measured, is not below the request, and keeps the objective. Every
// higher one keeps it too. 0 means none.
func limitThatHolds(all []Limited, request float64) (limit float64) {
	byCPU := slices.SortedFunc(slices.Values(all), func(a, b Limited) int { return cmp.Compare(b.CPU, a.CPU) })
	for _, l := range byCPU {
		if l.CPU < request || l.Met != Holds {
			break
		}
		limit = l.CPU
	}
	return limit
}

// nearest returns the levels of trials that are nearest to wanted ones, by ratio. A rate below the wanted one comes last:
// there a limit does less.
func nearest(trials []limitedTrial, want []float64) (place []float64) {
	least := math.Inf(1)
	for _, t := range trials {
		var far float64
		if t.levels[0] < want[0] {
			far = 1e6 // beyond any ratio
		}
		for i, x := range t.levels {
			far += math.Abs(math.Log((x + 1) / (want[i] + 1)))
		}
		if far < least {
			least, place = far, t.levels
		}
	}
	return place
}

// limitedOnes returns the groups with limits that differ from g in them alone.
func limitedOnes(g *group, all []*group) []*group {
	return lists.Where(all, func(other *group) bool {
		return other.unlimited == g.unlimited && other.limits != (experiment.Amounts{}) && g.limits == (experiment.Amounts{}) && len(other.trials) > 0
	})
}

// hasFree reports whether a group has limits, and another has the same treatments without.
func (g *group) hasFree(all []*group) bool {
	return g.limits != (experiment.Amounts{}) && slices.ContainsFunc(all, func(other *group) bool {
		return other.unlimited == g.unlimited && other.limits == (experiment.Amounts{})
	})
}
