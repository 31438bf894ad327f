package stats

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// Detectable is the smallest true value of r that a test at level alpha finds with the
// given power. It is in units of the estimate, or for a ratio of its logarithm. The
// interval comes from the interval of the standard deviation, at confidence: few
// observations estimate it badly. Not ok without an interval.
func (r Result) Detectable(alpha, power, confidence float64) (Interval, bool) {
	if !r.Known() || !(r.SE > 0) || !(r.DF >= 1) || !(alpha > 0 && alpha < 1) || !(power > alpha && power < 1) || !(confidence > 0 && confidence < 1) {
		return Interval{}, false
	}
	return DeviationInterval(noncentrality(r.DF, alpha, power)*r.SE, r.DF, confidence), true
}

// DeviationInterval is a standard deviation, or a multiple of one, with its interval: the
// variance of a normal sample is in proportion to chi-square.
func DeviationInterval(sd, df, confidence float64) Interval {
	i := Interval{Estimate: sd}
	tail := (1 - confidence) / 2
	i.set(sd*math.Sqrt(df/chiSquareQuantile(df, 1-tail)), sd*math.Sqrt(df/chiSquareQuantile(df, tail)))
	return i
}

// BlocksWithin is the number of pairs with which an estimate of reach standard deviations
// is significant at level alpha. Not ok beyond 100,000.
func BlocksWithin(reach, alpha float64) (int, bool) {
	for n := MinN; n <= maxPairs && alpha > 0; n += 1 + n/200 {
		if reach*math.Sqrt(float64(n)) >= tQuantile(float64(n-1), 1-alpha/2) {
			return n, true
		}
	}
	return 0, false
}

// BlocksFor is the number of pairs with which a test at level alpha finds a true
// difference of share standard deviations with the given power. Not ok from 100,000 on.
func BlocksFor(share, alpha, power float64) (int, bool) {
	if !(share > 0) || math.IsInf(share, 0) || !(alpha > 0 && alpha < 1) || !(power > alpha && power < 1) {
		return 0, false
	}
	n := sort.Search(maxPairs, func(n int) bool {
		return n >= MinN && testPower(share*math.Sqrt(float64(n)), float64(n-1), alpha) >= power
	})
	return n, n < maxPairs
}

// BlocksToShow is the number of observations with which the estimate and the spread of r
// would be significant at level alpha. It rests on the observed estimate, which chance has
// moved: an order of magnitude. Not ok without an interval, or beyond 100,000.
func BlocksToShow(r Result, alpha float64) (int, bool) {
	if !r.Known() || !(r.SE > 0) || r.P == nil || !(alpha > 0 && alpha < 1) {
		return 0, false
	}
	now := tDistribution(r.DF).quantile(1 - *r.P/2) // the estimate in standard errors
	for n := r.N; n <= maxPairs; n += 1 + n/200 {
		df := r.DF + float64(n-r.N)
		if now*math.Sqrt(float64(n)/float64(r.N)) >= tQuantile(df, 1-alpha/2) {
			return n, true
		}
	}
	return 0, false
}

// AtLevel is a symmetric interval of n observations, widened to one minus level. p is the p-value of the estimate
// against none: the interval excludes none only if p is below level. It is never narrower than i.
func AtLevel(i Interval, none, p, level float64, n int) Interval {
	if !i.Known() || n < MinN || !(p > 0 && p < 1) || !(level > 0 && level < 1) {
		return i
	}
	df := float64(n - 1)
	half := math.Abs(i.Estimate-none) * tQuantile(df, 1-level/2) / tQuantile(df, 1-p/2)
	wide := Interval{Estimate: i.Estimate}
	wide.set(math.Min(*i.Low, i.Estimate-half), math.Max(*i.High, i.Estimate+half))
	return wide
}

// ShareFor is the true difference, in standard deviations, that n pairs find at level
// alpha with the given power. Not ok below [MinN] pairs.
func ShareFor(n int, alpha, power float64) (float64, bool) {
	if n < MinN || !(alpha > 0 && alpha < 1) || !(power > alpha && power < 1) {
		return 0, false
	}
	return noncentrality(float64(n-1), alpha, power) / math.Sqrt(float64(n)), true
}

func chiSquareQuantile(df, p float64) float64 { return 2 * mathext.GammaIncRegInv(df/2, p) }

// noncentralities that were computed, by degrees of freedom, level and power.
var noncentralities memo[[3]float64]

// noncentrality is the true value in standard errors that a test finds with the given
// power. Fractional degrees of freedom are rounded down to an eighth.
func noncentrality(df, alpha, power float64) float64 {
	df = math.Max(1, math.Floor(df*8)/8)
	return noncentralities.value([3]float64{df, alpha, power}, func() float64 {
		low, high := 0.0, 2*(tQuantile(df, 1-alpha/2)+tQuantile(df, power))
		for testPower(high, df, alpha) < power {
			low, high = high, 2*high
		}
		for high-low > 1e-4*high {
			if mid := (low + high) / 2; testPower(mid, df, alpha) < power {
				low = mid
			} else {
				high = mid
			}
		}
		return high
	})
}

// testPower is the chance that Student's two-sided test at level alpha rejects. The true
// value is delta standard errors from zero. It is the noncentral t distribution, integrated
// over the estimated deviation (Owen, Technometrics 1968). The usual sum of two quantiles of the
// central t is off by several points at five pairs and small levels.
func testPower(delta, df, alpha float64) float64 {
	c := tQuantile(df, 1-alpha/2)
	// s is the estimated over the true deviation: a chi with df degrees of freedom over √df. Over its logarithm the trapezoid
	// rule converges exponentially, and its error is below 1e-10 with these steps.
	step := min(0.12, 1/(1.5*math.Sqrt(2*df+delta*delta)))
	lg, _ := math.Lgamma(df / 2)
	scale := math.Ln2 + df/2*math.Log(df/2) - lg
	sum := 0.0
	for u := math.Log(1 + 9/math.Sqrt(df)); u > -1-30/df; u -= step {
		s := math.Exp(u)
		sum += math.Exp(scale+df*(u-s*s/2)) * (normal(delta-c*s) + normal(-delta-c*s))
	}
	return math.Min(1, sum*step)
}

// normal is the standard normal distribution function.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
