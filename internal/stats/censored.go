package stats

import (
	"math"
	"slices"
	"sort"
)

// Censored is an observation that is only known to lie in (After, Before]. Before is +Inf if it was not seen to come.
type Censored struct{ After, Before float64 }

// CensoredQuantile returns a quantile of interval-censored observations. It is false without observations, or where the
// quantile lies beyond what was seen.
func CensoredQuantile(all []Censored, q float64) (float64, bool) {
	return CensoredDistribution(all).Quantile(q)
}

// Distribution is an estimated distribution: intervals in their order. Within each it is taken as even.
type Distribution []Step

// Step is an interval with its share, and the share below it.
type Step struct {
	Censored
	Below, Share float64
}

// CensoredDistribution is Turnbull's estimate of the distribution of interval-censored observations ("The empirical
// distribution function with arbitrarily grouped, censored and truncated data", 1976).
func CensoredDistribution(all []Censored) (d Distribution) {
	if len(all) == 0 {
		return nil
	}
	cells := innermost(all)
	below := 0.0
	for i, share := range turnbull(all, cells) {
		if share > 0 {
			d = append(d, Step{cells[i], below, share})
		}
		below += share
	}
	return d
}

// Quantile returns a quantile. It is false where it lies beyond what was seen.
func (d Distribution) Quantile(q float64) (float64, bool) {
	for _, s := range d {
		if s.Below+s.Share >= q-1e-9 {
			if math.IsInf(s.Before, 1) {
				break
			}
			return s.After + (s.Before-s.After)*min(1, max(0, (q-s.Below)/s.Share)), true
		}
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
