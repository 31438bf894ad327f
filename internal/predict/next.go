package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/stats"
)

// Step is a run that would make sizes or forecasts more certain.
type Step struct {
	Dir   string        `json:"dir,omitempty"` // results directory with the experiment, empty if there is only one
	What  string        `json:"what"`
	Set   []string      `json:"set"`      // changes of the experiment file, as tare run --set has them
	Takes time.Duration `json:"takes_ns"` // without a change of meshes
}

// wide is half of a band, as a share of the cost, from which more blocks are proposed.
const wide = 0.03

// Next returns the runs that would make sizes more certain, the most useful first.
func Next(run *compare.Run, s Sizing, all []Size) (steps []Step) {
	rates := ratesOf(run)
	if len(rates) == 0 {
		return nil // the rate is no factor
	}
	block := run.Plan.TrialTime * time.Duration(len(run.Plan.Treatments))
	blocks := run.Count().Blocks
	if at, ok := unknown(rates, all); ok {
		with := slices.Concat(rates, []float64{at})
		slices.Sort(with)
		steps = append(steps, Step{
			What:  fmt.Sprintf("the rate %g itself, because the form of the CPU between the measured rates is unknown", at),
			Set:   []string{"factors.rate=" + list(with)},
			Takes: block / time.Duration(len(rates)) * time.Duration(len(with)*blocks),
		})
	}
	if beyond(all, s) {
		top := rates[len(rates)-1]
		more := []float64{twoDigits(top * math.Sqrt2), twoDigits(top * 2)}
		steps = append(steps, Step{
			What:  fmt.Sprintf("two more rates above %g, because the headroom reaches beyond it", top),
			Set:   []string{"factors.rate=" + list(slices.Concat(rates, more))},
			Takes: block / time.Duration(len(rates)) * time.Duration((len(rates)+2)*blocks),
		})
	}
	// A throttled sidecar would answer in slices of others, so interleaved treatments have no limits.
	if without := unlimited(all); without != nil && run.Plan.Order != experiment.OrderInterleaved {
		name, limits := fmt.Sprint(without.Factors[experiment.MeshFactor]), []float64{without.RequestCPU, without.RequestCPU / 2}
		step := Step{What: "what a CPU limit does to the p99, at the request and at half of it", Takes: block * time.Duration(3*max(blocks, minBlocks))}
		names := []string{name}
		for _, cores := range limits {
			resources := fmt.Sprintf("limits: {cpu: %s}", milli(cores))
			if run.File.Platform.Kind == mesh.OnKubernetes { // refuses a limit below the mesh's own request
				resources = fmt.Sprintf("requests: {cpu: %s}, %s", milli(cores), resources)
			}
			names = append(names, name+"-"+milli(cores))
			step.Set = append(step.Set, fmt.Sprintf("meshes.%s-%s={from: %s, resources: {%s}}", name, milli(cores), name, resources))
		}
		step.Set = append(step.Set, "factors.mesh=["+strings.Join(names, ", ")+"]", fmt.Sprintf("baseline={mesh: %s}", name))
		steps = append(steps, step)
	}
	if half, gap := widest(all); half-gap > wide && blocks > 1 { // no block narrows what the form leaves open
		narrowed := gap + (half-gap)*stats.HalfWidth(1, 2*blocks, run.Confidence())/stats.HalfWidth(1, blocks, run.Confidence())
		steps = append(steps, Step{
			What:  fmt.Sprintf("%d blocks in place of %d: average CPU to ±%.0f%% in place of ±%.0f%%", 2*blocks, blocks, 100*narrowed, 100*half),
			Set:   []string{fmt.Sprintf("blocks=%d", 2*blocks)},
			Takes: block * time.Duration(2*blocks),
		})
	}
	return steps
}

// ratesOf returns the levels of the factor rate, the lowest first.
func ratesOf(run *compare.Run) (rates []float64) {
	for _, t := range run.Plan.Treatments {
		if rate, ok := t.Factors[experiment.RateFactor].(float64); ok && !slices.Contains(rates, rate) {
			rates = append(rates, rate)
		}
	}
	slices.Sort(rates)
	return rates
}

// unknown returns the rate of the run at which a proxy has the rate of its size, if that is between measured ones and no
// form is known.
func unknown(rates []float64, all []Size) (rate float64, ok bool) {
	for _, size := range all {
		if size.Proxy == ControlPlane || size.Curve.Form != formBetween || slices.Contains(levelsOf(size.Curve.Points, 0), size.Place[0]) {
			continue
		}
		rate = math.Round(size.Place[0] * rates[len(rates)-1] / size.Curve.Axes[0].To)
		return rate, !slices.Contains(rates, rate)
	}
	return 0, false
}

// beyond reports whether a proxy at its rate with the headroom is above the measured rates.
func beyond(all []Size, s Sizing) bool {
	return slices.ContainsFunc(all, func(size Size) bool {
		return size.Proxy != ControlPlane && size.Replicas == nil && s.Rate*(1+s.Headroom) > size.Curve.Axes[0].To
	})
}

// unlimited is a sidecar without a measured limit, if no sidecar has one.
func unlimited(all []Size) (first *Size) {
	for i := range all {
		limited := slices.ContainsFunc(all[i].Limited, func(l Limited) bool { return l.CPU > 0 })
		switch {
		case limited:
			return nil
		case first == nil && strings.HasPrefix(all[i].Proxy, mesh.RoleSidecar):
			first = &all[i]
		}
	}
	return first
}

// widest is half of the band of CPU that blocks could narrow most, as a share, and what its form leaves open of it.
func widest(all []Size) (half, gap float64) {
	for _, size := range all {
		if size.Proxy == ControlPlane {
			continue
		}
		h, g := (size.CPU.High-size.CPU.Low)/2/size.CPU.Estimate, size.Curve.gap(size.Place)/size.CPU.Estimate
		if h-g > half-gap {
			half, gap = h, g
		}
	}
	return half, gap
}

func list(rates []float64) string {
	all := lists.Map(rates, func(rate float64) string { return fmt.Sprintf("%g", rate) })
	return "[" + strings.Join(all, ", ") + "]"
}

// Used is a measured curve that a forecast reads costs from.
type Used struct {
	What     string   `json:"what"`     // cost: "CPU of inbound calls"
	Kind     Kind     `json:"kind"`     // of the cost: "CPU"
	Of       string   `json:"of"`       // calls with the cost: "inbound calls"
	Protocol string   `json:"protocol"` // of the calls
	From     string   `json:"from"`     // results directory
	Curve    *Curve   `json:"curve"`
	Places   []Placed `json:"places"` // where it is read
}

// Placed is where the calls of a service lie on a curve.
type Placed struct {
	Service string    `json:"service"`
	Rate    float64   `json:"rate"` // requests/s through one sidecar, which may be below the curve
	At      []float64 `json:"at"`   // on the curve: a level of each axis
	Band    Band      `json:"band"`
}

// usedCurves returns the curves that sidecars read their costs from, those with the highest costs of CPU first.
func usedCurves(proxies []proxy) (all []Used) {
	for _, of := range []func(proxy) []part{func(p proxy) []part { return p.cpu }, func(p proxy) []part { return p.memory }} {
		for _, p := range proxies {
			for _, x := range of(p) {
				if x.weight <= 0 { // subtracted
					continue
				}
				i := slices.IndexFunc(all, func(u Used) bool { return u.Curve == x.curve })
				if i < 0 {
					i = len(all)
					q := x.source.quantityOf(x.curve)
					all = append(all, Used{What: q.String(), Kind: q.kind, Of: q.of, Protocol: x.source.protocol, From: x.source.dir, Curve: x.curve})
				}
				placed := Placed{Service: p.service, Rate: p.rate, At: x.at}
				if slices.ContainsFunc(all[i].Places, func(q Placed) bool { return q.Service == p.service && slices.Equal(q.At, x.at) }) {
					continue
				}
				if band, err := x.curve.At(x.at...); err == nil {
					placed.Band = band
				}
				all[i].Places = append(all[i].Places, placed)
			}
		}
	}
	return all
}

func (s *source) quantityOf(c *Curve) quantity {
	for q, of := range s.curves {
		if of == c {
			return q
		}
	}
	return quantity{}
}

// mostLeft is the share of a range from which a run is not worth its time.
const mostLeft = 0.95

// fewest requests of a trial, from which its proxies have a cost of requests.
const fewest = 20

// NextOf returns the runs that would narrow the CPU of forecasts, those with the narrowest ranges first.
func NextOf(sources []Source, forecasts []Forecast) (steps []Step) {
	type narrower struct {
		Step
		left float64
	}
	var all []narrower
	add := func(n narrower) {
		if i := slices.IndexFunc(all, func(other narrower) bool { return other.Dir == n.Dir && slices.Equal(other.Set, n.Set) }); i < 0 {
			all = append(all, n)
		} else {
			all[i].left = min(all[i].left, n.left)
		}
	}
	for _, f := range forecasts {
		half := f.CPU.Causes.half()
		for _, s := range sources {
			if !(half > 0) || !slices.ContainsFunc(f.Curves, func(u Used) bool { return u.Kind == CPU && u.From == s.Dir }) {
				continue
			}
			rates, block, blocks := ratesOf(s.Run), s.Run.Plan.TrialTime*time.Duration(len(s.Run.Plan.Treatments)), s.Run.Count().Blocks
			if names, lowest := f.below(s.Dir); len(names) > 0 && len(rates) > 0 {
				known := f.CPU.Causes
				known.Range = 0
				low := twoDigits(0.9 * lowest)
				set, perBlock := []string{"factors.rate=" + list(append([]float64{low}, rates...))}, block
				if measure, least := s.Run.File.Phases.Measure, experiment.Duration(math.Ceil(fewest/low))*experiment.Duration(time.Second); measure > 0 && measure < least {
					set = append(set, "phases.measure="+least.String())
					perBlock += time.Duration(least-measure) * time.Duration(len(s.Run.Plan.Treatments))
				}
				add(narrower{Step{
					What:  fmt.Sprintf("a rate of %g, because the lowest measured one is %g and a sidecar of %s has fewer requests: CPU to ±%s in place of ±%s", low, rates[0], printable.Listed(names, 3), milli(known.half()), milli(half)),
					Set:   set,
					Takes: perBlock / time.Duration(len(rates)) * time.Duration((len(rates)+1)*blocks),
					Dir:   s.Dir,
				}, known.half() / half})
			}
			if blocks < 2 {
				continue
			}
			student := func(n int) float64 { return stats.HalfWidth(math.Sqrt(float64(n)), n, f.Confidence) }
			more := f.CPU.Causes
			grows := student(2*blocks) / student(blocks)
			more.Curve, more.Deployment, more.Graph = more.Curve*grows/math.Sqrt2, more.Deployment*grows, more.Graph*grows
			add(narrower{Step{
				What:  fmt.Sprintf("%d blocks in place of %d: CPU to ±%s in place of ±%s", 2*blocks, blocks, milli(more.half()), milli(half)),
				Set:   []string{fmt.Sprintf("blocks=%d", 2*blocks)},
				Takes: block * time.Duration(2*blocks),
				Dir:   s.Dir,
			}, more.half() / half})
		}
	}
	slices.SortStableFunc(all, func(a, b narrower) int { return cmp.Compare(a.left, b.left) })
	for _, n := range all {
		if n.left <= mostLeft {
			steps = append(steps, n.Step)
		}
	}
	return slices.Concat(steps, calledStep(sources, forecasts), controlSteps(sources, forecasts))
}

// below returns the services with fewer requests than a run measured, and the lowest rate of their sidecars.
func (f Forecast) below(dir string) (names []string, lowest float64) {
	lowest = math.Inf(1)
	for _, u := range f.Curves {
		for _, p := range u.Places {
			if u.From == dir && p.Rate > 0 && p.Rate < u.Curve.Axes[0].From {
				lowest = min(lowest, p.Rate)
				names = lists.Add(names, p.Service)
			}
		}
	}
	return names, lowest
}

// half is the half width of an interval with these causes.
func (c Causes) half() float64 {
	return math.Sqrt(c.Curve*c.Curve + c.Deployment*c.Deployment + c.Graph*c.Graph + c.Range*c.Range + c.Connections*c.Connections + c.Called*c.Called)
}

// milli are thousandths of a core, as Kubernetes writes them.
func milli(cores float64) string { return fmt.Sprintf("%.0fm", cores*1000) }
