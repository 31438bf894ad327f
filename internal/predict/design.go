package predict

import (
	"errors"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/stats"
)

// Deviations are standard deviations, as shares of the cost.
type Deviations struct {
	Deployment float64 // of deployments
	Trial      float64 // of trials of one deployment
}

// Assumed are the deviations of Envoy sidecars on a shared machine, in runs with trials of 3 s.
var Assumed = Deviations{Deployment: 0.05, Trial: 0.05}

// DeviationsOf returns the largest deviations of any kind of proxy in a run with curves.
func DeviationsOf(run *compare.Run) (d Deviations, err error) {
	axes := []string{experiment.RateFactor}
	for _, g := range groupsOf(run, axes) {
		for _, m := range g.kinds {
			c, err := Fit(m.cpu, axes, run.Confidence())
			if err != nil {
				return d, err
			}
			middle := []float64{math.Sqrt(c.Axes[0].From * c.Axes[0].To)}
			costs := lists.Map(c.fits, func(k []float64) float64 { return c.value(c.form, k, middle) })
			d.Deployment = max(d.Deployment, stats.SD(costs)/stats.Mean(costs))
			d.Trial = max(d.Trial, c.Noise)
		}
	}
	if d.Trial == 0 {
		return d, errors.New("no valid trial of the run has a proxy of its own and a rate")
	}
	return d, nil
}

// Design is the rates and blocks of a run for a curve.
type Design struct {
	Rates  []float64
	Blocks int
	// Mean and Another are half of the bands at the rate where they are widest, as shares of the cost: of the mean of
	// deployments, and of one more.
	Mean, Another float64
}

const (
	mostRates  = 7
	candidates = 14 // of rates between both ends, at equal ratios
	fixedShare = 0.2
)

// BestDesign returns the rates between two ends, and the blocks, with the narrowest bands of the mean. blocks is how many
// blocks of a number of rates there is time for. The rates are best for the form for which they are worst (minimax of
// the G-optimal designs of Kiefer and Wolfowitz, 1960), with a fifth of the cost at the highest rate fixed.
func BestDesign(from, to float64, d Deviations, blocks func(rates int) int, confidence float64) (best Design, ok bool) {
	for n := knownRates; n <= mostRates; n++ {
		b := blocks(n)
		if b < minBlocks {
			continue
		}
		rates, spread := bestRates(from, to, n)
		x := Design{Rates: rates, Blocks: b}
		variance := d.Deployment*d.Deployment + d.Trial*d.Trial*spread
		x.Mean = stats.HalfWidth(math.Sqrt(variance), b, confidence)
		x.Another = stats.HalfWidth(math.Sqrt(variance*float64(b+1)+d.Trial*d.Trial*float64(b)), b, confidence)
		if !ok || x.Mean < best.Mean {
			best, ok = x, true
		}
	}
	return best, ok
}

// bestRates returns n rates, and the largest variance of a curve through them, in variances of a trial.
func bestRates(from, to float64, n int) (best []float64, least float64) {
	all := []float64{from}
	for i := 1; i < candidates; i++ {
		all = append(all, twoDigits(from*math.Pow(to/from, float64(i)/candidates)))
	}
	all = append(all, to)
	chosen := make([]float64, 0, n)
	var choose func(next int)
	choose = func(next int) {
		if len(chosen) == n-1 {
			rates := append(slices.Clone(chosen), to)
			if v := worstVariance(rates, all); best == nil || v < least {
				best, least = rates, v
			}
			return
		}
		for i := next; i < len(all)-1; i++ {
			chosen = append(chosen, all[i])
			choose(i + 1)
			chosen = chosen[:len(chosen)-1]
		}
	}
	chosen = append(chosen, from)
	choose(1)
	return best, least
}

// worstVariance is the largest variance of a curve of any form through rates, at any of the places.
func worstVariance(rates, places []float64) (worst float64) {
	c := &Curve{Axes: []Axis{{To: rates[len(rates)-1]}}}
	for _, f := range rateForms {
		n := len(f.terms)
		for _, place := range places {
			// The variance is x'(X'X)^-1 x, with the terms of each rate as shares of its cost.
			x := c.costShares(f, place)
			normal := make([][]float64, n)
			for i := range normal {
				normal[i] = append(make([]float64, n), x[i])
			}
			for _, rate := range rates {
				r := c.costShares(f, rate)
				for i := range n {
					for j := range n {
						normal[i][j] += r[i] * r[j]
					}
				}
			}
			k, ok := solved(normal)
			if !ok {
				return math.Inf(1)
			}
			worst = max(worst, weighted(k, x))
		}
	}
	return worst
}

// costShares are the terms of a form at a rate, as shares of a cost with a fixed part.
func (c *Curve) costShares(f form, rate float64) []float64 {
	parts := c.parts(f, []float64{rate})
	cost := fixedShare + (1-fixedShare)*rate/c.Axes[0].To
	for i := range parts {
		parts[i] /= cost
	}
	return parts
}

func twoDigits(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/unit) * unit
}
