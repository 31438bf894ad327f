package compare

import (
	"testing"

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
