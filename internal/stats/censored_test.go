package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
)

func TestCensoredQuantile(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		all     []stats.Censored
		q, want float64 // NaN: unknown
	}{
		"nothing":                          {nil, 0.5, math.NaN()},
		"one interval is even within":      {[]stats.Censored{{0, 10}}, 0.5, 5},
		"intervals that share a part":      {[]stats.Censored{{0, 6}, {4, 10}}, 0.5, 5},
		"a part shared by most":            {[]stats.Censored{{0, 2}, {1, 3}, {1, 3}, {8, 9}}, 0.5, 1 + 2.0/3},
		"adjacent intervals":               {[]stats.Censored{{0, 1}, {1, 2}}, 0.5, 1},
		"a quantile that did not come":     {[]stats.Censored{{0, 1}, {5, inf}}, 0.9, math.NaN()},
		"a quantile below what never came": {[]stats.Censored{{0, 1}, {5, inf}}, 0.25, 0.5},
	} {
		got, known := stats.CensoredQuantile(c.all, c.q)
		if known == math.IsNaN(c.want) || known && math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%s: got %v (%v), want %v", name, got, known, c.want)
		}
	}
}

// Delays that probes see only to 8 ms are recovered far more exactly, because each probe comes at another phase.
func TestCensoredQuantileIsFinerThanTheProbes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, delay := range []float64{5, 50, 500} {
		var all []stats.Censored
		for range 60 {
			last := delay - 8*random.Float64()
			all = append(all, stats.Censored{After: max(0, last), Before: last + 8})
		}
		if got, known := stats.CensoredQuantile(all, 0.5); !known || math.Abs(got-delay) > max(1, delay/50) {
			t.Errorf("delay %v ms: got %v", delay, got)
		}
	}
}
