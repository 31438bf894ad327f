// Package predict reads costs off curves through the deployments of a run, at rates that were not measured.
package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/stats"
)

// Point is one trial: a deployment at a rate.
type Point struct {
	Block int
	Rate  float64 // requests/s
	Cost  float64 // in any unit
}

// Curve is the cost of deployments over the rate. Each block of a run has a fit of its own, so that bands rest on blocks,
// and that of a new deployment has their deviation.
type Curve struct {
	Form       string  `json:"form"`       // name of its [form]
	Reason     string  `json:"reason"`     // why costs have it
	From       float64 `json:"from"`       // lowest rate that was measured, requests/s
	To         float64 `json:"to"`         // highest
	Rates      int     `json:"rates"`      // number of rates
	Blocks     int     `json:"blocks"`     // number of deployments
	Noise      float64 `json:"noise"`      // standard deviation of a trial around the curve of its deployment, as a share
	Confidence float64 `json:"confidence"` // of bands

	form form
	fits [][]float64
}

// form is a shape of cost over rate: the sum of terms with a factor each. A rate is a share of the highest one.
type form struct {
	name, reason string
	terms        func(rate float64) []float64
}

// forms are tried in this order: a later one must predict better than those before it.
var forms = []form{
	{"line", "fixed work, and the same work for every request", func(x float64) []float64 { return []float64{1, x} }},
	{"wake-ups", "fixed work, work for every request, and wake-ups, which requests share as they become more", func(x float64) []float64 { return []float64{1, x, math.Sqrt(x)} }},
	{"contention", "fixed work, and work for every request that grows as requests wait for one another", func(x float64) []float64 { return []float64{1, x, x * x} }},
}

// Least numbers of deployments and of rates.
const (
	minBlocks = 3
	minRates  = 3
)

// Fit chooses the form that predicts the deployments that it was not fitted to best. A deployment's own level is left out
// of that comparison: it says nothing about the form.
func Fit(points []Point, confidence float64) (*Curve, error) {
	all := levelsOf(points)
	levels, blocks := len(all), grouped(points)
	blocks = slices.DeleteFunc(blocks, func(b []Point) bool { return len(b) < levels }) // all deployments have the same rates
	if len(blocks) < minBlocks || levels < minRates {
		return nil, hint.New(fmt.Sprintf("measure at least %d rates in %d blocks: --set 'factors.rate=[100, 300, 1000]' --set blocks=6", minRates, minBlocks),
			"%d blocks with all of %d rates are too few for a curve", len(blocks), levels)
	}
	c := &Curve{From: all[0], To: all[levels-1], Rates: levels, Blocks: len(blocks), Confidence: confidence}
	var chosen []float64
	for _, f := range forms {
		if len(f.terms(1)) >= levels { // it would go through every point
			continue
		}
		errs, ok := predicted(f, blocks, c.To)
		if ok && (chosen == nil || surelyLess(errs, chosen)) {
			chosen, c.form = errs, f
		}
	}
	if chosen == nil {
		return nil, errors.New("the costs are no numbers above zero")
	}
	c.Form, c.Reason = c.form.name, c.form.reason
	c.Noise = c.fit(blocks)
	return c, nil
}

// fit fits each block, and returns the deviation of trials from the curves, as a share.
func (c *Curve) fit(blocks [][]Point) float64 {
	var sum float64
	free := 0
	for _, b := range blocks {
		k, ok := fitted(c.form, b, c.To)
		if !ok {
			continue
		}
		c.fits = append(c.fits, k)
		for _, p := range b {
			off := p.Cost/value(c.form, k, p.Rate/c.To) - 1
			sum += off * off
		}
		free += len(b) - len(k)
	}
	return math.Sqrt(sum / float64(max(1, free)))
}

// Band is a cost at a rate. Low and High are of the mean over deployments, NewLow and NewHigh of one more deployment.
type Band struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	NewLow   float64 `json:"new_low"`
	NewHigh  float64 `json:"new_high"`
}

// At returns the cost at a rate, requests/s. A rate outside the measured range is refused.
func (c *Curve) At(rate float64) (Band, error) {
	if !(rate >= c.From && rate <= c.To) {
		return Band{}, hint.New(fmt.Sprintf("measure it: add %g to factors.rate", rate),
			"%g requests/s are outside the measured range of %g to %g", rate, c.From, c.To)
	}
	var costs []float64
	for _, k := range c.fits {
		costs = append(costs, value(c.form, k, rate/c.To))
	}
	mean, n, sd := stats.Mean(costs), float64(len(costs)), stats.SD(costs)
	half := stats.HalfWidth(sd, len(costs), c.Confidence)
	noise := c.Noise * mean
	another := stats.HalfWidth(math.Sqrt(sd*sd*(n+1)+noise*noise*n), len(costs), c.Confidence)
	return Band{mean, mean - half, mean + half, max(0, mean-another), mean + another}, nil
}

// predicted returns for each block the mean squared error, as a share, of the curve through the others.
func predicted(f form, blocks [][]Point, to float64) (errs []float64, ok bool) {
	for left := range blocks {
		var others []Point
		for i, b := range blocks {
			if i != left {
				others = append(others, b...)
			}
		}
		k, ok := fitted(f, others, to)
		if !ok {
			return nil, false
		}
		var logs []float64
		for _, p := range blocks[left] {
			ratio := p.Cost / value(f, k, p.Rate/to)
			if !(ratio > 0) {
				return nil, false
			}
			logs = append(logs, math.Log(ratio))
		}
		sd := stats.SD(logs)
		errs = append(errs, sd*sd)
	}
	return errs, true
}

// surelyLess reports whether errors are less than others of the same blocks, by more than the standard error of the
// difference.
func surelyLess(errs, others []float64) bool {
	var less []float64
	for i := range errs {
		less = append(less, others[i]-errs[i])
	}
	return stats.Mean(less) > stats.SD(less)/math.Sqrt(float64(len(less)))
}

// fitted returns the factors of the least-squares fit of points, with errors as shares of the cost.
func fitted(f form, points []Point, to float64) ([]float64, bool) {
	n := len(f.terms(1))
	normal := make([][]float64, n) // the normal equations, the right side last
	for i := range normal {
		normal[i] = make([]float64, n+1)
	}
	for _, p := range points {
		if !(p.Cost > 0) {
			return nil, false
		}
		x := f.terms(p.Rate / to)
		for i := range n {
			for j := range n {
				normal[i][j] += x[i] * x[j] / (p.Cost * p.Cost)
			}
			normal[i][n] += x[i] / p.Cost
		}
	}
	return solved(normal)
}

// solved solves linear equations by elimination with pivots.
func solved(m [][]float64) ([]float64, bool) {
	n := len(m)
	for i := range n {
		pivot := i
		for j := i + 1; j < n; j++ {
			if math.Abs(m[j][i]) > math.Abs(m[pivot][i]) {
				pivot = j
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if m[i][i] == 0 {
			return nil, false
		}
		for j := range n {
			if j == i {
				continue
			}
			by := m[j][i] / m[i][i]
			for k := i; k <= n; k++ {
				m[j][k] -= by * m[i][k]
			}
		}
	}
	x := make([]float64, n)
	for i := range n {
		x[i] = m[i][n] / m[i][i]
		if math.IsNaN(x[i]) || math.IsInf(x[i], 0) {
			return nil, false
		}
	}
	return x, true
}

func value(f form, factors []float64, rate float64) (sum float64) {
	for i, x := range f.terms(rate) {
		sum += factors[i] * x
	}
	return sum
}

// grouped returns the points of each block, in the order of the blocks.
func grouped(points []Point) (blocks [][]Point) {
	sorted := slices.Clone(points)
	slices.SortStableFunc(sorted, func(a, b Point) int { return a.Block - b.Block })
	for i, p := range sorted {
		if i == 0 || p.Block != sorted[i-1].Block {
			blocks = append(blocks, nil)
		}
		blocks[len(blocks)-1] = append(blocks[len(blocks)-1], p)
	}
	return blocks
}

func levelsOf(points []Point) (rates []float64) {
	for _, p := range points {
		rates = append(rates, p.Rate)
	}
	slices.Sort(rates)
	return slices.Compact(rates)
}
