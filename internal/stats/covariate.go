package stats

import "math"

// Adjusted is an estimate from which a covariate has been taken out.
type Adjusted struct {
	Result
	Coefficient float64 // of the covariate, by least squares
	// CoefficientSE is its standard error, on DF degrees of freedom.
	CoefficientSE float64
}

// A covariate is used if its coefficient is significant at this level, and the
// interval becomes narrower by this share. Both depend on the residuals alone. The
// mean of the observations is independent of them (for normal observations, given
// the covariate), so the choice is unbiased. An interval chosen for its width covers
// less than its confidence. The choice therefore costs degrees of freedom, as the
// simulation of this package supports.
const (
	covariateLevel = 0.05
	covariateGain  = 0.1
	choiceFreedom  = 1
	// minCovariate is the least number of observations. Below it, the coefficient costs more than it brings.
	minCovariate = 6
)

// PositionedDifference is [PairedDifference] at equal positions in the block. shifts are
// the position of the treatment less the baseline's position, in each block. The positions
// come from the design, so the treatment cannot move them. used is false if the
// positions narrow no interval, or with fewer than six pairs.
func PositionedDifference(treatment, baseline, shifts []float64, confidence float64) (a Adjusted, used bool) {
	if len(treatment) != len(baseline) {
		return a, false
	}
	d := make([]float64, len(treatment))
	for i := range d {
		d[i] = treatment[i] - baseline[i]
	}
	return adjust(d, shifts, confidence, maxAbs(treatment, baseline))
}

// PositionedRatio is [PairedRatio] likewise.
func PositionedRatio(treatment, baseline, shifts []float64, confidence float64) (a Adjusted, used bool) {
	t, ok1 := logs(treatment)
	b, ok2 := logs(baseline)
	if !ok1 || !ok2 || len(t) != len(b) {
		return a, false
	}
	d := make([]float64, len(t))
	for i := range d {
		d[i] = t[i] - b[i]
	}
	a, used = adjust(d, shifts, confidence, 1)
	a.Result = a.Result.exp()
	return a, used
}

// mostPassed is the largest share of a difference's own relative deviation that may pass into the covariate. Measured with
// planted deviations it is 0.03 [-0.04, 0.11].
const mostPassed = 0.15

// DifferenceAtMeanSpeed is [PairedDifference] at the mean speed of the machine over the blocks. work is the CPU that
// other processes used for the same work in each block: higher on a slower machine. The estimate equals
// [PairedDifference]'s, since the covariate is centred: neither a constant shift of work nor the choice moves it. Only the
// part of the spread that follows the machine is taken out.
//
// A deployment's own deviation that passes into work would be taken out too. So the covariate is the logarithm of work
// less mostPassed of each block's relative deviation. If that share passes, the rest is the machine's alone. If less
// does, the interval is wider than necessary. The coefficient belongs to the logarithm of work itself, so divided by the
// estimate it is a ratio of relative changes. used is false if this narrows no interval, or with fewer than six pairs. It
// is also false if the coefficient has not the sign of the mean: a slower machine makes costs and savings larger.
func DifferenceAtMeanSpeed(treatment, baseline, work []float64, confidence float64) (a Adjusted, used bool) {
	z, ok := logs(work)
	if !ok || len(treatment) != len(baseline) || len(treatment) != len(z) {
		return a, false
	}
	d := make([]float64, len(z))
	for i := range d {
		d[i] = treatment[i] - baseline[i]
	}
	middle, mean, scale := Mean(z), Mean(d), maxAbs(treatment, baseline)
	without := make([]float64, len(z))
	for i := range z {
		z[i] -= middle
		without[i] = z[i] - mostPassed*(d[i]-mean)/mean
	}
	a, used = adjust(d, without, confidence, scale)
	used = used && a.Coefficient*mean > 0
	follows, _ := adjust(d, z, confidence, scale)
	a.Coefficient, a.CoefficientSE = follows.Coefficient, follows.CoefficientSE
	return a, used
}

// HalfWidthAtMeanSpeed is [HalfWidth] for the standard deviation of [DifferenceAtMeanSpeed].
func HalfWidthAtMeanSpeed(sd float64, n int, confidence float64) float64 {
	if n < minCovariate {
		return math.Inf(1)
	}
	return tQuantile(float64(n-2-choiceFreedom), 1-(1-confidence)/2) * sd / math.Sqrt(float64(n))
}

// RelativeSlope is the change of the estimate with the covariate, relative to it.
func (a Adjusted) RelativeSlope(confidence float64) Interval {
	r := Result{Interval: Interval{Estimate: a.Coefficient / a.Estimate}}
	r.fill(r.Estimate, math.Abs(a.CoefficientSE/a.Estimate), a.DF, confidence)
	return r.Interval
}

// adjust estimates the mean of x at z = 0 by the regression of x on z. That is
// the analysis of covariance (Fisher, "Statistical Methods for Research Workers",
// 4th edition, 1932). scale is the size of the values x was computed from.
func adjust(x, z []float64, confidence, scale float64) (a Adjusted, used bool) {
	raw := student(x, confidence, scale)
	n := float64(len(x))
	if len(x) < minCovariate || len(z) != len(x) || !raw.Known() || !finite(z) || noSpread(SD(z), maxAbs(z)) {
		return a, false
	}
	intercept, slope := Regression(z, x)
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
	a.CoefficientSE = math.Sqrt(s2 / spread)
	p := 2 * t.cdf(-math.Abs(slope/a.CoefficientSE))
	a.fill(intercept, math.Sqrt(s2*(1/n+square(Mean(z))/spread)), n-2-choiceFreedom, confidence)
	before, _ := raw.HalfWidth()
	after, ok := a.HalfWidth()
	return a, ok && p < covariateLevel && after < (1-covariateGain)*before
}

// Within is [PairedWithin] for an adjusted ratio.
func (a Adjusted) Within(margin float64) (p float64, ok bool) {
	if !a.Known() || !(margin > 0) {
		return 0, false
	}
	return within(math.Log(a.Estimate), a.SE, a.DF, margin), true
}
