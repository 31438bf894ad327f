package stats

import (
	"cmp"
	"math"
	"slices"
)

// Holm returns p-values adjusted for their number by Holm's step-down (1979):
// rejecting where the answer is below alpha keeps the chance of any false
// rejection below alpha, for any dependence. A NaN is a test that was not
// made: it stays NaN and does not count.
func Holm(p []float64) []float64 {
	adjusted, order := ascending(p)
	running := 0.0
	for rank, i := range order {
		running = math.Max(running, p[i]*float64(len(order)-rank))
		adjusted[i] = math.Min(running, 1)
	}
	return adjusted
}

// ascending returns the indices of the p-values in ascending order, without those that are
// NaN, and as many NaNs as there are p-values.
func ascending(p []float64) (unset []float64, order []int) {
	unset = make([]float64, len(p))
	for i, v := range p {
		unset[i] = math.NaN()
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	return unset, order
}
