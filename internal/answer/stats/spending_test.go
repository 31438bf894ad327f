package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/stats"
)

// With one look the test is Student's. With several, the first spends its part, and the last is beyond one of a single look.
func TestSpendingCriticalValues(t *testing.T) {
	const student = 2.132 // t with 4 degrees of freedom, 5 %
	if got := stats.NewSpending(5, 5, 0.05).Last(); math.Abs(got-student) > 0.03 {
		t.Errorf("one look: critical value %v, want %v", got, student)
	}
	s := stats.NewSpending(10, 20, 0.05)
	if s.Due(9) || !s.Due(10) || !s.Due(20) || s.Due(21) {
		t.Error("looks are due at other numbers than 10 to 20")
	}
	if got := s.Last(); got < 1.73 || got > 2.2 { // 1.729: t with 19 degrees of freedom
		t.Errorf("critical value of the last look: %v", got)
	}
}

// The error over all looks is at most alpha, with an unknown variance, also for noise that is not normal.
func TestSpendingError(t *testing.T) {
	const alpha = 0.05
	rounds, looksAt := 20_000, []int{8, 30, 100}
	if testing.Short() {
		t.Attr("short", "4000 rounds, 8 and 30 looks")
		rounds, looksAt = 4000, looksAt[:2]
	}
	shapes := map[string]func(*rand.Rand) float64{
		"normal":      (*rand.Rand).NormFloat64,
		"heavy tails": func(r *rand.Rand) float64 { return r.NormFloat64() / math.Sqrt((r.ExpFloat64()+r.ExpFloat64())/2) }, // t with 4 degrees of freedom
	}
	for name, draw := range shapes {
		for _, looks := range looksAt {
			t.Run(fmt.Sprintf("%s/%d", name, looks), func(t *testing.T) {
				s := stats.NewSpending(4, looks, alpha)
				r := rand.New(rand.NewPCG(1, uint64(looks)))
				rejected := 0
				for range rounds {
					var x []float64
					for len(x) < looks {
						x = append(x, draw(r))
						if i := s.Bounds(x); i.Known() && *i.Low > 0 {
							rejected++
							break
						}
					}
				}
				share := float64(rejected) / float64(rounds)
				if margin := 3 * math.Sqrt(alpha*(1-alpha)/float64(rounds)); share > alpha+margin || name == "normal" && share < alpha/2 {
					t.Errorf("rejected in %.4f of experiments, want %.2f", share, alpha)
				} else {
					t.Logf("rejected in %.4f of experiments", share)
				}
			})
		}
	}
}
