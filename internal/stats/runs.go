package stats

import "math"

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
	case !(confidence > 0 && confidence < 1):
		r.Why = BadLevel
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
