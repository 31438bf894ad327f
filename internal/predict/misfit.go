package predict

import (
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/stats"
)

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
