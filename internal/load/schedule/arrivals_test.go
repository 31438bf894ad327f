package schedule

import (
	"math"
	"sort"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tare-mesh/tare/internal/load"
)

// all merges the shares of n workers of p's schedule, the first count starts.
func all(p load.Profile, n, count int) []int64 {
	var starts []int64
	for i := range n {
		s := New(&p, nil, i, n)
		for range Share(count, n, i) {
			starts = append(starts, s.Next())
		}
	}
	sort.Slice(starts, func(i, j int) bool { return starts[i] < starts[j] })
	return starts
}

func TestConstantScheduleHasNoDrift(t *testing.T) {
	for _, rate := range []float64{1, 3, 7, 1000, 333.3, 12345.67, 1e6} {
		p := load.Profile{Rate: rate, Arrivals: load.Constant}
		s := New(&p, nil, 0, 1)
		for k := range 1_000_000 {
			want := math.Round(float64(k) / rate * 1e9)
			if got := s.Next(); math.Abs(float64(got)-want) > 1 {
				t.Fatalf("rate %v: request %d at %d ns, want %.0f", rate, k, got, want)
			}
		}
	}
}

// Seven requests a second over three workers are seven, not six.
func TestScheduleIsTheSameForAnyNumberOfWorkers(t *testing.T) {
	for _, arrivals := range []string{load.Constant, load.Poisson} {
		p := load.Profile{Rate: 7, Arrivals: arrivals, Seed: 42}
		want := all(p, 1, 700)
		for _, workers := range []int{2, 3, 5} {
			got := all(p, workers, 700)
			for k := range want {
				if got[k] != want[k] {
					t.Fatalf("%s, %d workers: request %d at %d, want %d", arrivals, workers, k, got[k], want[k])
				}
			}
		}
	}
}

// Kolmogorov-Smirnov against the exponential distribution, on the merged
// schedule of several workers.
func TestPoissonGapsAreExponential(t *testing.T) {
	const n, rate = 20_000, 1000.0
	starts := all(load.Profile{Rate: rate, Arrivals: load.Poisson, Seed: 7}, 3, n)
	if d := ksExponential(secondsBetween(starts), rate); d > 1.36/math.Sqrt(n-1) { // 5 % level
		t.Errorf("KS distance %v", d)
	}
	// The test must be able to fail.
	if d := ksExponential(secondsBetween(all(load.Profile{Rate: rate, Arrivals: load.Constant}, 3, n)), rate); d < 0.3 {
		t.Errorf("constant gaps pass for exponential: KS distance %v", d)
	}
	if got := float64(n) / float64(starts[n-1]) * 1e9; math.Abs(got/rate-1) > 0.03 {
		t.Errorf("mean rate %v, want %v", got, rate)
	}
}

func secondsBetween(starts []int64) []float64 {
	g := make([]float64, len(starts)-1)
	for i := range g {
		g[i] = float64(starts[i+1]-starts[i]) / 1e9
	}
	sort.Float64s(g)
	return g
}

// ksExponential is the distance of sorted gaps from quantiles of the distribution.
func ksExponential(gaps []float64, rate float64) float64 {
	exponential := distuv.Exponential{Rate: rate}
	quantiles := make([]float64, 10*len(gaps))
	for i := range quantiles {
		quantiles[i] = exponential.Quantile((float64(i) + 0.5) / float64(len(quantiles)))
	}
	return stat.KolmogorovSmirnov(gaps, nil, quantiles, nil)
}

func TestSeedDecidesTheSchedule(t *testing.T) {
	a := all(load.Profile{Rate: 100, Arrivals: load.Poisson, Seed: 1}, 1, 100)
	b := all(load.Profile{Rate: 100, Arrivals: load.Poisson, Seed: 1}, 1, 100)
	c := all(load.Profile{Rate: 100, Arrivals: load.Poisson, Seed: 2}, 1, 100)
	if a[99] != b[99] || a[99] == c[99] {
		t.Errorf("seeds 1, 1, 2 end at %d, %d, %d", a[99], b[99], c[99])
	}
}
