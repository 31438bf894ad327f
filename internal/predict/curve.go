// Package predict reads costs off curves through the deployments of a run, at rates that were not measured.
package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
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

	fitted
	rivals []fitted // other forms of the rate that the blocks do not exclude
	misfit float64  // largest deviation from the form that the blocks agree about, as a share; 0 if that is noise
	blocks []int    // numbers of the blocks
	free   float64  // degrees of freedom of Noise
}

// fitted is a form with the factors of each block.
type fitted struct {
	form form
	fits [][]float64
}

// form is a shape of cost: the sum of terms with a factor each.
type form struct {
	name, reason string
	terms        []term
	ends         func(levels []float64) (low, high []float64) // weights of the lowest and the highest cost that is possible, nil for one
	others       string                                       // reason of the terms of other axes than the rate
	bent         string                                       // what the last term of the rate does to the work of a request, whatever its cause; of a negative factor the opposite
}

// term is a part of a cost. Levels are shares of the highest of their axis, the rate first.
type term func(levels []float64) float64

func fixed([]float64) float64             { return 1 }
func perRequest(levels []float64) float64 { return levels[0] }

// Bends of a curve over the rate.
const (
	falls = "falls"
	grows = "grows"
)

// bend is the third term of the forms of the rate that have one.
const bend = 2

// rateForms are tried in this order: a later one must predict better than those before it.
var rateForms = []form{
	{name: "line", reason: "fixed work, and the same work for every request", terms: []term{fixed, perRequest}},
	{name: "wake-ups", reason: "fixed work, work for every request, and wake-ups, which requests share as they become more", bent: falls, terms: []term{fixed, perRequest, func(x []float64) float64 { return math.Sqrt(x[0]) }}},
	{name: "contention", reason: "fixed work, and work for every request that grows as requests wait for one another", bent: grows, terms: []term{fixed, perRequest, func(x []float64) float64 { return x[0] * x[0] }}},
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
				others := f.others + "; " + more.reason
				all = append(all, form{f.name, f.reason, slices.Concat(f.terms, more.terms), nil, others, f.bent})
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
	// knownRates is the number from which the form between the rates can be excluded: one more than a form has terms.
	knownRates = 4
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
	if !c.choose(blocks, needed) {
		return nil, errors.New("the costs are no numbers above zero")
	}
	return c, nil
}

// candidate is a form that could be that of the curve.
type candidate struct {
	form
	errs []float64 // squared errors of each block, predicted from the others
	fit  fit
}

// choose sets the form, its rivals and the fits. A form that the blocks exclude is left out. Without any other, and with
// too few rates to exclude one, the curve is known at the rates alone.
func (c *Curve) choose(blocks [][]Point, needed int) (ok bool) {
	places, numbers := numbered(blocks)
	var best, nearest *candidate // nearest: also of forms that are excluded
	var all []candidate
	for _, f := range formsOver(c.Axes) {
		if len(f.terms) > needed { // a deployment would not determine it, or it would go through every point
			continue
		}
		errs, ok := c.predicted(f, blocks)
		if !ok {
			continue
		}
		next := candidate{f, errs, c.fitOf(f, blocks, numbers)}
		if nearest == nil || surelyLess(errs, nearest.errs) {
			nearest = &next
		}
		if next.fit.excluded() {
			continue
		}
		all = append(all, next)
		if best == nil || surelyLess(errs, best.errs) {
			best = &next
		}
	}
	if nearest == nil {
		return false
	}
	c.Points = slices.Concat(blocks...)
	few := c.Axes[0].Name == experiment.RateFactor && c.Axes[0].Levels < knownRates
	excluded := best == nil && nearest.fit.most() > slightMisfit
	if (excluded || few) && len(places) == c.Axes[0].Levels {
		c.fitBetween(nearest, places)
		if few {
			c.Reason = c.fewRates()
		}
		return true
	}
	if best == nil {
		best, c.misfit = nearest, nearest.fit.most()
	}
	c.form, c.fits, c.blocks, c.Form = best.form, best.fit.fits, best.fit.blocks, best.name
	c.Noise, c.free = best.fit.noise()
	for _, r := range all {
		if r.name != best.name && r.others == best.others && !surelyLess(best.errs, r.errs) {
			c.rivals = append(c.rivals, fitted{r.form, r.fit.fits})
		}
	}
	c.Reason = c.reason()
	if few {
		c.openBetween()
	}
	return true
}

// reason is the reason of the form, if its factors have the signs of work and no other form bends as well. Otherwise it is
// the bend alone.
func (c *Curve) reason() string {
	reason := c.form.reason
	if c.misfit > 0 {
		reason = fmt.Sprintf("of unknown form: the nearest misses it by up to %.1f %%, in the blocks alike", 100*c.misfit)
	} else if c.form.bent != "" {
		rival := slices.ContainsFunc(c.rivals, func(r fitted) bool { return r.form.bent != "" })
		var perRequest, bent []float64
		for _, k := range c.fits {
			perRequest, bent = append(perRequest, k[bend-1]), append(bent, k[bend])
		}
		way := c.form.bent
		if stats.Mean(bent) < 0 {
			way = map[string]string{falls: grows, grows: falls}[way]
		}
		if rival || way != c.form.bent || stats.Mean(perRequest) < 0 {
			reason = fmt.Sprintf("fixed work, and work for every request that %s with the rate, for an unknown reason", way)
		}
	}
	return reason + c.form.others
}

// predicted returns for each block the mean squared error, as a share, of the form fitted to the others.
func (c *Curve) predicted(f form, blocks [][]Point) (errs []float64, ok bool) {
	for left := range blocks {
		others := slices.Delete(slices.Clone(blocks), left, left+1)
		k, ok := c.fitTo(f, slices.Concat(others...))
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

// fitMean fits the mean of each block. Unlike the costs of other forms, some may be 0.
func (c *Curve) fitMean(blocks [][]Point) {
	c.form = form{name: "mean", reason: "the same at every load", terms: []term{fixed}}
	c.Form, c.Reason, c.Points = c.form.name, c.form.reason, slices.Concat(blocks...)
	var sum, squares float64
	for _, b := range blocks {
		costs := lists.Map(b, func(p Point) float64 { return p.Cost })
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
	b := c.bandOf(c.fitted, c.parts(c.form, at))
	for _, r := range c.rivals {
		b.widen(c.bandOf(r, c.parts(r.form, at)))
	}
	if c.form.ends != nil {
		low, high := c.form.ends(c.shares(at))
		b.widen(c.bandOf(c.fitted, low))
		b.widen(c.bandOf(c.fitted, high))
	}
	return b.add(betweenRates * c.misfit * b.Estimate), nil
}

// bandOf is the band of a sum of the factors of a form with weights.
func (c *Curve) bandOf(f fitted, weights []float64) Band {
	costs := lists.Map(f.fits, func(k []float64) float64 { return weighted(k, weights) })
	mean, n, sd := stats.Mean(costs), float64(len(costs)), stats.SD(costs)
	half := stats.HalfWidth(sd, len(costs), c.Confidence)
	noise := c.Noise * mean
	v := newDeployment(sd*sd, min(c.fitVariance(f.form, weights), noise*noise), noise*noise) // ends may vary more than a trial
	v.add(variance{blocks: sd * sd / n})
	another := v.halfWidth(n-1, c.free, c.Confidence)
	return Band{mean, max(0, mean-half), mean + half, max(0, mean-another), mean + another}
}

// widen widens the band to that of another form which the blocks do not exclude.
func (b *Band) widen(by Band) {
	b.Low, b.High, b.NewLow, b.NewHigh = min(b.Low, by.Low), max(b.High, by.High), min(b.NewLow, by.NewLow), max(b.NewHigh, by.NewHigh)
}

// add widens the band by a bound on both sides.
func (b Band) add(bound float64) Band {
	return Band{b.Estimate, max(0, b.Low-bound), b.High + bound, max(0, b.NewLow-bound), b.NewHigh + bound}
}

// fitVariance is the variance that the noise of trials causes in the curve of one deployment: in a sum of its factors with
// weights.
func (c *Curve) fitVariance(f form, weights []float64) float64 {
	normal, ok := c.normal(f, c.Points)
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
	return weighted(k, weights) * c.Noise * c.Noise * float64(len(c.fits)) // the points are of all deployments
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

// fitTo returns the factors of the least-squares fit of points, with errors as shares of the cost.
func (c *Curve) fitTo(f form, points []Point) ([]float64, bool) {
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

func (c *Curve) value(f form, factors, at []float64) float64 {
	return weighted(factors, c.parts(f, at))
}

func weighted(factors, weights []float64) (sum float64) {
	for i, w := range weights {
		sum += factors[i] * w
	}
	return sum
}

// parts are the terms of a form at a level of each axis.
func (c *Curve) parts(f form, at []float64) []float64 {
	shares := c.shares(at)
	return lists.Map(f.terms, func(t term) float64 { return t(shares) })
}

// shares are levels as shares of the highest of their axis.
func (c *Curve) shares(at []float64) []float64 {
	shares := make([]float64, len(at))
	for i, a := range c.Axes {
		if a.To > 0 {
			shares[i] = at[i] / a.To
		}
	}
	return shares
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

func placesOf(points []Point) int {
	places := lists.Set(points, func(p Point) string { return fmt.Sprint(p.At) })
	return len(places)
}

// levelsOf returns the levels of an axis, the lowest first.
func levelsOf(points []Point, axis int) (levels []float64) {
	levels = lists.Map(points, func(p Point) float64 { return p.At[axis] })
	slices.Sort(levels)
	return slices.Compact(levels)
}
