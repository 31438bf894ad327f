package stats

import (
	"math"
	"testing"
)

// Values of Wilcoxon's table: with ten values a sum of 10 has the one-sided p-value 0.0420, of 5 0.0098, with five a sum of 0
// has 1/32.
func TestSignedRank(t *testing.T) {
	ten := func(positive ...int) []float64 {
		x := []float64{-1, -2, -3, -4, -5, -6, -7, -8, -9, -10}
		for _, i := range positive {
			x[i-1] = -x[i-1]
		}
		return x
	}
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{ten(1, 2, 3, 4), 43.0 / 1024},
		{ten(5), 10.0 / 1024},
		{ten(10), 43.0 / 1024}, // one outlier has the largest rank, however large it is
		{append(ten(), 0), 1.0 / 1024},
		{[]float64{-1, -1, -1, -1, -1}, 1.0 / 32},
		{[]float64{1, 1, 1, 1, 1}, 1},
		{[]float64{-1, 2, -3, 4e9, -5}, 16.0 / 32}, // a sum of 7: half of all sets
		{nil, 1},
	} {
		if got := SignedRank(c.x); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.x, got, c.want)
		}
	}
}
