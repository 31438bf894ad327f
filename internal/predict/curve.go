// Package predict reads costs off curves through the deployments of a run, at rates that were not measured.
package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/stats"
)

// Point is one trial: a deployment at a level of each axis.
type Point struct {
	Block int       `json:"block"`
	At    []float64 `json:"at"`   // a level of each axis, the rate first
	Cost  float64   `json:"cost"` // in any unit
}

// Axis is a quantity that costs depend on, and the range in which they were measured.
type Axis struct {
	Name   string  `json:"name"` // a factor, an option of a mesh, or the services that a sidecar calls
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Levels int     `json:"levels"`
}

// Curve is the cost of deployments over the rate, and over other axes. Each block of a run has a fit of its own, so that
// bands rest on blocks, and the band of a new deployment has their deviation.
type Curve struct {
	Form       string  `json:"form"`       // name of its [form]
	Reason     string  `json:"reason"`     // why costs have it
	Axes       []Axis  `json:"axes"`       // the rate first, requests/s
	Blocks     int     `json:"blocks"`     // number of deployments
	Noise      float64 `json:"noise"`      // standard deviation of a trial around the curve of its deployment, as a share
	Confidence float64 `json:"confidence"` // of bands
	Points     []Point `json:"points"`     // that it was fitted to

	form   form
	fits   [][]float64 // of each block
	blocks []int       // their numbers
	free   float64     // degrees of freedom of Noise
}

// form is a shape of cost: the sum of terms with a factor each.
type form struct {
	name, reason string
	terms        []term
}

// term is a part of a cost. Levels are shares of the highest of their axis, the rate first.
type term func(levels []float64) float64

func fixed([]float64) float64             { return 1 }
func perRequest(levels []float64) float64 { return levels[0] }

// rateForms are tried in this order: a later one must predict better than those before it.
var rateForms = []form{
	{"line", "fixed work, and the same work for every request", []term{fixed, perRequest}},
	{"wake-ups", "fixed work, work for every request, and wake-ups, which requests share as they become more", []term{fixed, perRequest, func(x []float64) float64 { return math.Sqrt(x[0]) }}},
	{"contention", "fixed work, and work for every request that grows as requests wait for one another", []term{fixed, perRequest, func(x []float64) float64 { return x[0] * x[0] }}},
}

// formsOver returns the forms of the rate, each without and with work that grows with every other axis: work of its own,
// of every request, and both. Forms with fewer terms come first.
func formsOver(axes []Axis) []form {
	all := slices.Clone(rateForms)
	for i, a := range axes {
		if i == 0 || a.Levels == 1 {
			continue
		}
		own := func(x []float64) float64 { return x[i] }
		ofRequests := func(x []float64) float64 { return x[0] * x[i] }
		for _, f := range slices.Clone(all) {
			for _, more := range []form{
				{reason: "work that grows with " + a.Name, terms: []term{own}},
				{reason: "work of every request that grows with " + a.Name, terms: []term{ofRequests}},
				{reason: "work, also of every request, that grows with " + a.Name, terms: []term{own, ofRequests}},
			} {
				all = append(all, form{f.name, f.reason + "; " + more.reason, slices.Concat(f.terms, more.terms)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b form) int { return len(a.terms) - len(b.terms) })
	return all
}

// neededOf is the least number of valid trials of a deployment, of those at all levels. One may be missing, or a quarter.
// Simulated bands hold as many new deployments with them as without: a deployment with fewer trials deviates more.
func neededOf(levels int) int { return levels - max(1, levels/4) }

// Least numbers of deployments and of rates.
const (
	minBlocks = 3
	minRates  = 3
)

// Fit chooses the form that best predicts the deployments that it was not fitted to. The comparison leaves out each
// deployment's own level, which no form predicts. The axes of points are named, the rate first. Without axes the curve
// is the mean.
func Fit(points []Point, axes []string, confidence float64) (*Curve, error) {
	if len(points) == 0 {
		return nil, errors.New("no valid trial of the run has it")
	}
	levels, blocks := placesOf(points), grouped(points)
	begun := len(blocks)
	needed := neededOf(levels)
	blocks = slices.DeleteFunc(blocks, func(b []Point) bool { return len(b) < needed })
	c := &Curve{Blocks: len(blocks), Confidence: confidence}
	for i, name := range axes {
		at := levelsOf(points, i)
		c.Axes = append(c.Axes, Axis{Name: name, From: at[0], To: at[len(at)-1], Levels: len(at)})
	}
	rates := minRates // the mean needs none
	if len(c.Axes) > 0 {
		rates = c.Axes[0].Levels
	}
	if len(blocks) < minBlocks || rates < minRates {
		return nil, &FewError{Rates: rates, Loads: levels, Blocks: begun, Complete: len(blocks)}
	}
	if len(axes) == 0 {
		c.fitMean(blocks)
		return c, nil
	}
	var chosen []float64
	for _, f := range formsOver(c.Axes) {
		if len(f.terms) > needed { // a deployment would not determine it, or it would go through every point
			continue
		}
		errs, ok := c.predicted(f, blocks)
		if ok && (chosen == nil || surelyLess(errs, chosen)) {
			chosen, c.form = errs, f
		}
	}
	if chosen == nil {
		return nil, errors.New("the costs are no numbers above zero")
	}
	c.Form, c.Reason, c.Points = c.form.name, c.form.reason, slices.Concat(blocks...)
	c.fit(blocks)
	return c, nil
}

// predicted returns for each block the mean squared error, as a share, of the form fitted to the others.
func (c *Curve) predicted(f form, blocks [][]Point) (errs []float64, ok bool) {
	for left := range blocks {
		var others []Point
		for i, b := range blocks {
			if i != left {
				others = append(others, b...)
			}
		}
		k, ok := c.fitted(f, others)
		if !ok {
			return nil, false
		}
		var logs []float64
		for _, p := range blocks[left] {
			ratio := p.Cost / c.value(f, k, p.At)
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

// fit fits each block, and sets the deviation of trials from the curves.
func (c *Curve) fit(blocks [][]Point) {
	var sum float64
	for _, b := range blocks {
		k, ok := c.fitted(c.form, b)
		if !ok {
			continue
		}
		c.fits, c.blocks = append(c.fits, k), append(c.blocks, b[0].Block)
		for _, p := range b {
			ratio := p.Cost / c.value(c.form, k, p.At)
			off := ratio - 1
			if ratio > 0 { // in logarithms, one disturbed trial is not most of the noise
				off = math.Log(ratio)
			}
			sum += off * off
		}
		c.free += float64(len(b) - len(k))
	}
	c.free = max(1, c.free)
	c.Noise = math.Sqrt(sum / c.free)
}

// fitMean fits the mean of each block. Unlike the costs of other forms, some may be 0.
func (c *Curve) fitMean(blocks [][]Point) {
	c.form = form{"mean", "the same at every load", []term{fixed}}
	c.Form, c.Reason, c.Points = c.form.name, c.form.reason, slices.Concat(blocks...)
	var sum, squares float64
	for _, b := range blocks {
		var costs []float64
		for _, p := range b {
			costs = append(costs, p.Cost)
		}
		mean, n := stats.Mean(costs), float64(len(b)-1)
		c.fits, c.blocks, c.free = append(c.fits, []float64{mean}), append(c.blocks, b[0].Block), c.free+n
		if sum += mean; n > 0 {
			squares += n * stats.SD(costs) * stats.SD(costs)
		}
	}
	c.free = max(1, c.free)
	if sum > 0 {
		c.Noise = math.Sqrt(squares/c.free) / sum * float64(len(blocks))
	}
}

// Band is a cost at a rate. Low and High are of the mean over deployments, NewLow and NewHigh of one more deployment.
type Band struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	NewLow   float64 `json:"new_low"`
	NewHigh  float64 `json:"new_high"`
}

// At returns the cost at a level of each axis, the rate first. A level outside the measured range is refused.
func (c *Curve) At(at ...float64) (Band, error) {
	for i, a := range c.Axes {
		if at[i] >= a.From && at[i] <= a.To {
			continue
		}
		return Band{}, &OutsideError{Axis: a, At: at[i]}
	}
	var costs []float64
	for _, k := range c.fits {
		costs = append(costs, c.value(c.form, k, at))
	}
	mean, n, sd := stats.Mean(costs), float64(len(costs)), stats.SD(costs)
	half := stats.HalfWidth(sd, len(costs), c.Confidence)
	noise := c.Noise * mean
	v := newDeployment(sd*sd, c.fitVariance(c.parts(c.form, at)), noise*noise)
	v.add(variance{blocks: sd * sd / n})
	another := v.halfWidth(n-1, c.free, c.Confidence)
	return Band{mean, max(0, mean-half), mean + half, max(0, mean-another), mean + another}, nil
}

// fitVariance is the variance that the noise of trials causes in the curve of one deployment: in a sum of its factors with
// weights.
func (c *Curve) fitVariance(weights []float64) float64 {
	normal, ok := c.normal(c.form, c.Points)
	if !ok {
		return 0
	}
	for i, w := range weights {
		normal[i][len(weights)] = w
	}
	k, ok := solved(normal)
	if !ok {
		return 0
	}
	var sum float64
	for i, w := range weights {
		sum += w * k[i]
	}
	return sum * c.Noise * c.Noise * float64(len(c.fits)) // the points are of all deployments
}

// variance is the sum of estimates of two kinds: from deviations of blocks, and from deviations of trials in blocks, which
// are more. Estimates of blocks that are not independent are added.
type variance struct{ blocks, trials float64 }

func (v *variance) add(w variance) { v.blocks, v.trials = v.blocks+w.blocks, v.trials+w.trials }

func (v variance) times(by float64) variance { return variance{v.blocks * by, v.trials * by} }

func (v variance) sum() float64 { return v.blocks + v.trials }

// newDeployment is the variance of a trial of one more deployment. The curves of deployments deviate from one another also
// by the noise of their trials. That part is subtracted, because the new trial has noise of its own.
func newDeployment(between, fit, noise float64) variance {
	if between <= fit {
		return variance{trials: noise}
	}
	return variance{between, noise - fit}
}

// halfWidth is half of an interval, with the degrees of freedom of a sum of variances (Satterthwaite, 1946).
func (v variance) halfWidth(ofBlocks, ofTrials, confidence float64) float64 {
	all := v.sum()
	if all <= 0 {
		return 0
	}
	df := all * all / (v.blocks*v.blocks/ofBlocks + v.trials*v.trials/ofTrials)
	return stats.StudentHalfWidth(math.Sqrt(all), df, confidence)
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
func (c *Curve) fitted(f form, points []Point) ([]float64, bool) {
	normal, ok := c.normal(f, points)
	if !ok {
		return nil, false
	}
	return solved(normal)
}

// normal returns the normal equations, the right side last.
func (c *Curve) normal(f form, points []Point) ([][]float64, bool) {
	n := len(f.terms)
	normal := make([][]float64, n)
	for i := range normal {
		normal[i] = make([]float64, n+1)
	}
	for _, p := range points {
		if !(p.Cost > 0) {
			return nil, false
		}
		x := c.parts(f, p.At)
		for i := range n {
			for j := range n {
				normal[i][j] += x[i] * x[j] / (p.Cost * p.Cost)
			}
			normal[i][n] += x[i] / p.Cost
		}
	}
	return normal, true
}

func (c *Curve) value(f form, factors, at []float64) (sum float64) {
	for i, x := range c.parts(f, at) {
		sum += factors[i] * x
	}
	return sum
}

// parts are the terms of a form at a level of each axis.
func (c *Curve) parts(f form, at []float64) (parts []float64) {
	shares := make([]float64, len(at))
	for i, a := range c.Axes {
		if a.To > 0 {
			shares[i] = at[i] / a.To
		}
	}
	for _, t := range f.terms {
		parts = append(parts, t(shares))
	}
	return parts
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

// placesOf counts the combinations of levels.
func placesOf(points []Point) int {
	places := map[string]bool{}
	for _, p := range points {
		places[fmt.Sprint(p.At)] = true
	}
	return len(places)
}

// levelsOf returns the levels of an axis, the lowest first.
func levelsOf(points []Point, axis int) (levels []float64) {
	for _, p := range points {
		levels = append(levels, p.At[axis])
	}
	slices.Sort(levels)
	return slices.Compact(levels)
}
