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

// Power is the chance of showing a difference of the detectable size that
// [MinDetectable] is asked for by reports: the customary 80 % (Cohen,
// "Statistical Power Analysis for the Behavioral Sciences", 1988).
const Power = 0.8

// ExtraBlocks are run after a run that may stop early has reached its width. A
// width is reached where the deviation happens to be small, and an interval from
// that moment covers less than its confidence: 0.924 for 0.95 in the simulation of this
// package. A fixed number of further observations corrects it (Simons, "On the cost
// of not knowing the variance when making a fixed-width confidence interval for
// the mean", Annals of Mathematical Statistics 1968).
const ExtraBlocks = 2

// MinDetectable returns the smallest true mean difference that a test at level
// alpha over n observations of standard deviation sd finds with the given power.
// It is (t_{1-alpha/2} + t_{power})·sd/√n with n-1 degrees of freedom, the usual
// approximation to the noncentral t (NIST/SEMATECH e-Handbook, 7.2.2.2). With three observations it is 5 % too
// low, and its error vanishes with their number. [Result.Detectable] has the noncentral t itself.
// Not ok below [MinN] observations or without spread.
func MinDetectable(sd float64, n int, alpha, power float64) (float64, bool) {
	if n < MinN || !(sd > 0) || math.IsInf(sd, 0) || !(alpha > 0 && alpha < 1) || !(power > 0 && power < 1) {
		return 0, false
	}
	df := float64(n - 1)
	return (tQuantile(df, 1-alpha/2) + tQuantile(df, power)) * sd / math.Sqrt(float64(n)), true
}

// maxPairs bounds what [PairsFor] answers.
const maxPairs = 100_000

// PairsFor returns the number of pairs for a half-width of half in the interval of a
// mean difference. n pairs gave halfNow, in the same unit. It assumes the spread of
// those few pairs, which is itself uncertain: with five pairs the result is an order
// of magnitude. Not ok below [MinN] pairs,
// without spread, or beyond 100,000.
func PairsFor(halfNow float64, n int, half, confidence float64) (int, bool) {
	if n < MinN || !(halfNow > 0) || !(half > 0) || math.IsInf(halfNow, 0) || !(confidence > 0 && confidence < 1) {
		return 0, false
	}
	q := 1 - (1-confidence)/2
	sd := halfNow * math.Sqrt(float64(n)) / tQuantile(float64(n-1), q)
	for m := MinN; m <= maxPairs; m += 1 + m/200 {
		if tQuantile(float64(m-1), q)*sd/math.Sqrt(float64(m)) <= half {
			return m, true
		}
	}
	return 0, false
}

// HalfWidth is half of the interval of the mean of n observations with a standard deviation. It is
// infinite below two.
func HalfWidth(sd float64, n int, confidence float64) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	return StudentHalfWidth(sd/math.Sqrt(float64(n)), float64(n-1), confidence)
}

// StudentHalfWidth is half of the interval of an estimate whose standard error has degrees of freedom.
func StudentHalfWidth(se, df, confidence float64) float64 {
	return tQuantile(df, 1-(1-confidence)/2) * se
}

// WelchDetectable is [MinDetectable] for unpaired samples: the smallest true
// difference of means that [Welch]'s test at level alpha finds with the given
// power. Not ok if there is no interval.
func WelchDetectable(treatment, baseline []float64, alpha, power float64) (float64, bool) {
	r := Welch(treatment, baseline, 1-alpha)
	half, ok := r.HalfWidth()
	if !ok || !(power > 0 && power < 1) {
		return 0, false
	}
	df := welchFreedom(treatment, baseline)
	return half / tQuantile(df, 1-alpha/2) * (tQuantile(df, 1-alpha/2) + tQuantile(df, power)), true
}

// ShareBound is the exact upper bound of a share of which k were seen in n (Clopper, Pearson, Biometrika 1934). It is
// exceeded with probability alpha.
func ShareBound(k, n int64, alpha float64) float64 {
	return Count{K: float64(k), N: float64(n)}.upper(alpha)
}

// Count is a number of events among requests.
type Count struct {
	K, N float64 // N > 0. They are whole before [Count.Dispersed].
	// Scale is the quantity that a share of 1 stands for, such as requests of a trial.
	Scale float64
}

// Share is the share of events, 0..1.
func (c Count) Share() float64 { return c.K / c.N }

// Value is the share in the unit of Scale.
func (c Count) Value() float64 { return c.Scale * c.Share() }

// upper and lower are the bounds of Clopper and Pearson, each wrong with probability alpha at most.
func (c Count) upper(alpha float64) float64 {
	switch {
	case c.K <= 0:
		return -math.Expm1(math.Log(alpha) / c.N)
	case c.K >= c.N:
		return 1
	}
	return mathext.InvRegIncBeta(c.K+1, c.N-c.K, 1-alpha)
}

func (c Count) lower(alpha float64) float64 { return 1 - Count{K: c.N - c.K, N: c.N}.upper(alpha) }

// Dispersed is the sum of counts of trials as if its events were independent. Where trials differ by more than chance,
// events and requests are divided by the ratio of the variances: Pearson's chi-square over its degrees of freedom
// (McCullagh, Nelder, "Generalized Linear Models", 1989, 4.5). Scale is the mean weighted by requests.
func Dispersed(trials []Count) Count {
	var sum Count
	for _, t := range trials {
		sum.K, sum.N, sum.Scale = sum.K+t.K, sum.N+t.N, sum.Scale+t.N*t.Scale
	}
	if sum.N == 0 {
		return sum
	}
	sum.Scale /= sum.N
	chi, share := 0.0, sum.Share()
	if len(trials) < 2 || share <= 0 || share >= 1 {
		return sum
	}
	for _, t := range trials {
		if t.N > 0 {
			chi += square(t.K-t.N*share) / (t.N * share * (1 - share))
		}
	}
	ratio := math.Max(1, chi/float64(len(trials)-1))
	sum.K, sum.N = sum.K/ratio, sum.N/ratio
	return sum
}

// CountDifference bounds the difference of the values of two counts, treatment less baseline. Each bound is wrong with
// probability alpha at most. The distances of the bounds of Clopper and Pearson are added as squares (Newcombe,
// Statistics in Medicine 1998; Zou, Donner, Statistics in Medicine 2008). shares_test.go has the exact error.
func CountDifference(treatment, baseline Count, alpha float64) Interval {
	t, b := treatment.Share(), baseline.Share()
	away := func(c, against float64) float64 { return math.Hypot(treatment.Scale*c, baseline.Scale*against) }
	i := Interval{Estimate: treatment.Value() - baseline.Value()}
	i.set(i.Estimate-away(t-treatment.lower(alpha), baseline.upper(alpha)-b),
		i.Estimate+away(treatment.upper(alpha)-t, b-baseline.lower(alpha)))
	return i
}

// CountRatio bounds the ratio of the values of two counts of rare events, treatment over baseline. Given their sum, the
// events of the treatment are a binomial share of it (Przyborowski, Wilenski, Biometrika 1940). It has no High, and its
// estimate is infinite, where the baseline has no event.
func CountRatio(treatment, baseline Count, alpha float64) Interval {
	all := Count{K: treatment.K, N: treatment.K + baseline.K}
	exposure := baseline.N / treatment.N * treatment.Scale / baseline.Scale
	odds := func(share float64) float64 { return share / (1 - share) * exposure }
	i := Interval{Estimate: treatment.Value() / baseline.Value()}
	if all.N == 0 {
		i.Estimate = math.NaN()
		return i
	}
	low := odds(all.lower(alpha))
	if i.Low = &low; baseline.K > 0 {
		i.High = new(odds(all.upper(alpha)))
	}
	return i
}
