package predict

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

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

// controlChanges are changes of an experiment, in which the control plane has work and the load is small.
// Interleaved deployments would share it.
var controlChanges = []string{"validity.rateShortfall=0.1", "blocks=4", "order=null", "slices=null", "control=null"}

// controlMeasure is the shortest measure phase in which changes have a mean.
const controlMeasure = experiment.Duration(10 * time.Second)

// controlSteps are the runs that measure the growth of control planes, which forecasts do not have. They have simulated
// proxies, or on a cluster without these background services, up to what the application has.
func controlSteps(sources []Source, forecasts []Forecast) (steps []Step) {
	for _, f := range forecasts {
		if f.Refused != "" || f.Control == nil && f.NoControl == "" || f.Control != nil && f.Control.Grows {
			continue
		}
		dir := f.From[0]
		if f.Control != nil {
			dir = f.Control.From
		}
		i := slices.IndexFunc(sources, func(s Source) bool { return s.Dir == dir })
		d, err := mesh.Load(f.Mesh)
		if i < 0 || err != nil {
			continue
		}
		file := sources[i].Run.File
		onCluster, simulated := file.Platform.Kind == mesh.OnKubernetes, d.Local != nil && d.Local.Background != nil && d.Local.Background.Proxies != ""
		if onCluster {
			simulated = d.Kubernetes != nil && d.Kubernetes.Background != nil
		}
		axis, factor, background, least, most := 0, experiment.BackgroundProxiesFactor, "background={services: 100, changes: 5/s}", 500, mesh.MaxBackgroundProxies
		switch {
		case !simulated && onCluster:
			axis, factor, background, least, most = 1, experiment.BackgroundServicesFactor, "background={changes: 5/s}", 1000, mesh.MaxBackgroundServices
		case !simulated:
			continue
		}
		top := least
		if wanted := f.configured[axis]; wanted > float64(least) { // and known
			top = int(wanted)
		}
		if top > most {
			continue
		}
		factors := []string{}
		for _, name := range slices.Sorted(maps.Keys(f.Factors)) {
			if !slices.Contains(callAxes, name) {
				factors = append(factors, fmt.Sprintf("%s: [%v]", name, f.Factors[name]))
			}
		}
		factors = append(factors, "rate: [50]", "connections: [2]", fmt.Sprintf("%s: [%d, %d, %d]", factor, top/50, top/5, top))
		step := Step{
			What: fmt.Sprintf("how the control plane grows with %s, as a further run for --from", controlAxes[axis]),
			Set:  append([]string{"factors={" + strings.Join(factors, ", ") + "}", background, fmt.Sprintf("baseline={%s: %d}", factor, top/50)}, controlChanges...),
			Dir:  dir,
		}
		added := max(0, controlMeasure-file.Phases.Measure)
		if added > 0 {
			step.Set = append(step.Set, "phases.measure="+controlMeasure.String())
		}
		step.Takes = 3 * 4 * (sources[i].Run.TrialTime() + time.Duration(added))
		steps = append(steps, step)
	}
	return steps
}
