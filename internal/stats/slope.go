package stats

import "math"

// Slope is the slope of the least-squares line of y on x. below is the probability of one as low or lower where y does not
// depend on x. Errors are normal and independent (Student's t), unlike those of [Trend]. It is 1 with fewer than three points.
func Slope(x, y []float64) (slope, below float64) {
	from, slope := Regression(x, y)
	df, rest := float64(len(x)-2), 0.0
	if df < 1 || math.IsNaN(slope) {
		return slope, 1
	}
	for i := range x {
		e := y[i] - from - slope*x[i]
		rest += e * e
	}
	if rest == 0 {
		return slope, map[bool]float64{true: 0, false: 1}[slope < 0]
	}
	t := slope / math.Sqrt(rest/df/(covariance(x, x)*(df+1)))
	return slope, 1 - tDistribution(df).survival(t)
}
