package stats

import (
	"math"
	"slices"
	"testing"
)

// Every statistic agrees with a published example.

// Additional hours of sleep under two drugs, ten patients: Cushny and Peebles'
// data in Student, "The probable error of a mean", Biometrika 1908. The
// answers are those in the documentation of t.test in R, whose data set `sleep` it is.
var (
	sleepA = []float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0}
	sleepB = []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %.10g, published %.10g", what, got, want)
	}
}

func interval(t *testing.T, what string, r Result, low, high, tolerance float64) {
	t.Helper()
	if !r.Known() {
		t.Fatalf("%s: no interval: %s", what, r.Why)
	}
	near(t, what+" low", *r.Low, low, tolerance)
	near(t, what+" high", *r.High, high, tolerance)
}

func TestPairedDifferenceStudentSleep(t *testing.T) {
	r := PairedDifference(sleepA, sleepB, 0.95)
	near(t, "mean", r.Estimate, -1.58, 1e-9)
	interval(t, "paired", r, -2.4598858, -0.7001142, 1e-6)
	near(t, "p", *r.P, 0.002833, 1e-6)
	if r.N != 10 {
		t.Errorf("N = %d", r.N)
	}
}

func TestWelchSleep(t *testing.T) {
	r := Welch(sleepA, sleepB, 0.95)
	near(t, "mean", r.Estimate, -1.58, 1e-9)
	interval(t, "Welch", r, -3.3654832, 0.2054832, 1e-6)
	near(t, "p", *r.P, 0.07939, 1e-5)
}

// A ratio's interval is the interval of the differences of logarithms, so the
// sleep data taken as logarithms must give the published limits' exponentials.
func TestRatioSleepAsLogarithms(t *testing.T) {
	a, b := slices.Clone(sleepA), slices.Clone(sleepB)
	for i := range a {
		a[i], b[i] = math.Exp(a[i]), math.Exp(b[i])
	}
	r := PairedRatio(a, b, 0.95)
	near(t, "ratio", r.Estimate, math.Exp(-1.58), 1e-9)
	interval(t, "paired ratio", r, math.Exp(-2.4598858), math.Exp(-0.7001142), 1e-6)
	w := WelchRatio(a, b, 0.95)
	interval(t, "Welch ratio", w, math.Exp(-3.3654832), math.Exp(0.2054832), 1e-6)
}

// The example of the Wikipedia article on the Holm-Bonferroni method: at 0.05
// the first and the fourth hypothesis are rejected and no other.
func TestHolmExample(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, "adjusted", got[i], want, 1e-12)
	}
	// A test that was not made does not count.
	got = Holm([]float64{0.01, math.NaN(), 0.04, 0.03, 0.005})
	near(t, "beside a NaN", got[0], 0.03, 1e-12)
	if !math.IsNaN(got[1]) {
		t.Errorf("NaN became %v", got[1])
	}
}

// Twelve measurements of NIST/SEMATECH e-Handbook 7.2.6.2; their 90th
// percentile by definition 7 is 95.1957 to the digits printed.
func TestQuantileNIST(t *testing.T) {
	x := []float64{95.1772, 95.1567, 95.1937, 95.1959, 95.1442, 95.0610, 95.1591, 95.1195, 95.1065, 95.0925, 95.1990, 95.1682}
	near(t, "p90", Quantile(x, 0.9), 95.19568, 1e-9)
	near(t, "min", Quantile(x, 0), 95.0610, 0)
	near(t, "max", Quantile(x, 1), 95.1990, 0)
	if !math.IsNaN(Quantile(nil, 0.5)) || !math.IsNaN(Quantile(x, 1.5)) || !math.IsNaN(Quantile(x, math.NaN())) {
		t.Error("an undefined quantile is not NaN")
	}
}

// Six observations: t(0.975; 5) = 2.5706 and t(0.80; 5) = 0.9195 in the printed
// tables of Student's distribution (Fisher, Yates, "Statistical Tables").
func TestMinDetectableFromTables(t *testing.T) {
	d, ok := MinDetectable(2, 6, 0.05, 0.8)
	if !ok {
		t.Fatal("absent")
	}
	near(t, "detectable", d, (2.5706+0.9195)*2/math.Sqrt(6), 2e-4)
}

// The eight marks of the Wikipedia article on the standard deviation: mean 5,
// population deviation 2, hence sample deviation 2·√(8/7).
func TestDescribe(t *testing.T) {
	x := []float64{2, 4, 4, 4, 5, 5, 7, 9}
	near(t, "mean", Mean(x), 5, 0)
	near(t, "SD", SD(x), 2.138089935, 1e-9)
	near(t, "CV", CV(x), 0.427617987, 1e-9)
	if !math.IsNaN(Mean(nil)) || !math.IsNaN(SD(x[:1])) || !math.IsNaN(CV([]float64{-1, 1})) {
		t.Error("an undefined description is not NaN")
	}
}

// The error of Welch divides each variance by its own number. The values follow from the formulas of 1947 by hand.
func TestWelchOfUnequalNumbers(t *testing.T) {
	a, b := []float64{2, 4, 6, 8}, []float64{1, 1, 2, 3, 3, 2, 2, 2, 1, 3}
	// Variances 20/3 and 6/9. Error² = 5/3 + 1/15 = 26/15. Freedom = (26/15)²/((5/3)²/3 + (1/15)²/9) = 3.2431.
	r := Welch(a, b, 0.95)
	if r.Estimate != 3 || math.Abs(r.SE-math.Sqrt(26.0/15)) > 1e-12 || math.Abs(r.DF-(26.0/15)*(26.0/15)/(25.0/27+1.0/225/9)) > 1e-9 || r.N != 4 {
		t.Errorf("%+v", r)
	}
	// Exchanged samples have the same error.
	if s := Welch(b, a, 0.95); s.Estimate != -3 || math.Abs(s.SE-r.SE) > 1e-12 || math.Abs(s.DF-r.DF) > 1e-9 {
		t.Errorf("exchanged: %+v", s)
	}
}
