package compare

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/test/must"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// A difference between lower bounds is no difference while the upper bounds allow none.
func TestDifferenceWithinBounds(t *testing.T) {
	least, most := metric.Of(metric.ChangeLastOld, metric.RouteChanged), metric.Of(metric.ChangeLastOldMost, metric.RouteChanged)
	for name, c := range map[string]struct {
		low, high float64 // of the treatment; the baseline has 40 to 44
		shown     bool
		from, to  float64 // of the difference
	}{
		"apart":       {60, 70, true, 16, 30},
		"overlapping": {43, 60, false, -1, 20},
		"below":       {10, 12, true, -34, -28},
	} {
		var treatment, baseline []figures.Measured
		for block := range 8 {
			noise := 0.01 * float64(block%3)
			of := func(low, high float64) figures.Measured {
				return figures.Measured{Trial: figures.Trial{Block: block + 1, Valid: true, Metrics: map[string]float64{least: low + noise, most: high + noise*noise}}}
			}
			treatment, baseline = append(treatment, of(c.low, c.high)), append(baseline, of(40, 44))
		}
		x := &estimator{confidence: 0.95, method: Paired, blocks: 8}
		for _, got := range x.compare(plan.Treatment{ID: "a"}, plan.Treatment{ID: "b"}, treatment, baseline) {
			if got.Metric != least {
				continue
			}
			if (*got.P < 0.01) != c.shown || *got.Difference.Low < c.from-0.1 || *got.Difference.Low > c.from+0.1 || *got.Difference.High < c.to-0.1 || *got.Difference.High > c.to+0.1 {
				t.Errorf("%s: p %v, difference %v to %v; want %v to %v", name, *got.P, *got.Difference.Low, *got.Difference.High, c.from, c.to)
			}
		}
	}
}

// A gate between runs rests on the bounds of both. It is never wrong 20 % beside the truth, and decided where bounds are narrow.
func TestGateBetweenRunsWithinBounds(t *testing.T) {
	least, most := metric.Of(metric.ChangeLastOld, metric.RouteChanged), metric.Of(metric.ChangeLastOldMost, metric.RouteChanged)
	for _, spread := range []float64{0, 0.3} {
		for _, width := range []float64{1, 20, 85} {
			random, decided := rand.New(rand.NewPCG(uint64(width), 7)), 0
			trials := func(truth, width float64) (all []figures.Measured) {
				part := random.Float64() // of the bounds before the truth, the same in a run
				for block := range 5 {
					noise := spread * random.NormFloat64()
					low := max(0.1, truth-part*width+noise)
					all = append(all, figures.Measured{Trial: figures.Trial{Block: block + 1, Valid: true, Metrics: map[string]float64{least: low, most: truth + (1-part)*width + noise}}})
				}
				return all
			}
			for range 100 {
				var base [][]figures.Measured
				for range 5 {
					base = append(base, trials(40, 4))
				}
				next := trials(60, width)
				for _, form := range []string{" < +%gms", " < +%g%%"} {
					rise := map[string]float64{" < +%gms": 20, " < +%g%%": 50}[form]
					for _, share := range []float64{0.5, 0.8, 1.2, 2} {
						g := must.Get(ParseGate(least + fmt.Sprintf(form, share*rise)))(t)
						for _, c := range changes(&estimator{confidence: 0.95}, plan.Treatment{ID: "a"}, false, base, next) {
							if c.Metric != least {
								continue
							}
							got := g.check(&c.Comparison)
							if wrong := map[bool]Outcome{true: Holds, false: Breached}[share < 1]; got.Outcome == wrong {
								t.Errorf("spread %g, bounds of %g ms: %s %s: %+v", spread, width, g.Text, got.Outcome, got.Change)
							}
							if got.Outcome != Undecided {
								decided++
							}
						}
					}
				}
			}
			if t.Logf("spread %g, bounds of %g ms: %d of 800 gates decided", spread, width, decided); width == 1 && decided < 300 {
				t.Errorf("spread %g: %d of 800 gates decided", spread, decided)
			}
		}
	}
}
