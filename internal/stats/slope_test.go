package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The probability is by numeric integration of the density of t with four degrees of freedom up to -5.0847.
func TestSlope(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6}
	slope, below := Slope(x, []float64{9.1, 8.2, 8.4, 6.9, 7.3, 5.8})
	if math.Abs(slope+0.591428571) > 1e-8 || math.Abs(below-0.00352876) > 1e-6 {
		t.Errorf("slope %v with %v", slope, below)
	}
	if _, below := Slope(x, []float64{1, 2, 3, 4, 5, 6}); below != 1 {
		t.Errorf("a rise: %v", below)
	}
	if _, below := Slope(x[:2], x[:2]); below != 1 {
		t.Errorf("two points: %v", below)
	}
}

// Where there is no slope, one of a hundred is found at 1 %.
func TestSlopeOfNoise(t *testing.T) {
	r, found := rand.New(rand.NewPCG(1, 2)), 0
	const n = 20000
	for range n {
		x, y := make([]float64, 8), make([]float64, 8)
		for i := range x {
			x[i], y[i] = float64(i), r.NormFloat64()
		}
		if _, below := Slope(x, y); below < 0.01 {
			found++
		}
	}
	if share := float64(found) / n; math.Abs(share-0.01) > 0.003 {
		t.Errorf("%v of steady series fall at 1 %%", share)
	}
}
