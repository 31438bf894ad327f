package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

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
