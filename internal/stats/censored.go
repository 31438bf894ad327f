package stats

import (
	"math"
	"slices"
	"sort"
)

// Censored is an observation that is only known to lie in (After, Before]. Before is +Inf if it was not seen to come.
type Censored struct{ After, Before float64 }

// CensoredQuantile returns a quantile of interval-censored observations, by Turnbull's estimate of their distribution
// ("The empirical distribution function with arbitrarily grouped, censored and truncated data", 1976). Within an interval
// that no observation divides, the distribution is taken as even. It is false without observations, or where the
// quantile lies beyond what was seen.
func CensoredQuantile(all []Censored, q float64) (float64, bool) {
	if len(all) == 0 {
		return math.NaN(), false
	}
	cells := innermost(all)
	share := turnbull(all, cells)
	below := 0.0
	for i, c := range cells {
		if below+share[i] >= q-1e-9 && share[i] > 0 {
			if math.IsInf(c.Before, 1) {
				return math.NaN(), false
			}
			return c.After + (c.Before-c.After)*min(1, max(0, (q-below)/share[i])), true
		}
		below += share[i]
	}
	return math.NaN(), false
}

// innermost returns the intervals that can have a share: each begins with the beginning of an observation and ends with
// the next end of one.
func innermost(all []Censored) (cells []Censored) {
	type edge struct {
		at    float64
		begin bool
	}
	var edges []edge
	for _, c := range all {
		edges = append(edges, edge{c.After, true}, edge{c.Before, false})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.at < b.at || a.at == b.at && !a.begin && b.begin: // the end belongs to an interval, the beginning does not
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	for i := 1; i < len(edges); i++ {
		if edges[i-1].begin && !edges[i].begin {
			cells = append(cells, Censored{edges[i-1].at, edges[i].at})
		}
	}
	return cells
}

// Steps of the iteration, and the change of a share below which it ends.
const (
	turnbullSteps = 2000
	turnbullEnd   = 1e-7
)

// turnbull returns the share of each cell: the fixed point at which a share is the mean of what each observation
// gives to the cell.
func turnbull(all, cells []Censored) []float64 {
	share, sums, given := make([]float64, len(cells)), make([]float64, len(cells)+1), make([]float64, len(cells)+1)
	for i := range share {
		share[i] = 1 / float64(len(cells))
	}
	type reach struct{ from, to int } // cells within an observation
	within := make([]reach, len(all))
	for i, c := range all {
		within[i].from = sort.Search(len(cells), func(k int) bool { return cells[k].After >= c.After })
		within[i].to = sort.Search(len(cells), func(k int) bool { return cells[k].Before > c.Before })
	}
	for range turnbullSteps {
		for i, s := range share {
			sums[i+1] = sums[i] + s
		}
		clear(given)
		for _, w := range within {
			one := 1 / (sums[w.to] - sums[w.from]) / float64(len(all))
			given[w.from] += one
			given[w.to] -= one
		}
		factor, moved := 0.0, 0.0
		for i := range share {
			factor += given[i]
			moved = max(moved, math.Abs(share[i]*factor-share[i]))
			share[i] *= factor
		}
		if moved < turnbullEnd {
			break
		}
	}
	return share
}
