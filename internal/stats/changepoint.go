package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// MinSegment is the least number of observations on either side of a change.
	MinSegment = 3
	// permutations of each test. The least p-value is 1/(permutations+1).
	permutations = 999
)

// Change is a point after which a series differs.
type Change struct {
	At int // index of the first observation after it
	P  float64
	// Before and After are the means on both sides, up to the next change.
	Before, After float64
}

// Changes finds the changes of the mean or the spread of a series, by E-divisive
// with means (Matteson, James, "A nonparametric approach for multiple change point
// analysis of multivariate data", JASA 2014). It is in use on histories of
// benchmarks (Daly et al., ICPE 2020). The part with the largest energy
// statistic is split if a permutation test allows it at level alpha, and so on
// in both halves. The permutations are drawn from a fixed seed: the same series
// gives the same answer. Fewer than eight observations cannot show a change at
// 0.05, since so few can be ordered in too few ways.
func Changes(x []float64, alpha float64) []Change {
	if !finite(x) || !(alpha > 0 && alpha < 1) {
		return nil
	}
	r := rand.New(rand.NewPCG(2014, uint64(len(x))))
	var found []Change
	var split func(from, to int)
	split = func(from, to int) {
		at, q := bestSplit(x[from:to])
		if at < 0 {
			return
		}
		if p := permuted(r, x[from:to], q); p <= alpha {
			found = append(found, Change{At: from + at, P: p})
			split(from, from+at)
			split(from+at, to)
		}
	}
	split(0, len(x))
	slices.SortFunc(found, func(a, b Change) int { return a.At - b.At })
	for i := range found {
		from, to := 0, len(x)
		if i > 0 {
			from = found[i-1].At
		}
		if i+1 < len(found) {
			to = found[i+1].At
		}
		found[i].Before, found[i].After = Mean(x[from:found[i].At]), Mean(x[found[i].At:to])
	}
	return found
}

// permuted is the share of orderings whose best split is at least as good as q.
func permuted(r *rand.Rand, x []float64, q float64) float64 {
	y := slices.Clone(x)
	as := 1
	for range permutations {
		r.Shuffle(len(y), func(i, j int) { y[i], y[j] = y[j], y[i] })
		if _, other := bestSplit(y); other >= q-1e-12*math.Abs(q) {
			as++
		}
	}
	return float64(as) / (permutations + 1)
}

// bestSplit is the index with the largest energy statistic of the two sides, or -1 if x is too short.
func bestSplit(x []float64) (at int, best float64) {
	n := len(x)
	at = -1
	if n < 2*MinSegment {
		return at, 0
	}
	// left and right are the sums of distances within the sides, all the sum over every pair.
	all, left := 0.0, 0.0
	for i := range x {
		for j := range i {
			all += math.Abs(x[i] - x[j])
		}
	}
	right := all
	for k := 1; k < n; k++ { // x[k-1] moves from the right side to the left
		for j := range x {
			d := math.Abs(x[k-1] - x[j])
			if j < k-1 {
				left += d
			} else {
				right -= d
			}
		}
		if k < MinSegment || n-k < MinSegment {
			continue
		}
		a, b := float64(k), float64(n-k)
		between := all - left - right
		energy := 2*between/(a*b) - 2*left/(a*(a-1)) - 2*right/(b*(b-1))
		if q := a * b / (a + b) * energy; at < 0 || q > best {
			at, best = k, q
		}
	}
	return at, best
}
