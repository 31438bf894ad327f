package schedule

import (
	"math"
	"sort"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tare-mesh/tare/internal/load"
)

// all merges the shares of n workers of p's schedule, the first count starts.
func all(p load.Profile, n, count int) []int64 {
	var starts []int64
	for i := range n {
		s := New(&p, i, n)
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
		s := New(&p, 0, 1)
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

// The number of Poisson arrivals in the measure window equals the number of constant arrivals, for
// every seed, rate curve and number of workers. Without phases the number varies.
func TestPoissonNumberIsFixed(t *testing.T) {
	steps := []load.Segment{{For: 500 * time.Millisecond, From: 100, To: 100}, {For: time.Second, From: 100, To: 500}}
	for _, test := range []struct {
		name string
		p    load.Profile
		want [3]int // warm-up, measure, tail
	}{
		{"whole", load.Profile{Rate: 1000, Warmup: 200 * time.Millisecond, Measure: 2 * time.Second, Tail: time.Second}, [3]int{200, 2000, 1000}},
		{"broken", load.Profile{Rate: 7, Warmup: 300 * time.Millisecond, Measure: 1500 * time.Millisecond, Tail: time.Second}, [3]int{3, 10, 7}},
		{"steps", load.Profile{Rate: 1, Segments: steps, Warmup: 500 * time.Millisecond, Measure: time.Second, Tail: time.Second}, [3]int{50, 300, 500}},
		{"requests", load.Profile{Rate: 100, Requests: 250, Measure: 2500 * time.Millisecond}, [3]int{0, 250, 0}},
	} {
		varied := map[int]bool{}
		for seed := range uint64(40) {
			p := test.p
			p.Arrivals, p.Seed = load.Poisson, seed
			if got := phaseCounts(p, 1+int(seed%3)); got != test.want && (p.Requests == 0 || got[1] != test.want[1]) {
				t.Errorf("%s, seed %d: %v requests, want %v", test.name, seed, got, test.want)
			}
			free := p
			free.Measure, free.Requests = 0, 0
			varied[countUntil(free, p.Warmup+p.Measure)] = true
		}
		if len(varied) < 3 {
			t.Errorf("%s: the unconditioned process has only %d different numbers", test.name, len(varied))
		}
	}
}

// phaseCounts counts the requests of n workers in warm-up, measure window and tail.
func phaseCounts(p load.Profile, n int) (counts [3]int) {
	for i := range n {
		s := New(&p, i, n)
		for at := time.Duration(s.Next()); at < p.Warmup+p.Measure+p.Tail; at = time.Duration(s.Next()) {
			switch {
			case at < p.Warmup:
				counts[0]++
			case at < p.Warmup+p.Measure:
				counts[1]++
			default:
				counts[2]++
			}
		}
	}
	return counts
}

func countUntil(p load.Profile, end time.Duration) (n int) {
	s := New(&p, 0, 1)
	for time.Duration(s.Next()) < end {
		n++
	}
	return n
}

// Given their number, Poisson arrivals are uniform in the window, and their gaps remain
// exponential.
func TestConditionedArrivalsArePoisson(t *testing.T) {
	const n = 20_000
	p := load.Profile{Rate: 1000, Arrivals: load.Poisson, Seed: 11, Measure: n * time.Millisecond}
	starts := all(p, 3, n)
	if d := ksExponential(secondsBetween(starts), p.Rate); d > 1.36/math.Sqrt(n-1) { // 5 % level
		t.Errorf("gaps: KS distance %v", d)
	}
	at, even := make([]float64, n), make([]float64, n)
	for i, ns := range starts {
		at[i], even[i] = float64(ns)/1e9, (float64(i)+0.5)*p.Measure.Seconds()/n
	}
	if d := stat.KolmogorovSmirnov(at, nil, even, nil); d > 1.36/math.Sqrt(n) {
		t.Errorf("positions: KS distance %v", d)
	}
	// The number in a tenth of the window varies as with uniform positions: variance
	// n/10·(9/10). Constant arrivals would have none.
	const short = 200
	var counts []float64
	for seed := range uint64(500) {
		q := load.Profile{Rate: 1000, Arrivals: load.Poisson, Seed: seed, Measure: short * time.Millisecond}
		counts = append(counts, float64(countUntil(q, q.Measure/10)))
	}
	mean, variance := stat.MeanVariance(counts, nil)
	if want := short * 0.1 * 0.9; math.Abs(mean-short*0.1) > 1 || variance < 0.75*want || variance > 1.25*want {
		t.Errorf("requests in a tenth of the window: mean %v, variance %v, want 20 and %v", mean, variance, want)
	}
}
