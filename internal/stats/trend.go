package stats

import "math"

// Trend is the slope of a straight line through a series in order of time, with Student's interval. Neighbours of a series
// often depend on each other, so that n of them are worth fewer. The lag-1 autocorrelation r of the residuals, less its bias in
// short series (Marriott, Pope, Biometrika 1954), gives the number that they are worth: n·(1-r)/(1+r).
func Trend(x, y []float64, confidence float64) Result {
	points := make([]Point, len(x))
	for i := range x {
		points[i] = Point{X: x[i], Y: y[i], Weight: 1, Group: i}
	}
	fit := Line(points, confidence)
	slope := fit.Slope
	if slope.Why != Computed {
		return slope
	}
	residuals := make([]float64, len(x))
	for i := range x {
		residuals[i] = y[i] - fit.Intercept.Estimate - slope.Estimate*x[i]
	}
	worth := float64(len(x)) / inflation(residuals)
	slope.fill(slope.Estimate, slope.SE*math.Sqrt(float64(len(x))/worth), math.Max(1, worth-2), confidence)
	return slope
}

// mostLag bounds the autocorrelation that a short series shows.
const mostLag = 0.9

// inflation is the number of neighbours that are worth one independent value.
func inflation(residuals []float64) float64 {
	var sum, lag float64
	for i, v := range residuals {
		sum += v * v
		if i > 0 {
			lag += v * residuals[i-1]
		}
	}
	r, n := lag/sum, float64(len(residuals))
	r = math.Min(math.Max(0, r+(2+4*r)/n), mostLag)
	return (1 + r) / (1 - r)
}
