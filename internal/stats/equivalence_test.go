package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Two one-sided tests at alpha agree with the interval at 1-2·alpha.
func TestWithinIsTheInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	decided := map[bool]int{}
	for range 2000 {
		x, y := make([]float64, 6), make([]float64, 6)
		for i := range x {
			x[i], y[i] = 100*math.Exp(0.01+0.02*r.NormFloat64()), 100*math.Exp(0.02*r.NormFloat64())
		}
		for _, ratio := range []func([]float64, []float64, float64) Result{PairedRatio, WelchRatio} {
			p, ok := ratio(x, y, 0.95).Within(0.03)
			i := ratio(x, y, 0.90)
			want := *i.Low > 1/1.03 && *i.High < 1.03
			if !ok || (p < 0.05) != want {
				t.Fatalf("p %v, interval %v to %v", p, *i.Low, *i.High)
			}
			decided[want]++
		}
	}
	if decided[true] < 100 || decided[false] < 100 {
		t.Errorf("one-sided cases: %v", decided)
	}
}

// At the margin itself at most five experiments in a hundred are called the same.
func TestWithinKeepsItsLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	same := 0
	const experiments = 4000
	for range experiments {
		x, y := make([]float64, 6), make([]float64, 6)
		for i := range x {
			x[i], y[i] = 102*math.Exp(0.004*r.NormFloat64()), 100*math.Exp(0.004*r.NormFloat64())
		}
		if p, _ := PairedRatio(x, y, 0.95).Within(0.02); p < 0.05 {
			same++
		}
	}
	if got := float64(same) / experiments; got > 0.06 || got < 0.035 {
		t.Errorf("%.3f of experiments at the margin are called the same", got)
	}
}

func TestWithinAbsent(t *testing.T) {
	for _, c := range [][2][]float64{{{1, 2}, {1, 2}}, {{1, 1, 1}, {1, 1, 1}}, {{0, 1, 2}, {1, 2, 3}}} {
		if p, ok := PairedRatio(c[0], c[1], 0.95).Within(0.02); ok {
			t.Errorf("%v: p %v", c, p)
		}
	}
}
