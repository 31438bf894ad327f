package stats

import (
	"math"
)

// Adjusted is an estimate from which a covariate has been taken out. SE and SD of a
// ratio are those of its logarithm.
type Adjusted struct {
	Result
	Coefficient float64 // of the covariate, by least squares; 1: in proportion to the probe
	SE          float64 // of the estimate
	DF          float64 // degrees of freedom
}

// A covariate is used if its coefficient is significant at this level, and the
// interval becomes narrower by this share. Both depend on the residuals alone. The
// mean of the observations is independent of them (for normal observations, given
// the covariate), so the choice is unbiased. An interval chosen for its width covers
// less than its confidence. The choice therefore costs two degrees of freedom, as
// the simulation of this package supports.
const (
	covariateLevel = 0.01
	covariateGain  = 0.1
	choiceFreedom  = 2
	// minCovariate is the least number of observations; below, the coefficient costs more than it brings.
	minCovariate = 6
)

// ProbedDifference is [PairedDifference] at the mean of a covariate. It models the
// costs of treatment and baseline as proportional to the time of a probe beside each.
// Probes are logarithms of that time. The covariate of a pair is the deviation of its
// difference if both costs were proportional to the probe. used is false if the probe
// narrows no interval. It is also false if the probe differs between treatment and
// baseline, because it may have measured the difference itself.
func ProbedDifference(treatment, baseline, treatmentProbes, baselineProbes []float64, confidence float64) (a Adjusted, used bool) {
	if !comparable(treatment, baseline, treatmentProbes, baselineProbes) {
		return a, false
	}
	mean := (Mean(treatmentProbes) + Mean(baselineProbes)) / 2
	t, b := Mean(treatment), Mean(baseline)
	d, z := make([]float64, len(treatment)), make([]float64, len(treatment))
	for i := range d {
		d[i] = treatment[i] - baseline[i]
		z[i] = t*(treatmentProbes[i]-mean) - b*(baselineProbes[i]-mean)
	}
	return adjust(d, z, confidence, maxAbs(treatment, baseline))
}

// ProbedRatio is [PairedRatio] likewise.
func ProbedRatio(treatment, baseline, treatmentProbes, baselineProbes []float64, confidence float64) (a Adjusted, used bool) {
	t, ok1 := logs(treatment)
	b, ok2 := logs(baseline)
	if !ok1 || !ok2 || !comparable(t, b, treatmentProbes, baselineProbes) {
		return a, false
	}
	d, z := make([]float64, len(t)), make([]float64, len(t))
	for i := range d {
		d[i] = t[i] - b[i]
		z[i] = treatmentProbes[i] - baselineProbes[i]
	}
	a, used = adjust(d, z, confidence, 1)
	a.Result = a.Result.exp()
	return a, used
}

// ProbeLevel is the level at which the probe is found to differ between treatment and baseline.
const ProbeLevel = 0.01

func comparable(treatment, baseline, treatmentProbes, baselineProbes []float64) bool {
	n := len(treatment)
	if n < minCovariate || len(baseline) != n || len(treatmentProbes) != n || len(baselineProbes) != n {
		return false
	}
	p := PairedDifference(treatmentProbes, baselineProbes, 0.95).P
	return p != nil && *p >= ProbeLevel
}

// adjust estimates the mean of x at z = 0 by the regression of x on z. That is
// the analysis of covariance (Fisher, "Statistical Methods for Research Workers",
// 4th edition, 1932). The coefficient is estimated, as in CUPED (Deng, Xu, Kohavi,
// Walker, WSDM 2013). scale is the size of the values x was computed from.
func adjust(x, z []float64, confidence, scale float64) (a Adjusted, used bool) {
	raw := student(x, confidence, scale)
	n := float64(len(x))
	if !raw.Known() || !finite(z) || noSpread(SD(z), scale) {
		return a, false
	}
	intercept, slope := regression(z, x)
	sum := 0.0
	for i := range x {
		sum += square(x[i] - intercept - slope*z[i])
	}
	s2, spread := sum/(n-2), square(SD(z))*(n-1)
	a.N, a.SD, a.Estimate, a.Coefficient = len(x), math.Sqrt(s2), intercept, slope
	if noSpread(a.SD, scale) {
		return a, false
	}
	t := tDistribution(n - 2)
	p := 2 * t.cdf(-math.Abs(slope/math.Sqrt(s2/spread)))
	a.DF = n - 2 - choiceFreedom
	a.SE = math.Sqrt(s2 * (1/n + square(Mean(z))/spread))
	a.fill(intercept, a.SE, a.DF, confidence)
	before, _ := raw.HalfWidth()
	after, ok := a.HalfWidth()
	return a, ok && p < covariateLevel && after < (1-covariateGain)*before
}

// Detectable is the true mean that a test at level alpha shows with the given power.
func (a Adjusted) Detectable(alpha, power float64) float64 {
	return (tQuantile(a.DF, 1-alpha/2) + tQuantile(a.DF, power)) * a.SE
}

// Within is [PairedWithin] for an adjusted ratio.
func (a Adjusted) Within(margin float64) (p float64, ok bool) {
	if !a.Known() || !(margin > 0) {
		return 0, false
	}
	return within(math.Log(a.Estimate), a.SE, a.DF, margin), true
}
