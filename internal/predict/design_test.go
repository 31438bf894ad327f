package predict

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// Curves of runs as designed have the bands that the design promises, and narrower ones than rates at equal distances.
func TestDesignKeepsItsPromise(t *testing.T) {
	dev := Deviations{Deployment: 0.03, Trial: 0.02} // as in simulated
	design, ok := BestDesign(100, 2000, dev, func(rates int) int { return 45 / rates }, 0.95)
	if !ok {
		t.Fatal("no design")
	}
	if len(design.Rates) < 4 || design.Rates[0] != 100 || design.Rates[len(design.Rates)-1] != 2000 || !slices.IsSorted(design.Rates) || design.Blocks != 45/len(design.Rates) {
		t.Errorf("design %+v, want rates from 100 to 2000 in all of 45 trials", design)
	}
	r := rand.New(rand.NewPCG(7, 8))
	for name, truth := range truths {
		var curves []*Curve
		for range 60 {
			c := must.Get(Fit(simulated(r, design.Blocks, design.Rates, truth), []string{"rate"}, 0.95))(t)
			curves = append(curves, c)
		}
		var widest, widestNew float64 // root mean squares over runs, at the place where they are widest
		for x := 100.0; x <= 2000; x *= 1.2 {
			var sum, sumNew float64
			for _, c := range curves {
				b := must.Get(c.At(x))(t)
				half, another := (b.High-b.Low)/2/b.Estimate, (b.NewHigh-b.NewLow)/2/b.Estimate
				sum, sumNew = sum+half*half, sumNew+another*another
			}
			n := float64(len(curves))
			widest, widestNew = max(widest, math.Sqrt(sum/n)), max(widestNew, math.Sqrt(sumNew/n))
		}
		for _, c := range []struct {
			what           string
			found, promise float64
		}{{"mean", widest, design.Mean}, {"another deployment", widestNew, design.Another}} {
			if c.found > 1.25*c.promise || c.found < 0.6*c.promise {
				t.Errorf("%s: the band of the %s is ±%.3f, promised were ±%.3f", name, c.what, c.found, c.promise)
			}
		}
	}
	linear := []float64{100, 575, 1050, 1525, 2000}
	_, best := bestRates(100, 2000, len(linear))
	if equal := worstVariance(linear, []float64{100, 130, 200, 300, 500, 1000, 2000}); best >= equal {
		t.Errorf("variance %.2f of the best five rates, %.2f at equal distances", best, equal)
	}
}

func TestDesignNeedsTime(t *testing.T) {
	if d, ok := BestDesign(100, 2000, Assumed, func(int) int { return 2 }, 0.95); ok {
		t.Errorf("two blocks are designed: %+v", d)
	}
}
