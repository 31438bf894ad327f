package stats

import "math"

// PairedDifference estimates the mean of treatment[i]-baseline[i] with
// Student's interval and test on the differences. SD is theirs.
func PairedDifference(treatment, baseline []float64, confidence float64) Result {
	if len(treatment) != len(baseline) {
		return Result{Interval: Interval{Estimate: math.NaN()}, SD: math.NaN(), Why: UnequalLength}
	}
	d := make([]float64, len(treatment))
	for i := range d {
		d[i] = treatment[i] - baseline[i]
	}
	return student(d, confidence, maxAbs(treatment, baseline))
}

// PairedRatio estimates the geometric mean of treatment[i]/baseline[i], with
// Student's interval on the logarithms carried back. Ratios of benchmarks are
// averaged geometrically, so that the answer does not depend on which of the
// two is called the baseline (Fleming, Wallace, "How not to lie with
// statistics", CACM 1986). Its estimate is NaN where a value is not above zero.
func PairedRatio(treatment, baseline []float64, confidence float64) Result {
	undefined := Result{Interval: Interval{Estimate: math.NaN()}, N: len(treatment), SD: math.NaN()}
	if len(treatment) != len(baseline) {
		undefined.Why = UnequalLength
		return undefined
	}
	l := make([]float64, len(treatment))
	for i := range l {
		if !(treatment[i] > 0) || !(baseline[i] > 0) {
			undefined.Why = NotPositive
			return undefined
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
	case !(confidence > 0 && confidence < 1):
		r.Why = BadLevel
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
