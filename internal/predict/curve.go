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
	levels, blocks := len(lists.Set(points, func(p Point) string { return fmt.Sprint(p.At) })), grouped(points)
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

// levelsOf returns the levels of an axis, the lowest first.
func levelsOf(points []Point, axis int) (levels []float64) {
	levels = lists.Map(points, func(p Point) float64 { return p.At[axis] })
	slices.Sort(levels)
	return slices.Compact(levels)
}

// fit is a form fitted to each block, and the deviations from it.
type fit struct {
	fits   [][]float64
	blocks []int
	agreed []float64 // mean deviation of the blocks at each place, as a logarithm

	misfit, pure         float64 // sums of squares: of the agreed deviations, and of the rest in blocks
	misfitFree, pureFree float64 // their degrees of freedom
}

// fitOf fits a form to each block. places are the numbers of the places of the points of each block.
func (c *Curve) fitOf(f form, blocks [][]Point, places [][]int) (x fit) {
	var off [][]float64
	var points float64
	for i, b := range blocks {
		k, ok := c.fitTo(f, b)
		if !ok {
			continue
		}
		x.fits, x.blocks = append(x.fits, k), append(x.blocks, b[0].Block)
		points += float64(len(b) - len(k))
		for j, p := range b {
			ratio := p.Cost / c.value(f, k, p.At)
			d := ratio - 1
			if ratio > 0 { // in logarithms, one disturbed trial is not most of the noise
				d = math.Log(ratio)
			}
			for len(off) <= places[i][j] {
				off = append(off, nil)
			}
			off[places[i][j]] = append(off[places[i][j]], d)
		}
	}
	for _, all := range off {
		mean, n := 0.0, float64(len(all))
		if n > 0 {
			mean = stats.Mean(all)
			x.misfitFree++
		}
		x.agreed = append(x.agreed, mean)
		x.misfit += n * mean * mean
		for _, d := range all {
			x.pure += (d - mean) * (d - mean)
		}
	}
	x.misfitFree -= float64(len(f.terms))
	x.pureFree = points - x.misfitFree
	return x
}

const (
	misfitError  = 0.05  // of the test of lack of fit
	leastMisfit  = 1e-3  // a share: agreed deviations below are none
	slightMisfit = 0.015 // a share: up to it, a form is kept if no other fits
	// betweenRates is by how much more a form may deviate between rates than at them: 1.5 times if the cost is smooth, 1 to 4
	// times if it has a kink.
	betweenRates = 4
)

// excluded reports whether blocks agree about a deviation from the form by more than they differ: the F test of lack of fit
// against the pure error.
func (x fit) excluded() bool {
	if x.misfitFree < 1 || x.pureFree < 1 || x.most() < leastMisfit {
		return false
	}
	return stats.FSurvival(x.misfitFree, x.pureFree, x.misfit/x.misfitFree/(x.pure/x.pureFree)) < misfitError
}

// most is the largest deviation that the blocks agree about.
func (x fit) most() (most float64) {
	return lists.Most(x.agreed, math.Abs)
}

// noise is the standard deviation of trials around the curves of their blocks, and its degrees of freedom.
func (x fit) noise() (sd, free float64) {
	free = max(1, x.misfitFree+x.pureFree)
	return math.Sqrt((x.misfit + x.pure) / free), free
}

// numbered returns the numbers of the places of points, also of the points of each block.
func numbered(blocks [][]Point) (places map[string]int, of [][]int) {
	places = map[string]int{}
	for _, b := range blocks {
		var numbers []int
		for _, p := range b {
			key := fmt.Sprint(p.At)
			if _, ok := places[key]; !ok {
				places[key] = len(places)
			}
			numbers = append(numbers, places[key])
		}
		of = append(of, numbers)
	}
	return places, of
}

// fitBetween sets the curve that is known at the levels of its first axis alone. A block without a trial at one has what the
// nearest form predicts, with the deviation of the other blocks.
func (c *Curve) fitBetween(nearest *candidate, places map[string]int) {
	levels := levelsOf(c.Points, 0)
	x := nearest.fit
	c.blocks = x.blocks
	c.free = max(1, x.pureFree)
	c.Noise = math.Sqrt(x.pure / c.free)
	means := make([]float64, len(levels))
	for i, block := range x.blocks {
		costs := make([]float64, len(levels))
		for j, level := range levels {
			at := slices.Clone(c.Points[0].At)
			at[0] = level
			measured := slices.IndexFunc(c.Points, func(p Point) bool { return p.Block == block && p.At[0] == level })
			if measured >= 0 {
				costs[j] = c.Points[measured].Cost
			} else {
				costs[j] = c.value(nearest.form, x.fits[i], at) * math.Exp(x.agreed[places[fmt.Sprint(at)]])
			}
			means[j] += costs[j] / float64(len(x.blocks))
		}
		c.fits = append(c.fits, costs)
	}
	shares := lists.Map(levels, func(level float64) float64 { return level / c.Axes[0].To })
	between := between{shares, means}
	c.form = form{name: formBetween, ends: between.ends}
	for j := range levels {
		c.form.terms = append(c.form.terms, func(x []float64) float64 {
			low, high := between.ends(x)
			return (low[j] + high[j]) / 2
		})
	}
	c.Form = formBetween
	c.Reason = fmt.Sprintf("of unknown form between the measured rates: the nearest, %s, misses them by up to %.1f %%, in the blocks alike", nearest.name, 100*x.most())
}

// fewRates is the reason of a curve through too few rates to exclude a form.
func (c *Curve) fewRates() string {
	return fmt.Sprintf("of unknown form between the measured rates: %d rates fit any, and a fourth would exclude some", c.Axes[0].Levels)
}

// openBetween leaves open what a form with other axes costs between too few rates: at each level of these axes the form has costs
// at the measured rates alone.
func (c *Curve) openBetween() {
	chosen, fits := c.form, c.fits
	rates := lists.Map(levelsOf(c.Points, 0), func(rate float64) float64 { return rate / c.Axes[0].To })
	c.Form, c.Reason = formBetween, c.fewRates()+chosen.others
	c.form.ends = func(x []float64) (low, high []float64) {
		var parts [][]float64 // of the form at each measured rate
		costs := make([]float64, len(rates))
		for i, rate := range rates {
			at := slices.Clone(x)
			at[0] = rate
			of := lists.Map(chosen.terms, func(t term) float64 { return t(at) })
			parts = append(parts, of)
			for _, k := range fits {
				costs[i] += weighted(k, of) / float64(len(fits))
			}
		}
		sum := func(weights []float64) []float64 {
			all := make([]float64, len(chosen.terms))
			for i, w := range weights {
				for j, p := range parts[i] {
					all[j] += w * p
				}
			}
			return all
		}
		low, high = between{rates, costs}.ends(x)
		return sum(low), sum(high)
	}
}

// gap is half of what the curve leaves open at a place.
func (c *Curve) gap(at []float64) (gap float64) {
	n := float64(len(c.fits))
	for _, k := range c.fits {
		gap += betweenRates * c.misfit * c.value(c.form, k, at) / n
		if c.form.ends != nil {
			low, high := c.form.ends(c.shares(at))
			gap += (weighted(k, high) - weighted(k, low)) / 2 / n
		}
	}
	return gap
}

// formBetween is the name of the form of a curve that is known at its levels alone.
const formBetween = "between"

// between has the mean costs at levels, the lowest first. Between two levels, a cost that bends one way lies between the
// line through both and the nearer of the lines through the next two levels on each side. If these lie on both sides, it lies
// between them. A cost that grows from one level to the next lies between both.
type between struct{ levels, costs []float64 }

// ends returns the weights of costs at levels for the lowest and the highest cost at a level.
func (b between) ends(at []float64) (low, high []float64) {
	x := at[0]
	n := len(b.levels)
	i, found := slices.BinarySearch(b.levels, x)
	if found || i == 0 || i == n {
		one := b.one(min(i, n-1))
		return one, one
	}
	chord := b.line(i-1, i, x)
	low, high = chord, chord
	var lows, highs [][]float64
	if b.costs[i] >= b.costs[i-1] {
		lows, highs = append(lows, b.one(i-1)), append(highs, b.one(i))
	}
	if ray := x / b.levels[0]; i == 1 && b.levels[0] > 0 { // fixed work is not below 0
		first := b.one(0)
		first[0] = ray
		if b.cost(first) > b.cost(chord) {
			highs = append(highs, first)
		}
	}
	below, above := false, false
	for _, j := range []int{i - 2, i + 1} {
		if j < 0 || j >= n {
			continue
		}
		next := min(max(j, i-1), i) // the end of the interval that is nearer
		line := b.line(min(j, next), max(j, next), x)
		if b.cost(line) < b.cost(chord) {
			lows, below = append(lows, line), true
		} else {
			highs, above = append(highs, line), true
		}
	}
	byCost := func(a, c []float64) int {
		if b.cost(a) < b.cost(c) {
			return -1
		}
		return 1
	}
	if below {
		low = slices.MaxFunc(lows, byCost)
	}
	if above {
		high = slices.MinFunc(highs, byCost)
	}
	return low, high
}

func (b between) cost(weights []float64) float64 { return weighted(b.costs, weights) }

func (b between) one(i int) []float64 {
	w := make([]float64, len(b.levels))
	w[i] = 1
	return w
}

// line are the weights of the line through two levels.
func (b between) line(i, j int, x float64) []float64 {
	w := make([]float64, len(b.levels))
	w[j] = (x - b.levels[i]) / (b.levels[j] - b.levels[i])
	w[i] = 1 - w[j]
	return w
}
