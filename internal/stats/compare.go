package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// PairedDifference estimates the mean of treatment[i]-baseline[i] with
// Student's interval and test on the differences. SD is theirs.
func PairedDifference(treatment, baseline []float64, confidence float64) Result {
	return student(less(treatment, baseline), confidence, maxAbs(treatment, baseline))
}

// less returns x[i]-y[i].
func less(x, y []float64) []float64 { return floats.SubTo(make([]float64, len(x)), x, y) }

// PairedRatio estimates the geometric mean of treatment[i]/baseline[i], with
// Student's interval on the logarithms carried back. Ratios of benchmarks are
// averaged geometrically, so that the answer does not depend on which of the
// two is called the baseline (Fleming, Wallace, "How not to lie with
// statistics", CACM 1986). Its estimate is NaN where a value is not above zero.
func PairedRatio(treatment, baseline []float64, confidence float64) Result {
	l := make([]float64, len(treatment))
	for i := range l {
		if !(treatment[i] > 0) || !(baseline[i] > 0) {
			return Result{Interval: Interval{Estimate: math.NaN()}, N: len(treatment), SD: math.NaN(), Why: NotPositive}
		}
		l[i] = math.Log(treatment[i] / baseline[i])
	}
	// The logarithm of a ratio near one has the rounding error of its operands, of relative size one.
	return student(l, confidence, 1).exp()
}

// GeometricMean estimates the mean of logarithms, carried back.
func GeometricMean(logarithms []float64, confidence float64) Result {
	return student(logarithms, confidence, 1).exp()
}

// WelchRatio is [Welch] on logarithms: the ratio of geometric means.
func WelchRatio(treatment, baseline []float64, confidence float64) Result {
	la, oka := logs(treatment)
	lb, okb := logs(baseline)
	if !oka || !okb {
		return Result{Interval: Interval{Estimate: math.NaN()}, N: min(len(treatment), len(baseline)), SD: math.NaN(), Why: NotPositive}
	}
	return Welch(la, lb, confidence).exp()
}

// Welch estimates mean(treatment)-mean(baseline) of unpaired samples whose
// variances may differ, with the degrees of freedom of Welch, "The
// generalization of Student's problem", Biometrika 1947. N is the smaller
// sample's, and SD is the root of the sum of the two variances.
func Welch(treatment, baseline []float64, confidence float64) Result {
	na, nb := float64(len(treatment)), float64(len(baseline))
	va, vb := square(SD(treatment)), square(SD(baseline))
	r := Result{N: min(len(treatment), len(baseline)), SD: math.Sqrt(va + vb)}
	r.Estimate = Mean(treatment) - Mean(baseline)
	switch {
	case !finite(treatment, baseline):
		r.Why = NotFinite
	case r.N < MinN:
		r.Why = TooFew
	case noSpread(r.SD, maxAbs(treatment, baseline)):
		r.Why = NoSpread
	default:
		r.fill(r.Estimate, math.Sqrt(va/na+vb/nb), welchFreedom(treatment, baseline), confidence)
	}
	return r
}

// welchFreedom is the degrees of freedom of [Welch].
func welchFreedom(a, b []float64) float64 {
	na, nb := float64(len(a)), float64(len(b))
	sa, sb := square(SD(a))/na, square(SD(b))/nb
	return square(sa+sb) / (square(sa)/(na-1) + square(sb)/(nb-1))
}

func logs(x []float64) ([]float64, bool) {
	l := make([]float64, len(x))
	for i, v := range x {
		if !(v > 0) {
			return nil, false
		}
		l[i] = math.Log(v)
	}
	return l, true
}

func square(v float64) float64 { return v * v }

// Within tests whether a ratio lies between 1/(1+margin) and 1+margin: two one-sided tests on its logarithm
// (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 1987). p is the
// larger of the two p-values. p < alpha shows that the ratio is within the margin.
// This is equivalent to its interval at 1-2·alpha lying within the margin. Not ok
// without an interval.
func (r Result) Within(margin float64) (p float64, ok bool) {
	if !r.Known() {
		return 0, false
	}
	t, estimate, bound := tDistribution(r.DF), math.Log(r.Estimate), math.Log1p(margin)
	return math.Max(t.survival((estimate+bound)/r.SE), t.survival((bound-estimate)/r.SE)), true
}

// SignedRank is the one-sided p-value of "x is symmetric around a value of zero or more": Wilcoxon's signed-rank test
// (Biometrics Bulletin 1945), exact without ties. It looks at ranks, so no single value decides it. Zeros are left out.
func SignedRank(x []float64) float64 {
	var sizes []float64
	for _, v := range x {
		if v != 0 {
			sizes = append(sizes, math.Abs(v))
		}
	}
	n := len(sizes)
	if n == 0 {
		return 1
	}
	positive := 0.0 // the sum of the ranks of values above zero; ties share their ranks
	for _, v := range x {
		if v <= 0 {
			continue
		}
		below, equal := 0.0, 0.0
		for _, size := range sizes {
			switch {
			case size < v:
				below++
			case size == v:
				equal++
			}
		}
		positive += below + (equal+1)/2
	}
	// ways[s] are the sets of ranks 1..n with sum s, over their number.
	ways := []float64{1}
	for rank := 1; rank <= n; rank++ {
		ways = append(ways, make([]float64, rank)...)
		for s := len(ways) - 1; s >= 0; s-- {
			if ways[s] /= 2; s >= rank {
				ways[s] += ways[s-rank] / 2
			}
		}
	}
	p := 0.0
	for s := 0; float64(s) <= positive; s++ {
		p += ways[s]
	}
	return math.Min(1, p)
}

// Holm returns p-values adjusted for their number by Holm's step-down (1979):
// rejecting where the answer is below alpha keeps the chance of any false
// rejection below alpha, for any dependence. A NaN is a test that was not
// made: it stays NaN and does not count.
func Holm(p []float64) []float64 {
	adjusted, order := ascending(p)
	running := 0.0
	for rank, i := range order {
		running = math.Max(running, p[i]*float64(len(order)-rank))
		adjusted[i] = math.Min(running, 1)
	}
	return adjusted
}

// ascending returns the indices of the p-values in ascending order, without those that are
// NaN, and as many NaNs as there are p-values.
func ascending(p []float64) (unset []float64, order []int) {
	unset = make([]float64, len(p))
	for i, v := range p {
		unset[i] = math.NaN()
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	return unset, order
}

// AgainstRunsRatio is [AgainstRuns] on logarithms: the ratio of geometric means.
func AgainstRunsRatio(next []float64, runs [][]float64, confidence float64) Result {
	undefined := Result{Interval: Interval{Estimate: math.NaN()}, N: len(runs), SD: math.NaN(), Why: NotPositive}
	logNext, ok := logs(next)
	if !ok {
		return undefined
	}
	var logRuns [][]float64
	for _, x := range runs {
		l, ok := logs(x)
		if !ok {
			return undefined
		}
		logRuns = append(logRuns, l)
	}
	return AgainstRuns(logNext, logRuns, confidence).exp()
}

// AgainstRuns estimates mean(next) minus the mean of earlier runs. The run is the unit: its mean varies by what
// changes from run to run, and by the noise of its trials. The spread of the earlier means has both, so that the
// interval is Student's for one new observation beside len(runs) others, with len(runs)-1 degrees of freedom. N is the
// number of earlier runs, SD the standard deviation of their means.
//
// A new run with fewer trials than the earlier ones is noisier than they are. Its variance is raised by the trials'
// own, pooled over all runs, for the trials that it lacks.
func AgainstRuns(next []float64, runs [][]float64, confidence float64) Result {
	var means, all []float64
	for _, x := range runs {
		means, all = append(means, Mean(x)), append(all, x...)
	}
	r := Result{N: len(runs), SD: SD(means)}
	r.Estimate = Mean(next) - Mean(means)
	switch {
	case !finite(next, all, means) || math.IsNaN(r.Estimate):
		r.Why = NotFinite
	case r.N < MinN:
		r.Why = TooFew
	default:
		variance := square(r.SD)*(1+1/float64(len(runs))) + extraVariance(next, runs)
		if r.Why = NoSpread; !noSpread(math.Sqrt(variance), maxAbs(next, means)) {
			r.Why = Computed
			r.fill(r.Estimate, math.Sqrt(variance), float64(len(runs)-1), confidence)
		}
	}
	return r
}

// extraVariance returns how much larger the variance of next's mean is than an earlier run's, because next has fewer trials.
func extraVariance(next []float64, runs [][]float64) float64 {
	var squares, freedom, inverse float64
	add := func(x []float64) {
		if n := float64(len(x)); n > 1 {
			squares += square(SD(x)) * (n - 1)
			freedom += n - 1
		}
	}
	add(next)
	for _, x := range runs {
		add(x)
		inverse += 1 / float64(len(x)) / float64(len(runs))
	}
	if freedom == 0 {
		return 0
	}
	return squares / freedom * math.Max(0, 1/float64(len(next))-inverse)
}
