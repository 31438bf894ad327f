package stats

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Every figure is gonum's to the last bit.
func TestSameAsGonum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	same := func(name string, got, want float64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for range 2000 {
		df, x, p := 0.5+40*r.Float64(), 10*r.NormFloat64(), r.Float64()
		s, want := tDistribution(df), distuv.StudentsT{Sigma: 1, Nu: df}
		same("cdf", s.cdf(x), want.CDF(x))
		same("survival", s.survival(x), want.Survival(x))
		same("quantile", s.quantile(p), want.Quantile(p))
		same("F", FSurvival(1+df, 2*df, x*x), distuv.F{D1: 1 + df, D2: 2 * df}.Survival(x*x))

		n := 2 + r.IntN(40)
		a, b := make([]float64, n), make([]float64, n)
		for i := range a {
			a[i], b[i] = 100+r.NormFloat64(), r.ExpFloat64()
		}
		same("mean", Mean(a), stat.Mean(a, nil))
		same("standard deviation", SD(a), stat.StdDev(a, nil))
		intercept, slope := Regression(a, b)
		wantIntercept, wantSlope := stat.LinearRegression(a, b, nil, false)
		same("intercept", intercept, wantIntercept)
		same("slope", slope, wantSlope)
	}
	for _, s := range []tDistribution{1, 5} {
		same("median", s.quantile(0.5), 0)
		same("cdf at 0", s.cdf(0), 0.5)
		same("survival at 0", s.survival(0), 0.5)
	}
}
