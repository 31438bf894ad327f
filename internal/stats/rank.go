package stats

import "math"

// SignedRank is the one-sided p-value of "x is symmetric around a value of zero or more": Wilcoxon's signed-rank test
// (Biometrics Bulletin 1945), exact without ties. It looks at ranks, so no single value decides it. Zeros are left out.
func SignedRank(x []float64) float64 {
	var sizes []float64
	for _, v := range x {
		if v != 0 {
			sizes = append(sizes, math.Abs(v))
		}
	}
	n := len(sizes)
	if n == 0 {
		return 1
	}
	positive := 0.0 // the sum of the ranks of values above zero; ties share their ranks
	for _, v := range x {
		if v <= 0 {
			continue
		}
		below, equal := 0.0, 0.0
		for _, size := range sizes {
			switch {
			case size < v:
				below++
			case size == v:
				equal++
			}
		}
		positive += below + (equal+1)/2
	}
	// ways[s] are the sets of ranks 1..n with sum s, over their number.
	ways := []float64{1}
	for rank := 1; rank <= n; rank++ {
		ways = append(ways, make([]float64, rank)...)
		for s := len(ways) - 1; s >= 0; s-- {
			if ways[s] /= 2; s >= rank {
				ways[s] += ways[s-rank] / 2
			}
		}
	}
	p := 0.0
	for s := 0; float64(s) <= positive; s++ {
		p += ways[s]
	}
	return math.Min(1, p)
}
