package stats

import (
	"math"
	"testing"
)

// Sides of three and four values: 144 between them over 12 pairs, 4 within over 3 and 20 within over 6, each counted twice.
func TestEnergyOfUnequalSides(t *testing.T) {
	at, q := bestSplit([]float64{0, 1, 2, 10, 12, 14, 16})
	if at != 3 {
		t.Errorf("at %d", at)
	}
	near(t, "energy", q, 3*4/7.0*(2*144/12.0-2*4/6.0-2*20/12.0), 1e-9)
	if at, _ := bestSplit([]float64{0, 0, 0, 9, 9}); at != -1 {
		t.Errorf("five values are split at %d", at)
	}
}

// The squares of 1 to 6 without their mean are 17.5, and the products of neighbours 8.75. Another order has products of 7.75, and 13.5
// with the time. Both have the variance 3.5.
func TestInOrderByHand(t *testing.T) {
	o, ok := InOrder([][]float64{{1, 2, 3, 4, 5, 6}, {7, 7, 7, 7, 7, 7}, {1, 2, 3, 6, 5, 4}})
	if !ok {
		t.Fatal("not tested")
	}
	near(t, "autocorrelation", o.Lag1, (8.75+7.75)/3.5/5/2, 1e-12)
	near(t, "correlation with time", o.Trend, (1+13.5/17.5)/2, 1e-12)
	one, _ := InOrder([][]float64{{1, 2, 3, 4, 5, 6}})
	near(t, "p of a trend", one.TrendP, 2/720.0, 4*math.Sqrt(2/720.0/1999)) // the order and its reverse, of 720
}

// The lowest value is farthest, and its distance has Student's t with n-2 degrees of freedom in g·√(n(n-2)/((n-1)²-n·g²)).
func TestOutlierBelow(t *testing.T) {
	x := []float64{10, 11, 4, 12, 10, 13}
	at, g, p, ok := Outlier(x) // mean 10, squares 50
	if at != 2 || !ok {
		t.Errorf("at %d, %v", at, ok)
	}
	near(t, "deviations", g, -6/math.Sqrt(10), 1e-12)
	near(t, "p", p, 12*tDistribution(4).survival(math.Sqrt(3.6*6*4/(25-6*3.6))), 1e-12)
	if _, _, _, ok := Outlier([]float64{1, 2, 3, 9}); ok {
		t.Error("four values are tested")
	}
}

// Five blocks of three levels, computed with fractions: F 33.85 with 2 and 8 degrees of freedom, each times 0.5123. The probability is by
// Simpson's rule over the density.
func TestHeterogeneityByHand(t *testing.T) {
	p := Heterogeneity([][]float64{{10, 13, 19}, {20, 24, 29}, {31, 33, 40}, {5, 9, 13}, {8, 15, 14}})
	near(t, "p", *p, 0.003974490, 1e-8)
	// Two levels are a paired test.
	a, b := []float64{10, 20, 31, 5}, []float64{13, 24, 33, 9}
	two := Heterogeneity([][]float64{{10, 13}, {20, 24}, {31, 33}, {5, 9}})
	near(t, "p of two levels", *two, *PairedDifference(b, a, 0.95).P, 1e-12)
}

// Eight residuals 1, -1, -1, 1 and again have no mean and no slope. Their autocorrelation of -1/8 is 0.0625 without its bias of
// -(2+4·r)/8.
func TestTrendByHand(t *testing.T) {
	x, y := make([]float64, 8), make([]float64, 8)
	var residuals []float64
	for i, e := range []float64{1, -1, -1, 1, 1, -1, -1, 1} {
		x[i], y[i], residuals = float64(i), 5+2*float64(i)+e, append(residuals, e)
	}
	near(t, "inflation", inflation(residuals), 1.0625/0.9375, 1e-12)
	r := Trend(x, y, 0.95)
	near(t, "slope", r.Estimate, 2, 1e-12)
	near(t, "error", r.SE, math.Sqrt(8.0/6/42*1.0625/0.9375), 1e-12) // squares of x 42
	near(t, "freedom", r.DF, 8/(1.0625/0.9375)-2, 1e-12)
	near(t, "inflation of pairs", inflation([]float64{1, 1, -1, -1, 1, 1, -1, -1}), 1.4375/0.5625, 1e-12) // r is 1/8, and 1/8 + 2.5/8 without bias
	near(t, "most inflation", inflation([]float64{1, 2, 3, 4, 5, 6, 7, 8}), 19, 1e-9)
}

// One cell of four blocks is missing. Residuals of the least-squares fit, computed with fractions.
func TestIncompleteLayoutByHand(t *testing.T) {
	values := [][]float64{{10, 13, math.NaN()}, {20, 24, 29}, {31, 33, 40}, {5, 9, 12}}
	r := LayoutContrast(values, stepBy(values, 2, 0), 0.95)
	near(t, "estimate", r.Estimate, 25.0/3, 1e-12)
	near(t, "error", r.SE, math.Sqrt(8789.0/15552), 1e-9)
	near(t, "freedom", r.DF, 3192005.0/1295767, 1e-8)
}

// Weights 1, 2 and 3 of points on no line, by the normal equations: w 6, wx 14, wy 23, wxx 36, wxy 59.
func TestWeightedLineByHand(t *testing.T) {
	fit := Line([]Point{{1, 2, 1, 0}, {2, 3, 2, 1}, {3, 5, 3, 2}}, 0.95)
	slope := (59 - 14*23/6.0) / (36 - 14*14/6.0)
	intercept := (23 - slope*14) / 6
	near(t, "slope", fit.Slope.Estimate, slope, 1e-12)
	near(t, "intercept", fit.Intercept.Estimate, intercept, 1e-12)
	near(t, "middle", fit.Middle, 14/6.0, 1e-12)
	rest := math.Pow(2-intercept-slope, 2) + 2*math.Pow(3-intercept-2*slope, 2) + 3*math.Pow(5-intercept-3*slope, 2)
	near(t, "error of the slope", fit.Slope.SE, math.Sqrt(rest/(36-14*14/6.0)), 1e-9) // one degree of freedom
	near(t, "error of the intercept", fit.Intercept.SE, math.Sqrt(rest*(1/6.0+14*14/36.0/(36-14*14/6.0))), 1e-9)
}

// Groups of 2 and 4 and of 9 have the weights 1/9 and 1/81.
func TestWeighByGroupByHand(t *testing.T) {
	points := []Point{{0, 2, 0, 1}, {0, 4, 0, 1}, {1, 9, 0, 2}}
	WeighByGroup(points)
	for i, want := range []float64{1 / 9.0, 1 / 9.0, 1 / 81.0} {
		near(t, "weight", points[i].Weight, want, 1e-12)
	}
}

// Three groups of two at 0, 1 and 2 with the means 0, 3 and 0: the line is flat at 1. Lack of fit 2·(1+4+1) with one degree of freedom,
// error 3·2·0.25 with three.
func TestLackOfFitByHand(t *testing.T) {
	var points []Point
	for g, m := range []float64{0, 3, 0} {
		points = append(points, Point{float64(g), m - 0.5, 1, g}, Point{float64(g), m + 0.5, 1, g})
	}
	fit := Line(points, 0.95)
	near(t, "intercept", fit.Intercept.Estimate, 1, 1e-12)
	near(t, "p", *fit.Misfit, FSurvival(1, 3, 12/(1.5/3)), 1e-12)
}

// A margin of 10 % against a geometric mean of 1.05: both one-sided tests by hand, with unequal numbers.
func TestWithinByHand(t *testing.T) {
	a, b := []float64{1.0, 1.05, 1.1025}, []float64{0.99, 1.0, 1.01, 1.0, 1.0}
	p, ok := WelchRatio(a, b, 0.95).Within(0.1)
	la, lb := []float64{0, math.Log(1.05), 2 * math.Log(1.05)}, []float64{math.Log(0.99), 0, math.Log(1.01), 0, 0}
	va, vb := square(SD(la))/3, square(SD(lb))/5
	df := square(va+vb) / (va*va/2 + vb*vb/4)
	d := Mean(la) - Mean(lb)
	near(t, "p", p, tDistribution(df).survival((math.Log(1.1)-d)/math.Sqrt(va+vb)), 1e-12) // the upper test has the larger
	if !ok {
		t.Error("absent")
	}
	p, _ = PairedRatio([]float64{1, 2, 3.3}, []float64{1, 2, 3}, 0.95).Within(0.2)
	l := math.Log(1.1) // differences 0, 0 and l: mean l/3, deviation l/√3
	near(t, "paired p", p, tDistribution(2).survival((math.Log(1.2)-l/3)/(l/3)), 1e-12)
}

// A uniform fifth and a half of 0, 10, 20, 50: between order statistics 1+q·3.
func TestQuantileByHand(t *testing.T) {
	x := []float64{50, 0, 20, 10}
	for q, want := range map[float64]float64{0.2: 6, 0.5: 15, 0.9: 41, 1: 50} {
		near(t, "quantile", Quantile(x, q), want, 1e-9)
	}
	near(t, "variation", CV([]float64{-9, -11}), math.Sqrt2/10, 1e-12)
}

// Half of 20 instants are later than the tenth, and 11 are missed. With 0.25 %, 5 of 11 or fewer are seen within the wait of rank
// 0.75·81 or more, 0.4, so that the median is at most that much after the sixth from the end. Other numbers bound it less.
func TestLatestBoundsByHand(t *testing.T) {
	var all []Bounded
	for i := range 20 {
		all = append(all, Bounded{After: float64(i), Before: float64(i) + 50, Waits: []float64{0.1, 0.2, 0.3, 0.4}})
	}
	low, high, _ := LatestBounds(all, 0.5)
	near(t, "low", low, 9, 0)
	near(t, "high", high, 14.4, 1e-9)
}
