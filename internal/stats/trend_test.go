package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The interval of a slope has its nominal coverage where values are independent, and nearly that where neighbours depend on each
// other. An interval that ignores the dependence holds in two of three series.
func TestTrendCoverage(t *testing.T) {
	const series, slope = 2000, 0.7
	for _, c := range []struct {
		n     int
		rho   float64
		least float64
	}{{12, 0, 0.94}, {32, 0, 0.94}, {12, 0.3, 0.90}, {32, 0.3, 0.92}, {12, 0.6, 0.85}, {32, 0.6, 0.90}} {
		r := rand.New(rand.NewPCG(7, uint64(c.n)))
		covered, ignored := 0, 0
		for range series {
			x, y := make([]float64, c.n), make([]float64, c.n)
			e := r.NormFloat64() / math.Sqrt(1-c.rho*c.rho)
			points := make([]Point, c.n)
			for i := range x {
				e = c.rho*e + r.NormFloat64()
				x[i], y[i] = float64(i), 100+slope*float64(i)+e
				points[i] = Point{X: x[i], Y: y[i], Weight: 1, Group: i}
			}
			if !Trend(x, y, 0.95).Excludes(slope) {
				covered++
			}
			if !Line(points, 0.95).Slope.Excludes(slope) {
				ignored++
			}
		}
		got, plain := float64(covered)/series, float64(ignored)/series
		t.Logf("%d values, autocorrelation %v: %.3f, by a line alone %.3f", c.n, c.rho, got, plain)
		if got < c.least || c.rho == 0 && got > 0.99 {
			t.Errorf("%d values, autocorrelation %v: the interval holds in %.3f, want %v or more", c.n, c.rho, got, c.least)
		}
		if c.rho >= 0.6 && plain > 0.8 {
			t.Errorf("%d values, autocorrelation %v: a line alone holds in %.3f, so this test shows nothing", c.n, c.rho, plain)
		}
	}
}

func TestTrendOfLittle(t *testing.T) {
	for name, y := range map[string][]float64{"two values": {1, 2}, "constant": {3, 3, 3, 3}, "not a number": {1, 2, math.NaN(), 4}} {
		x := []float64{0, 1, 2, 3}[:len(y)]
		if got := Trend(x, y, 0.95); got.Known() {
			t.Errorf("%s: interval %v to %v", name, *got.Low, *got.High)
		}
	}
}
