package capacity

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Of simulated servers with a capacity and an edge of some width, 95 % intervals contain the
// capacity about as often as they claim, and are narrow where the edge is.
func TestIntervalsCover(t *testing.T) {
	for _, test := range []struct {
		name     string
		width    float64 // of the edge, on the axis of ln(rate), 0 for a step
		miss     float64 // probes that fail by chance
		narrower float64 // mean width of the interval, relative
	}{
		{"step", 0, 0, 0.1}, {"sharp", 0.01, 0, 0.15}, {"soft", 0.05, 0.01, 0.3}, {"very soft", 0.15, 0, 0.6},
	} {
		const runs, probes = 400, 20
		rng := rand.New(rand.NewPCG(1, uint64(len(test.name))))
		covered, widths := 0, 0.0
		for run := range runs {
			capacity := 1000 * math.Exp(rng.Float64()*3-2)
			s := New(10, 1300*math.E, uint64(run))
			for range probes {
				rate := s.Next()
				held := rate < capacity
				if test.width > 0 {
					held = rng.Float64() < 1/(1+math.Exp(-math.Log(capacity/rate)/test.width))
				}
				s.Observe(rate, held && rng.Float64() >= test.miss)
			}
			low, median, high := s.Interval(0.95)
			if low <= capacity && capacity <= high {
				covered++
			}
			if low > median || median > high {
				t.Fatalf("%s: %v, %v, %v", test.name, low, median, high)
			}
			widths += (high - low) / median / runs
		}
		if covered < runs*91/100 {
			t.Errorf("%s: %d of %d intervals contain the capacity", test.name, covered, runs)
		}
		if widths > test.narrower {
			t.Errorf("%s: the mean width is %.3f of the capacity", test.name, widths)
		}
		t.Logf("%s: coverage %.3f, width %.3f", test.name, float64(covered)/runs, widths)
	}
}

// The limits of the range are approached, and no weight becomes zero or NaN.
func TestEnds(t *testing.T) {
	for _, held := range []bool{true, false} {
		s := New(1, 1000, 1)
		for range 1000 {
			s.Observe(s.Next(), held)
		}
		low, median, high := s.Interval(0.95)
		if held && median < 900 || !held && median > 1.2 || math.IsNaN(low+high) {
			t.Errorf("held %v: %v, %v, %v", held, low, median, high)
		}
	}
}
