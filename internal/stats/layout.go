package stats

import (
	"math"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// layoutRounds bounds the alternating means of [LayoutContrast], which converge in a few where most cells are present.
const layoutRounds = 500

// LayoutContrast estimates the sum of weight·value over the cells of blocks and treatments, with an interval. A cell is
// missing if its value is NaN. The weights of a block must add up to zero, so that its level cancels.
//
// The noise of each treatment comes from the residuals of the additive model, block and treatment, fitted by alternating
// means (Scheffé, "The Analysis of Variance", 1959, 4.4). Noise may differ between treatments: the degrees of freedom of the
// sum are Satterthwaite's (Biometrics Bulletin 1946).
func LayoutContrast(values, weights [][]float64, confidence float64) Result {
	l := newLayout(values)
	r := Result{N: l.rows, SD: math.NaN(), Why: TooFew}
	largest := 0.0
	for b, row := range values {
		for s, v := range row {
			if !math.IsNaN(v) {
				r.Estimate += weights[b][s] * v
				largest = math.Max(largest, math.Abs(v))
			}
		}
	}
	if l.cells == 0 || l.freedom() < 1 {
		return r
	}
	variance, ok := l.variances(values)
	var sum, parts float64
	for s := range variance {
		squares := 0.0
		for b := range values {
			squares += square(weights[b][s])
		}
		if squares == 0 {
			continue
		}
		if !ok[s] {
			return r // one or two values of a treatment have no spread to rely on
		}
		part := squares * variance[s]
		sum += part
		parts += square(part) / float64(l.counts[s]-1)
	}
	if noSpread(math.Sqrt(sum), largest) {
		r.Why = NoSpread
		return r
	}
	r.Why = Computed
	r.fill(r.Estimate, math.Sqrt(sum), square(sum)/parts, confidence)
	return r
}

// layout counts the cells of blocks and treatments.
type layout struct {
	cells, rows, columns int   // with values
	counts               []int // by treatment
}

func newLayout(values [][]float64) layout {
	var l layout
	for _, row := range values {
		if l.counts == nil {
			l.counts = make([]int, len(row))
		}
		before := l.cells
		for s, v := range row {
			if !math.IsNaN(v) {
				l.cells++
				l.counts[s]++
			}
		}
		if l.cells > before {
			l.rows++
		}
	}
	for _, n := range l.counts {
		if n > 0 {
			l.columns++
		}
	}
	return l
}

// variances returns the variance of each treatment's residuals, scaled for the fitted parameters.
// They are not ok below [MinN] values.
func (l layout) variances(values [][]float64) (variance []float64, ok []bool) {
	residuals := additive(values)
	variance, ok = make([]float64, len(l.counts)), make([]bool, len(l.counts))
	scale := float64(l.cells) / float64(l.freedom())
	for s, n := range l.counts {
		for _, row := range residuals {
			if !math.IsNaN(row[s]) {
				variance[s] += square(row[s])
			}
		}
		variance[s] *= scale / float64(max(n, 1))
		ok[s] = n >= MinN
	}
	return variance, ok
}

// freedom is the number of residuals that the additive model leaves free.
func (l layout) freedom() int { return l.cells - l.rows - l.columns + 1 }

// additive returns the values without the levels of their blocks and treatments.
func additive(values [][]float64) [][]float64 {
	left := lists.Map(values, func(row []float64) []float64 { return append([]float64(nil), row...) })
	for range layoutRounds {
		moved := 0.0
		for _, row := range left {
			moved = math.Max(moved, center(len(row), func(s int) *float64 { return &row[s] }))
		}
		for s := range left[0] {
			moved = math.Max(moved, center(len(left), func(b int) *float64 { return &left[b][s] }))
		}
		if moved < 1e-12 {
			break
		}
	}
	return left
}

// center subtracts the mean of n cells from each, and returns its size against the largest cell.
func center(n int, at func(int) *float64) float64 {
	sum, count, largest := 0.0, 0, 0.0
	for i := range n {
		if v := *at(i); !math.IsNaN(v) {
			sum += v
			count++
			largest = math.Max(largest, math.Abs(v))
		}
	}
	if count == 0 || largest == 0 {
		return 0
	}
	mean := sum / float64(count)
	for i := range n {
		*at(i) -= mean
	}
	return math.Abs(mean) / largest
}
