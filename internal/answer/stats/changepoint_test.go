package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func series(r *rand.Rand, levels ...float64) []float64 {
	var x []float64
	for _, l := range levels {
		for range 12 {
			x = append(x, l*(1+0.01*r.NormFloat64()))
		}
	}
	return x
}

func TestChangesAreFoundWhereTheyAre(t *testing.T) {
	x := series(rand.New(rand.NewPCG(1, 1)), 100, 105, 98)
	c := Changes(x, 0.05)
	if len(c) != 2 || c[0].At != 12 || c[1].At != 24 || math.Abs(c[0].After-105) > 1 || math.Abs(c[0].Before-100) > 1 || c[0].P > 0.01 {
		t.Errorf("%+v", c)
	}
	if again := Changes(x, 0.05); len(again) != 2 || again[0] != c[0] {
		t.Errorf("another answer to the same question: %+v", again)
	}
}

// A series without a change shows one in about five of a hundred cases.
func TestChangesKeepTheirLevel(t *testing.T) {
	experiments := 400
	if testing.Short() {
		experiments = 100
	}
	r := rand.New(rand.NewPCG(1, 2))
	wrong := 0
	for range experiments {
		if len(Changes(series(r, 100), 0.05)) > 0 {
			wrong++
		}
	}
	if got := float64(wrong) / float64(experiments); got > 0.05+4*math.Sqrt(0.05*0.95/float64(experiments)) {
		t.Errorf("%.3f of series without a change", got)
	}
}

func TestChangesAbsent(t *testing.T) {
	for _, x := range [][]float64{nil, {1, 2, 3, 4, 5}, {1, 1, 1, 9, 9, 9}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, math.NaN(), 2, 2, 2, 2, 2}} {
		if c := Changes(x, 0.05); len(c) > 0 {
			t.Errorf("%v: %+v", x, c)
		}
	}
}

// The statistic by hand: two sides, one at 0 and one at 1, energy 2, times 3·3/6.
func TestEnergyByHand(t *testing.T) {
	if at, q := bestSplit([]float64{0, 0, 0, 1, 1, 1}); at != 3 || math.Abs(q-3) > 1e-12 {
		t.Errorf("at %d: %v", at, q)
	}
}
