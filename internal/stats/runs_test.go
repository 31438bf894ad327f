package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/statstest"
)

// sample is a run of n trials around a mean that varies between runs.
func sample(r *rand.Rand, n int, between, within float64) []float64 {
	level := 100 * math.Exp(between*r.NormFloat64())
	x := make([]float64, n)
	for i := range x {
		x[i] = level * math.Exp(within*r.NormFloat64())
	}
	return x
}

// Runs of the same thing differ by 5 % of 95 % intervals at most, for any variation between them and any number of
// trials of the new run. Welch's interval over their trials misses in most.
func TestAgainstRunsCoverage(t *testing.T) {
	rounds := statstest.Rounds(t, 3000, 20_000)
	for _, between := range []float64{0, 0.03, 0.1} {
		for _, c := range []struct{ runs, trials, next int }{{3, 6, 6}, {5, 6, 6}, {10, 6, 6}, {4, 6, 1}} {
			t.Run(fmt.Sprintf("SD %v, %d runs, %d trials", between, c.runs, c.next), func(t *testing.T) {
				r := rand.New(rand.NewPCG(15, uint64(c.runs)))
				missed, welch := 0, 0
				for range rounds {
					var runs [][]float64
					for range c.runs {
						runs = append(runs, sample(r, c.trials, between, 0.02))
					}
					next := sample(r, c.next, between, 0.02)
					if stats.AgainstRunsRatio(next, runs, 0.95).Excludes(1) {
						missed++
					}
					if stats.WelchRatio(next, runs[0], 0.95).Excludes(1) {
						welch++
					}
				}
				share, margin := float64(missed)/float64(rounds), 3*math.Sqrt(0.05*0.95/float64(rounds))
				t.Logf("misses %.3f, Welch over trials %.3f", share, float64(welch)/float64(rounds))
				if share > 0.05+margin || c.next == c.trials && share < 0.05-margin {
					t.Errorf("%.3f of intervals miss, want 0.05", share)
				}
				if between == 0.1 && c.next == c.trials && float64(welch) < 0.5*float64(rounds) {
					t.Errorf("Welch misses %d of %d: the runs do not vary", welch, rounds)
				}
			})
		}
	}
}

func TestAgainstRunsWithoutAnInterval(t *testing.T) {
	same := []float64{2, 2, 2}
	for _, c := range []struct {
		next []float64
		runs [][]float64
		want stats.Why
	}{
		{same, [][]float64{{1, 2, 3}, {2, 3, 4}}, stats.TooFew},
		{same, [][]float64{same, same, same}, stats.NoSpread},
		{nil, [][]float64{{1}, {2}, {3}}, stats.NotFinite},
		{same, [][]float64{{1}, {}, {3}}, stats.NotFinite},
	} {
		if r := stats.AgainstRuns(c.next, c.runs, 0.95); r.Why != c.want || r.Known() {
			t.Errorf("%v against %v: %+v, want %s", c.next, c.runs, r, c.want)
		}
	}
	if r := stats.AgainstRunsRatio([]float64{0}, [][]float64{{1}, {2}, {3}}, 0.95); r.Why != stats.NotPositive {
		t.Errorf("a zero: %+v", r)
	}
}
