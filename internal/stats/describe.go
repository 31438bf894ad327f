package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
)

// CV returns the coefficient of variation, SD over mean, or NaN if the mean is
// zero or there are fewer than two values.
func CV(x []float64) float64 {
	m := Mean(x)
	if m == 0 {
		return math.NaN()
	}
	return SD(x) / math.Abs(m)
}

// Mean returns the arithmetic mean, or NaN for no values.
func Mean(x []float64) float64 {
	return floats.Sum(x) / float64(len(x))
}

// SD returns the sample standard deviation (n-1), or NaN below two values.
func SD(x []float64) float64 {
	return math.Sqrt(covariance(x, x))
}

// Quantile returns the q-quantile, 0 <= q <= 1, interpolated between order
// statistics at 1+q(n-1): definition 7 of Hyndman, Fan, "Sample quantiles in
// statistical packages", The American Statistician 1996. x need not be sorted.
// NaN for no values or a q out of range.
func Quantile(x []float64, q float64) float64 {
	if len(x) == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	s := slices.Clone(x)
	slices.Sort(s)
	h := q * float64(len(s)-1)
	lo := int(math.Floor(h))
	if lo+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[lo] + (h-float64(lo))*(s[lo+1]-s[lo])
}

// finite reports whether every value is a number.
func finite(xs ...[]float64) bool {
	for _, x := range xs {
		for _, v := range x {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return false
			}
		}
	}
	return true
}

// noSpread reports whether x is constant except for rounding of its source values.
// scale is their size.
func noSpread(sd, scale float64) bool {
	return sd <= 1e-12*scale
}

func maxAbs(xs ...[]float64) float64 {
	m := 0.0
	for _, x := range xs {
		for _, v := range x {
			m = math.Max(m, math.Abs(v))
		}
	}
	return m
}

// The distributions and moments equal gonum's stat and distuv, digit for digit, and use gonum's special functions.
// The packages themselves bring linear algebra: 25 packages, a tenth of the time to build tare.

// tDistribution is Student's t distribution with that many degrees of freedom.
type tDistribution float64

func (nu tDistribution) cdf(x float64) float64 { return nu.survival(-x) }

// survival is 1 - cdf without the rounding of small tails.
func (nu tDistribution) survival(x float64) float64 {
	n := float64(nu)
	tail := 0.5 * mathext.RegIncBeta(n/2, 0.5, n/(x*x+n)) // beyond |x| on one side
	if x < 0 {
		return 1 - tail
	}
	return tail
}

func (nu tDistribution) quantile(p float64) float64 {
	n := float64(nu)
	t := mathext.InvRegIncBeta(n/2, 0.5, 2*math.Min(p, 1-p))
	return math.Copysign(math.Sqrt(n*(1-t)/t), p-0.5)
}

// FSurvival is the probability beyond x of the F distribution with d1 and d2 degrees of freedom.
func FSurvival(d1, d2, x float64) float64 {
	return 1 - mathext.RegIncBeta(d1/2, d2/2, d1*x/(d1*x+d2))
}

// Regression is the least-squares line of y on x. Its slope is NaN if all x are the same.
func Regression(x, y []float64) (intercept, slope float64) {
	slope = covariance(x, y) / covariance(x, x)
	return Mean(y) - slope*Mean(x), slope
}

// covariance is the sample covariance by the corrected two-pass algorithm
// (Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1.7).
// Of x with itself, it is the variance.
func covariance(x, y []float64) float64 {
	mx, my := Mean(x), Mean(y)
	var sum, cx, cy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		sum += dx * dy
		cx += dx
		cy += dy
	}
	n := float64(len(x))
	return (sum - cx*cy/n) / (n - 1)
}
