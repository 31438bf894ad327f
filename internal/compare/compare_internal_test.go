package compare

import (
	"testing"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// The rounding of a quotient is not a difference: reports printed one of 1e-13 requests per second on an axis of its own.
func TestRoundingIsNoDifference(t *testing.T) {
	of := func(rates ...float64) map[int]figures.Measured {
		by := map[int]figures.Measured{}
		for i, v := range rates {
			by[i+1] = figures.Measured{Trial: figures.Trial{Metrics: map[string]float64{metric.Rate: v}}}
		}
		return by
	}
	x := estimator{blocks: 3, confidence: 0.95}
	p := x.pairs(metric.Rate, of(1000.0000000000001, 200, 50), of(1000, 200.00000000000003, 50.000001))
	for i, want := range []float64{0, 0, -1e-6} {
		if d := p.treatment[i] - p.baseline[i]; d < want-1e-12 || d > want+1e-12 || want == 0 && d != 0 {
			t.Errorf("block %d: %g, want %g", i+1, d, want)
		}
	}
}
