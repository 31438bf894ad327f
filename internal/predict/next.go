package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
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
