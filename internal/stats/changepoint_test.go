package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/statstest"
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
	if len(c) != 2 {
		t.Errorf("%+v", c)
	} else if d := difftest.Wrong("c[0].At != 12", c[0].At != 12, "c[1].At != 24", c[1].At != 24, "math.Abs(c[0].After-105) > 1", math.Abs(c[0].After-105) > 1, "math.Abs(c[0].Before-100) > 1", math.Abs(c[0].Before-100) > 1, "c[0].P > 0.01", c[0].P > 0.01); d != "" {
		t.Errorf("%s: %+v", d, c)
	}
	if again := Changes(x, 0.05); len(again) != 2 || again[0] != c[0] {
		t.Errorf("another answer to the same question: %+v", again)
	}
}

// A series without a change shows one in about five of a hundred cases.
func TestChangesKeepTheirLevel(t *testing.T) {
	experiments := statstest.Rounds(t, 100, 400)
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

// Sixteen runs that depend on the run before show changes without any in about a third of
// all series. The dependence is found in part of them, and rarely in independent runs,
// with a change or without.
func TestDependentRuns(t *testing.T) {
	experiments := statstest.Rounds(t, 120, 400)
	for _, c := range []struct {
		n            int
		rho, step    float64
		changed, saw [2]float64
	}{
		{16, 0.5, 0, [2]float64{0.2, 0.5}, [2]float64{0.15, 1}},
		{30, 0.5, 0, [2]float64{0.3, 0.8}, [2]float64{0.3, 1}},
		{16, 0, 0, [2]float64{0, 0.12}, [2]float64{0, 0.12}},
		{16, 0, 4, [2]float64{0.9, 1}, [2]float64{0, 0.12}},
	} {
		r := rand.New(rand.NewPCG(77, uint64(c.n)))
		changed, saw := 0, 0
		for range experiments {
			x, state := make([]float64, c.n), r.NormFloat64()
			for i := range x {
				if x[i] = state; i >= c.n/2 {
					x[i] += c.step
				}
				state = c.rho*state + math.Sqrt(1-c.rho*c.rho)*r.NormFloat64()
			}
			changes := Changes(x, 0.05)
			changed += count(len(changes) > 0)
			_, ok := Dependent(x, changes, 0.05)
			saw += count(ok)
		}
		found, dependent := float64(changed)/float64(experiments), float64(saw)/float64(experiments)
		t.Logf("%d runs, correlation %v, step %v: a change in %.3f of series, dependence in %.3f", c.n, c.rho, c.step, found, dependent)
		if d := difftest.Wrong("found < c.changed[0]", found < c.changed[0], "found > c.changed[1]", found > c.changed[1], "dependent < c.saw[0]", dependent < c.saw[0], "dependent > c.saw[1]", dependent > c.saw[1]); d != "" {
			t.Errorf("%s: %d runs, correlation %v, step %v: a change in %.3f of series, dependence in %.3f", d, c.n, c.rho, c.step, found, dependent)
		}
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
