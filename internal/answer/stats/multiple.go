package stats

import (
	"math"
	"slices"
)

// Holm returns p-values adjusted for their number by Holm's step-down (1979):
// rejecting where the answer is below alpha keeps the chance of any false
// rejection below alpha, for any dependence. A NaN is a test that was not
// made: it stays NaN and does not count.
func Holm(p []float64) []float64 {
	adjusted := make([]float64, len(p))
	var order []int
	for i, v := range p {
		adjusted[i] = math.NaN()
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	running := 0.0
	for rank, i := range order {
		running = math.Max(running, p[i]*float64(len(order)-rank))
		adjusted[i] = math.Min(running, 1)
	}
	return adjusted
}
