package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/stats"
)

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
