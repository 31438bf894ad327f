package stats

import (
	"math"
)

// PairedWithin tests whether the geometric mean of treatment[i]/baseline[i] lies
// between 1/(1+margin) and 1+margin: two one-sided tests on the logarithms
// (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 1987). p is the
// larger of the two p-values. p < alpha shows that the ratio is within the margin.
// This is equivalent to its interval at 1-2·alpha lying within the margin. Not ok
// if [PairedRatio] has no interval.
func PairedWithin(treatment, baseline []float64, margin float64) (p float64, ok bool) {
	r := PairedRatio(treatment, baseline, 0.95)
	if !r.Known() || !(margin > 0) {
		return 0, false
	}
	n := float64(r.N)
	return within(math.Log(r.Estimate), r.SD/math.Sqrt(n), n-1, margin), true
}

// WelchWithin is [PairedWithin] for unpaired samples.
func WelchWithin(treatment, baseline []float64, margin float64) (p float64, ok bool) {
	r := WelchRatio(treatment, baseline, 0.95)
	if !r.Known() || !(margin > 0) {
		return 0, false
	}
	a, _ := logs(treatment)
	b, _ := logs(baseline)
	se := math.Sqrt(square(SD(a))/float64(len(a)) + square(SD(b))/float64(len(b)))
	return within(math.Log(r.Estimate), se, welchFreedom(a, b), margin), true
}

func within(estimate, se, df, margin float64) float64 {
	t := tDistribution(df)
	bound := math.Log1p(margin)
	return math.Max(t.survival((estimate+bound)/se), t.survival((bound-estimate)/se))
}
