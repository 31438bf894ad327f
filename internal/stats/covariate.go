package stats

import "math"

// Adjusted is an estimate from which a covariate has been taken out.
type Adjusted struct {
	Result
	Coefficient float64 // of the covariate, by least squares
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
	return adjust(less(treatment, baseline), shifts, confidence, maxAbs(treatment, baseline))
}

// PositionedRatio is [PairedRatio] likewise.
func PositionedRatio(treatment, baseline, shifts []float64, confidence float64) (a Adjusted, used bool) {
	t, ok1 := logs(treatment)
	b, ok2 := logs(baseline)
	if !ok1 || !ok2 {
		return a, false
	}
	a, used = adjust(less(t, b), shifts, confidence, 1)
	a.Result = a.Result.exp()
	return a, used
}

// mostPassed is the largest share of a deployment's own relative deviation that may pass into the CPU that shows the
// machine's speed. Measured with planted deviations it is 0.03 [-0.04, 0.11].
const mostPassed = 0.15

const (
	// steepest is the largest relative slope that a machine explains. A cost in proportion to the machine's speed has 1.
	steepest = 2
	// minSpeedBlocks is the least number of blocks. With fewer, the choice of an interval for its width costs coverage.
	minSpeedBlocks = 5
	// minReadings is the least number of readings beyond the mean of each block and the slope.
	minReadings = 20
)

// Reading is one of several readings in a block. Speed is the CPU that processes used for the same work at that time, relative to
// its mean: higher on a slower machine.
type Reading struct {
	Treatment, Baseline float64
	Speed               float64
}

// AtSpeed are paired differences at the mean speed of the machine.
type AtSpeed struct {
	Differences []float64 // by block
	// Slope is the slope of the difference over blocks, SE its standard error and DF its degrees of freedom.
	Slope, SE, DF float64
	// Scale is the largest of the values that the differences were computed from.
	Scale float64
}

// DifferencesAtMeanSpeed removes the part of paired differences that follows the speed of the machine, by the regression of
// differences on the speeds of their blocks (analysis of covariance). speeds are relative, as in readings, and are centred: the
// mean difference is unchanged. Whether it is used depends on readings within blocks: a deployment is constant in its block,
// so its deviation has no influence on their slope. That slope itself is too small, because the speed changes between the slices
// of treatments.
//
// A deviation of a deployment that passes into the speed of its block is taken out in part. The loss, if mostPassed of it
// passes, is restored in all deviations. If less passes, the interval is wider than necessary. Not ok: a slower machine does
// not make the difference larger.
func DifferencesAtMeanSpeed(treatment, baseline, speeds []float64, blocks [][]Reading) (at AtSpeed, ok bool) {
	n := len(blocks)
	if n < minSpeedBlocks || !finite(speeds) || !slowedWithin(blocks) {
		return at, false
	}
	differences := less(treatment, baseline)
	middle, speed, costs := Mean(differences), Mean(speeds), max(Mean(treatment), Mean(baseline))
	_, at.Slope = Regression(speeds, differences)
	if relative := at.Slope / middle; !(relative > 0) || relative > steepest || noSpread(SD(speeds), maxAbs(speeds)) {
		return at, false
	}
	rest := 0.0
	for b := range blocks {
		d := differences[b] - middle - at.Slope*(speeds[b]-speed)
		rest += square(d)
		at.Differences = append(at.Differences, middle+d/(1-mostPassed*at.Slope/costs))
	}
	at.DF, at.Scale = float64(n-2), maxAbs(treatment, baseline)
	at.SE = math.Sqrt(rest/at.DF/float64(n-1)) / SD(speeds)
	return at, true
}

// slowedWithin reports whether readings within blocks show that a slower machine makes the difference larger.
func slowedWithin(blocks [][]Reading) bool {
	var x, y []float64 // less the means of their block
	for _, readings := range blocks {
		difference, speed := 0.0, 0.0
		for _, r := range readings {
			share := 1 / float64(len(readings))
			difference, speed = difference+share*(r.Treatment-r.Baseline), speed+share*r.Speed
		}
		for _, r := range readings {
			x, y = append(x, r.Speed-speed), append(y, r.Treatment-r.Baseline-difference)
		}
	}
	df := float64(len(x) - len(blocks) - 1)
	if df < minReadings || noSpread(maxAbs(x), 1) {
		return false
	}
	_, slope := Regression(x, y)
	squares, rest := 0.0, 0.0
	for i := range x {
		squares, rest = squares+square(x[i]), rest+square(y[i]-slope*x[i])
	}
	return rest > 0 && tDistribution(df).cdf(-slope/math.Sqrt(rest/df/squares)) < covariateLevel
}

// Interval is the interval of the mean difference. The slope costs a degree of freedom.
func (at AtSpeed) Interval(confidence float64) Result {
	r := student(at.Differences, confidence, at.Scale)
	if n := float64(r.N); r.Known() {
		r.SD *= math.Sqrt((n - 1) / (n - 2))
		r.fill(r.Estimate, r.SD/math.Sqrt(n), n-2, confidence)
	}
	return r
}

// RelativeSlope is the change of an estimate with the speed, relative to it.
func (at AtSpeed) RelativeSlope(estimate, confidence float64) Interval {
	r := Result{Interval: Interval{Estimate: at.Slope / estimate}}
	r.fill(r.Estimate, math.Abs(at.SE/estimate), at.DF, confidence)
	return r.Interval
}

// MeanAtSpeed is the mean over the levels of a question, all in the same blocks.
func MeanAtSpeed(levels []AtSpeed) (mean AtSpeed) {
	share := 1 / float64(len(levels))
	mean.Differences = make([]float64, len(levels[0].Differences))
	variance := 0.0
	for _, at := range levels {
		for b, d := range at.Differences {
			mean.Differences[b] += share * d
		}
		mean.Slope, mean.DF, mean.Scale = mean.Slope+share*at.Slope, mean.DF+at.DF, max(mean.Scale, at.Scale)
		variance += square(share * at.SE)
	}
	mean.SE = math.Sqrt(variance)
	return mean
}

// Narrower reports whether an interval is narrower by the share at which an adjustment is used, and by which share.
func Narrower(adjusted, raw Interval) (share float64, enough bool) {
	before, _ := raw.HalfWidth()
	after, ok := adjusted.HalfWidth()
	if !ok || !(before > 0) {
		return 0, false
	}
	share = 1 - after/before
	return share, share > covariateGain
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
	p := 2 * tDistribution(n-2).cdf(-math.Abs(slope/math.Sqrt(s2/spread)))
	a.fill(intercept, math.Sqrt(s2*(1/n+square(Mean(z))/spread)), n-2-choiceFreedom, confidence)
	_, enough := Narrower(a.Interval, raw.Interval)
	return a, enough && p < covariateLevel
}
