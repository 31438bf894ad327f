package stats

import (
	"math"
	"testing"
)

// The result narrows the interval to the requested width, and a pair fewer does not.
func TestPairsFor(t *testing.T) {
	const sd = 10.0
	halfOf := func(n int) float64 { return tQuantile(float64(n-1), 0.975) * sd / math.Sqrt(float64(n)) }
	for _, want := range []float64{halfOf(3), 5, 2} {
		n, ok := PairsFor(halfOf(5), 5, want, 0.95)
		if !ok || halfOf(n) > want*(1+1e-9) || n > MinN && n < 200 && halfOf(n-1) <= want {
			t.Errorf("to ±%v: %d pairs give ±%v (%v)", want, n, halfOf(n), ok)
		}
	}
	for _, c := range []struct {
		half float64
		n    int
		want float64
	}{{1, 2, 1}, {0, 5, 1}, {1, 5, 0}, {math.NaN(), 5, 1}, {math.Inf(1), 5, 1}, {1e9, 5, 1e-9}} {
		if n, ok := PairsFor(c.half, c.n, c.want, 0.95); ok {
			t.Errorf("%+v: %d pairs", c, n)
		}
	}
}
