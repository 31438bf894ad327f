package stats

import (
	"math"
	"slices"
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
	if len(x) == 0 {
		return math.NaN()
	}
	return mean(x)
}

// SD returns the sample standard deviation (n-1), or NaN below two values.
func SD(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
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
