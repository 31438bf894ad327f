package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/statstest"
)

// With one look the test is Student's. With several, the first spends its part, and the last is beyond one of a single look.
func TestSpendingCriticalValues(t *testing.T) {
	const student = 2.132 // t with 4 degrees of freedom, 5 %
	if got := stats.NewSpending(5, 5, 0.05).Last(); math.Abs(got-student) > 0.03 {
		t.Errorf("one look: critical value %v, want %v", got, student)
	}
	s := stats.NewSpending(10, 20, 0.05)
	if d := difftest.Wrong("s.Due(9)", s.Due(9), "!s.Due(10)", !s.Due(10), "!s.Due(20)", !s.Due(20), "s.Due(21)", s.Due(21)); d != "" {
		t.Error(d, "looks are due at other numbers than 10 to 20")
	}
	if got := s.Last(); got < 1.73 || got > 2.2 { // 1.729: t with 19 degrees of freedom
		t.Errorf("critical value of the last look: %v", got)
	}
}

// The error over all looks is at most alpha, with an unknown variance, also for noise that is not normal.
func TestSpendingError(t *testing.T) {
	const alpha = 0.05
	const all = 20_000
	rounds, looksAt := statstest.Rounds(t, 4000, all), []int{8, 30, 100}
	if rounds < all {
		looksAt = looksAt[:2]
	}
	shapes := map[string]func(*rand.Rand) float64{
		"normal":      (*rand.Rand).NormFloat64,
		"heavy tails": func(r *rand.Rand) float64 { return r.NormFloat64() / math.Sqrt((r.ExpFloat64()+r.ExpFloat64())/2) }, // t with 4 degrees of freedom
	}
	for name, draw := range shapes {
		for _, looks := range looksAt {
			t.Run(fmt.Sprintf("%s/%d", name, looks), func(t *testing.T) {
				s := stats.NewSpending(4, looks, alpha)
				early := stats.NewSpendingUntil(4, looks, looks/2, alpha)
				r := rand.New(rand.NewPCG(1, uint64(looks)))
				whole, half := 0, 0
				for range rounds {
					if rejects(r, draw, looks, s, s) {
						whole++
					}
					if rejects(r, draw, looks/2, s, early) {
						half++
					}
				}
				margin := 3 * math.Sqrt(alpha*(1-alpha)/float64(rounds))
				for end, rejected := range map[string]int{"as planned": whole, "at half of the time": half} {
					share := float64(rejected) / float64(rounds)
					t.Logf("ended %s: rejected in %.4f of experiments", end, share)
					if share > alpha+margin || name == "normal" && share < 0.8*alpha {
						t.Errorf("ended %s: rejected in %.4f of experiments, want %.2f", end, share, alpha)
					}
				}
			})
		}
	}
}

// rejects runs an experiment of n pairs whose last look is one of end, and the others of s.
func rejects(r *rand.Rand, draw func(*rand.Rand) float64, n int, s, end stats.Spending) bool {
	var x []float64
	for len(x) < n {
		x = append(x, draw(r))
		look := s
		if len(x) == n {
			look = end
		}
		if i := look.Bounds(x); i.Known() && *i.Low > 0 {
			return true
		}
	}
	return false
}

// Spending makes no test without the pairs of a first look.
func TestSpendingWithoutALook(t *testing.T) {
	for _, last := range []int{-1, 0, 3} {
		if s := stats.NewSpendingUntil(4, 30, last, 0.05); s.Due(last) || s.Bounds([]float64{1, 2, 4}).Known() {
			t.Errorf("a look after %d pairs", last)
		}
	}
}
