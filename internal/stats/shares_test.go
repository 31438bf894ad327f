package stats

import (
	"math"
	"testing"
)

// The bounds of Clopper and Pearson against published and independently computed values.
func TestShareBounds(t *testing.T) {
	for _, c := range []struct{ k, n, alpha, low, high float64 }{
		{16, 810, 0.025, 0.0113317, 0.0318800}, // by bisection of binomial sums in another program
		{80, 4050, 0.025, 0.0156933, 0.0245248},
		{4, 10, 0.025, 0.1215523, 0.7376219}, // Clopper, Pearson 1934: 0.122 to 0.738
		{0, 810, 0.025, 0, 0.0045438},
		{1, 20, 0.025, 0.0012651, 0.2487328},
		{20, 20, 0.025, 0.8315665, 1},
	} {
		of := Count{K: c.k, N: c.n}
		low, high := of.lower(c.alpha), of.upper(c.alpha)
		if math.Abs(low-c.low) > 2e-6 || math.Abs(high-c.high) > 2e-6 {
			t.Errorf("%v of %v: %.7f to %.7f, want %.7f to %.7f", c.k, c.n, low, high, c.low, c.high)
		}
		// By definition: at the lower bound k or more, and at the upper bound k or fewer, have probability alpha.
		if tail := binomialTail(c.k, c.n, low); c.k > 0 && math.Abs(tail/c.alpha-1) > 1e-6 {
			t.Errorf("%v of %v: at the lower bound %v", c.k, c.n, tail)
		}
		if tail := 1 - binomialTail(c.k+1, c.n, high); c.k < c.n && math.Abs(tail/c.alpha-1) > 1e-6 {
			t.Errorf("%v of %v: at the upper bound %v", c.k, c.n, tail)
		}
		if bound := ShareBound(int64(c.k), int64(c.n), c.alpha); bound != high {
			t.Errorf("ShareBound: %v, want %v", bound, high)
		}
	}
}

func binomial(k, n, p float64) float64 {
	if p <= 0 {
		return map[bool]float64{true: 1}[k == 0]
	}
	a, _ := math.Lgamma(n + 1)
	b, _ := math.Lgamma(k + 1)
	c, _ := math.Lgamma(n - k + 1)
	return math.Exp(a - b - c + k*math.Log(p) + (n-k)*math.Log1p(-p))
}

// binomialTail is the probability of k or more.
func binomialTail(k, n, p float64) (sum float64) {
	for i := k; i <= n; i++ {
		sum += binomial(i, n, p)
	}
	return sum
}

// Each bound of a difference of shares is wrong with probability alpha at most: by enumeration of all counts, for true
// differences from zero to a tenth, and unequal numbers of requests.
func TestErrorOfCountDifference(t *testing.T) {
	for _, n := range [][2]float64{{60, 60}, {240, 240}, {50, 200}, {200, 50}, {810, 810}} {
		for _, alpha := range []float64{0.025, 0.0025, 0.00025} {
			worst := 0.0
			for _, base := range []float64{0, 0.0003, 0.001, 0.005, 0.02, 0.1, 0.4} {
				for _, more := range []float64{0, 0.001, 0.005, 0.02, 0.1} {
					worst = math.Max(worst, wrongBounds(n[0], n[1], base+more, base, alpha))
				}
			}
			if worst > 1.02*alpha {
				t.Errorf("%v requests, level %v: the lower bound is wrong with probability %.5f", n, alpha, worst)
			}
		}
	}
}

// wrongBounds is the probability that the lower bound of a difference is above the true one.
func wrongBounds(nt, nb, pt, pb, alpha float64) (wrong float64) {
	for kb := 0.0; kb <= nb; kb++ {
		weight := binomial(kb, nb, pb)
		if weight < 1e-12 {
			continue
		}
		// The bound rises with the treatment's events: the first that is wrong.
		low, high := 0.0, nt+1
		for low < high {
			k := math.Floor((low + high) / 2)
			if *CountDifference(Count{k, nt, 1}, Count{kb, nb, 1}, alpha).Low > pt-pb+1e-12 {
				high = k
			} else {
				low = k + 1
			}
		}
		wrong += weight * binomialTail(low, nt, pt)
	}
	return wrong
}

func TestCountRatio(t *testing.T) {
	// 30 of 1000 against 10 of 2000: given 40 events, Clopper and Pearson's bounds of 0.75 are 0.588038 and 0.873085.
	r := CountRatio(Count{30, 1000, 1}, Count{10, 2000, 1}, 0.025)
	if math.Abs(r.Estimate-6) > 1e-12 || math.Abs(*r.Low-2*0.58803802/(1-0.58803802)) > 1e-6 || math.Abs(*r.High-2*0.87308520/(1-0.87308520)) > 1e-6 {
		t.Errorf("%v, %v to %v", r.Estimate, *r.Low, *r.High)
	}
	// From nothing to something there is a lower bound alone. It is odds of 0.025^(1/5).
	share := math.Pow(0.025, 1.0/5)
	if r = CountRatio(Count{5, 100, 1}, Count{0, 100, 1}, 0.025); r.High != nil || math.Abs(*r.Low-share/(1-share)) > 1e-9 || !math.IsInf(r.Estimate, 1) {
		t.Errorf("%+v", r)
	}
	if r = CountRatio(Count{0, 100, 1}, Count{0, 100, 1}, 0.025); r.Low != nil || !math.IsNaN(r.Estimate) {
		t.Errorf("%+v", r)
	}
}

// Trials that differ by more than chance count as fewer requests, and those that differ by less as they are.
func TestDispersed(t *testing.T) {
	burst := Dispersed([]Count{{0, 100, 2}, {0, 100, 2}, {0, 100, 2}, {40, 100, 2}})
	// The share is 0.1: chi-square is (3·100 + 900)/9 = 133.3 on 3 degrees of freedom.
	if ratio := 400 / 9.0; math.Abs(burst.N-400/ratio) > 1e-9 || math.Abs(burst.K-40/ratio) > 1e-9 || burst.Scale != 2 {
		t.Errorf("%+v, want %v requests", burst, 400/ratio)
	}
	if even := Dispersed([]Count{{10, 100, 1}, {10, 100, 3}}); even != (Count{20, 200, 2}) {
		t.Errorf("%+v", even)
	}
}
