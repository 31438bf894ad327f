package load

import "math"

// HistogramBounds are the upper bounds of a report's buckets within a decade: steps of
// about a quarter, so that a reader can merge them into as many bars as fit.
var HistogramBounds = []float64{1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8}

// BoundAbove is the least bound of at least ms, by its leading digits in each decade.
func BoundAbove(ms float64, digits []float64) float64 {
	const least = 1e-3 // a microsecond: a report has no shorter times
	ms = max(ms, least)
	for exponent := math.Floor(math.Log10(ms)); ; exponent++ {
		for _, d := range digits {
			bound := d * math.Pow(10, exponent)
			if exponent < 0 {
				bound = d / math.Pow(10, -exponent) // 1.5/10 is 0.15 in print, and 1.5*0.1 is not
			}
			if bound >= ms*(1-1e-9) {
				return bound
			}
		}
	}
}
