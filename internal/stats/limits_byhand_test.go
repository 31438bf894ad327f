package stats

import (
	"math"
	"slices"
	"testing"
)

// From 200 on numbers of pairs are searched in steps of two. A tenth of a deviation needs 387 pairs, since 0.1·√387 = 1.9672 exceeds
// Student's t of 386, 1.9662, and 0.1·√386 = 1.9647 does not. The next of the steps is 388.
func TestStepsOfManyPairs(t *testing.T) {
	if n, _ := BlocksWithin(0.1, 0.05); n != 388 {
		t.Errorf("%d blocks within, want 388", n)
	}
	// Five pairs with a deviation of 10 need as many for a half-width of 1.
	if n, _ := PairsFor(10*tQuantile(4, 0.975)/math.Sqrt(5), 5, 1, 0.95); n != 388 {
		t.Errorf("%d pairs, want 388", n)
	}
	// 0.22 standard errors of five pairs: √(399/5)·0.22 = 1.9653 is below Student's t of 398, 1.9659.
	p := 2 * tDistribution(4).survival(0.22)
	r := Result{N: 5, SE: 1, DF: 4, P: &p}
	r.set(-1, 1)
	if n, _ := BlocksToShow(r, 0.05); n != 400 {
		t.Errorf("%d blocks to show, want 400", n)
	}
}

// Positions are used if their slope is significant and narrows the interval by a tenth. With noise of ±1 and positions of ±1, slope b has
// t = b·√(n-2).
func TestPositionsAtTheLimits(t *testing.T) {
	for _, c := range []struct {
		n    int
		b    float64
		used bool
	}{
		{8, 0.95, false}, // t 2.327 with 6 degrees of freedom: p 0.059
		{8, 1.02, true},  // t 2.498: p 0.047
		{32, 0.4, false}, // t 2.191 with 30: p 0.036, and 5 % narrower
	} {
		var treatment, baseline, shifts []float64
		for i := range c.n {
			z, noise := float64(1-2*(i%2)), float64(1-2*(i/2%2))
			treatment, baseline, shifts = append(treatment, 20+c.b*z+noise), append(baseline, 10), append(shifts, z)
		}
		if _, used := PositionedDifference(treatment, baseline, shifts, 0.95); used != c.used {
			t.Errorf("%d pairs, slope %v: used %v", c.n, c.b, used)
		}
		// The same of logarithms, whatever the baseline is.
		for i := range treatment {
			baseline[i] = math.Exp(float64(i % 3))
			treatment[i] = baseline[i] * math.Exp(treatment[i])
		}
		if _, used := PositionedRatio(treatment, baseline, shifts, 0.95); used != c.used {
			t.Errorf("%d pairs, slope %v of logarithms: used %v", c.n, c.b, used)
		}
	}
}

// Only the two orderings that keep equal values together, of 8 over 4 = 70, are as good.
func TestShareOfEqualSplits(t *testing.T) {
	c := Changes([]float64{1, 1, 1, 1, 2, 2, 2, 2}, 0.05)
	if len(c) != 1 || c[0].At != 4 || c[0].Before != 1 || c[0].After != 2 {
		t.Fatalf("%+v", c)
	}
	near(t, "p", c[0].P, 2/70.0, 4*math.Sqrt(2/70.0/999))
}

// One value of n that differs has the largest deviation of all samples, (n-1)/√n, and no probability.
func TestLargestOutlier(t *testing.T) {
	at, g, p, ok := Outlier([]float64{0, 0, 0, 0, 1})
	if near(t, "deviations", g, 4/math.Sqrt(5), 1e-12); at != 4 || !ok {
		t.Errorf("at %d, %v", at, ok)
	}
	near(t, "p", p, 0, 1e-9)
	near(t, "p of a division of six", ExactApart(2, 4), 2*2*24/720.0, 1e-12)
}

// Points without spread but for rounding: relative to 10⁹ a distance of 1 is none, and relative to 10⁸ it is one. Residuals of ±1e-6 are
// noise of a figure of 10⁶, and half of them are rounding.
func TestLinesAtTheLimitOfRounding(t *testing.T) {
	for at, why := range map[float64]Why{1e9: NoSpread, 1e8: Computed} {
		if fit := Line([]Point{{at, 5, 1, 0}, {at + 1, 7, 1, 1}, {at + 2, 8, 1, 2}}, 0.95); fit.Slope.Why != why {
			t.Errorf("at %v: %q", at, fit.Slope.Why)
		}
	}
	for e, why := range map[float64]Why{0.5e-6: NoSpread, 1e-6: Computed} {
		if fit := Line([]Point{{1, 1e6 + e, 1, 0}, {2, 1e6 - 2*e, 1, 1}, {3, 1e6 + e, 1, 2}}, 0.95); fit.Slope.Why != why {
			t.Errorf("residuals of %v: %q", e, fit.Slope.Why)
		}
	}
}

// 2 and 4 of 10, each event worth 6 and 2. Clopper and Pearson's bounds are 0.0252 and 0.5561, 0.1216 and 0.7376.
func TestCountDifferenceByHand(t *testing.T) {
	d := CountDifference(Count{K: 2, N: 10, Scale: 6}, Count{K: 4, N: 10, Scale: 2}, 0.025)
	near(t, "estimate", d.Estimate, 6*0.2-2*0.4, 1e-12)
	near(t, "low", *d.Low, 0.4-math.Hypot(6*(0.2-0.02521), 2*(0.73762-0.4)), 1e-4)
	near(t, "high", *d.High, 0.4+math.Hypot(6*(0.55610-0.2), 2*(0.4-0.12155)), 1e-4)
}

// Waits of 1 to 80: of 20 instants at most j are seen within a wait whose share of 81 is p, with the probability of the binomial
// distribution. It falls below the level of j between one rank and the next.
func TestMissedByDefinition(t *testing.T) {
	var waits []float64
	for i := range 80 {
		waits = append(waits, float64(i+1))
	}
	d := missed(20, waits)
	if len(d) != 3 {
		t.Fatalf("%v", d)
	}
	for j, level := range map[int]float64{0: 0.005, 5: 0.0025, 10: 0.0025} {
		fewer := func(rank float64) float64 { return 1 - binomialTail(float64(j+1), 20, rank/81) }
		if rank := d[j]; !(fewer(rank) <= level && fewer(rank-1) > level) {
			t.Errorf("%d seen beyond: rank %v with %v, before it %v", j, rank, fewer(rank), fewer(rank-1))
		}
	}
	// The mirror image of the latest events: of eleven instants, no more than five were seen within 0.4.
	var all []Bounded
	for i := range 20 {
		all = append(all, Bounded{After: float64(i) - 50, Before: float64(i), Waits: []float64{0.1, 0.2, 0.3, 0.4}})
	}
	low, high, _ := EarliestBounds(all, 0.55)
	near(t, "low", low, 4.6, 1e-9)
	near(t, "high", high, 10, 0)
}

// Values around the means of their segments: 1, -1, -1, 1 and again, whose products of neighbours add up to -1 over a variance of 8/7.
func TestDependentByHand(t *testing.T) {
	var x []float64
	for i, e := range []float64{1, -1, -1, 1, 1, -1, -1, 1} {
		x = append(x, 5+e)
		if i >= 4 {
			x[i] += 40
		}
	}
	lag, _ := Dependent(x, []Change{{At: 4}}, 0.05)
	near(t, "autocorrelation", lag, -1/(8.0/7)/7, 1e-12)
	if !slices.Equal(x[:2], []float64{6, 4}) {
		t.Errorf("%v: the series itself changed", x)
	}
}

// Eighths of degrees of freedom count, and less does not: 5.9 are 5.875.
func TestFreedomOfDetectable(t *testing.T) {
	near(t, "5.9", noncentrality(5.9, 0.05, 0.8), noncentrality(5.875, 0.05, 0.8), 0)
	if five, more := noncentrality(5.75, 0.05, 0.8), noncentrality(5.875, 0.05, 0.8); five <= more {
		t.Errorf("%v with 5.75 degrees of freedom, %v with 5.875", five, more)
	}
	for _, df := range []float64{2, 5.25, 40} { // by definition
		near(t, "power", testPower(noncentrality(df, 0.01, 0.8), df, 0.01), 0.8, 3e-4)
	}
}

// Figures that agree to twelve digits have no spread but for rounding.
func TestNoSpreadAtTheLimit(t *testing.T) {
	for _, c := range []struct {
		sd, scale float64
		none      bool
	}{{0.9e-6, 1e6, true}, {1.1e-6, 1e6, false}, {0.9e-18, 1e-6, true}, {1.1e-18, 1e-6, false}} {
		if got := noSpread(c.sd, c.scale); got != c.none {
			t.Errorf("%v of %v: no spread %v", c.sd, c.scale, got)
		}
	}
	x := []float64{1e6, 1e6 + 2e-7, 1e6 - 2e-7, 1e6 + 1e-7, 1e6 - 1e-7}
	if r := NewSpending(5, 5, 0.05).Bounds(x); r.Why != NoSpread {
		t.Errorf("%+v", r)
	}
	// Deviations of -4/3, -1/3 and 5/3 from a mean that has no exact number: squares 42/9 over 2.
	near(t, "variance", square(SD([]float64{1e15 + 1, 1e15 + 2, 1e15 + 4})), 7.0/3, 1e-12)
	i := Interval{Estimate: 2, Low: new(1.0)}.Times(3)
	if i.Estimate != 6 || *i.Low != 3 || i.High != nil {
		t.Errorf("%+v", i)
	}
}

// Of the 20 orders of three zeros and three ones, two have all zeros on one side: the most of a trend, and of equal neighbours.
func TestOrdersByHand(t *testing.T) {
	o, _ := InOrder([][]float64{{0, 0, 0, 1, 1, 1}})
	margin := 4 * math.Sqrt(0.1*0.9/1999)
	near(t, "p of a trend", o.TrendP, 0.1, margin)
	near(t, "p of neighbours", o.Lag1P, 0.1, margin)
	// The products of neighbours of 3, -1, -1 and -1 are -1, and their squares 12: -1/12, and (2-4/12)/4 more without bias.
	near(t, "inflation", inflation([]float64{3, -1, -1, -1}), 2, 1e-12)
	x := []float64{1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1}
	want := Lasting(x)
	for i := range x {
		x[i] += 5
	}
	near(t, "lasting", Lasting(x), want, 1e-12)
}

// An interval of 2 to 4 against none of 1, with the p-value of two errors of five values: at level p it begins at none.
func TestWidenedAgainstOne(t *testing.T) {
	p := 2 * tDistribution(4).survival(2)
	i := AtLevel(Interval{Estimate: 3, Low: new(2.0), High: new(4.0)}, 1, p, p, 5)
	near(t, "low", *i.Low, 1, 1e-9)
	near(t, "high", *i.High, 5, 1e-9)
	// Without waits the bounds are the observations.
	var all []Bounded
	for i := range 20 {
		all = append(all, Bounded{After: float64(i), Before: float64(i) + 5})
	}
	for _, bounds := range []func([]Bounded, float64) (low, high float64, known bool){LatestBounds, EarliestBounds} {
		low, high, _ := bounds(all, 0.5)
		near(t, "low", low, 9, 0)
		near(t, "high", high, 14, 0)
	}
}

// One degree of freedom needs more than the first guess of twice the sum of quantiles.
func TestDetectableOfOneDegreeOfFreedom(t *testing.T) {
	near(t, "power", testPower(noncentrality(1, 1e-4, 0.99), 1, 1e-4), 0.99, 1e-4)
}

// Of 2^53 and twice 2^53+2 the computed mean is 2^53, as the last digit of their sum is 4. The deviations 0, 2 and 2 have the sum 4
// instead of none, which is taken out: the variance of 0, 2 and 2 is (8 - 16/3)/2.
func TestVarianceOfLargeValues(t *testing.T) {
	x := []float64{1 << 53, 1<<53 + 2, 1<<53 + 2}
	near(t, "variance", covariance(x, x), 4.0/3, 1e-12)
	near(t, "covariance", covariance(x, []float64{0, 6, 0}), 2, 1e-12) // of 0, 2, 2 with -2, 4, -2 the sum of products is 4
	near(t, "covariance", covariance([]float64{0, 6, 0}, x), 2, 1e-12)
}
