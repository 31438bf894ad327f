package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/statstest"
)

// seriesOf are three series of n values with common noise. Each value is rho correlated with
// the one before. slope is the trend over the whole, in standard deviations.
func seriesOf(r *rand.Rand, n int, rho, slope float64) [][]float64 {
	x := make([][]float64, 3)
	state := make([]float64, 4)
	for i := range state {
		state[i] = r.NormFloat64()
	}
	for i := range n {
		for j := range state {
			if i > 0 {
				state[j] = rho*state[j] + math.Sqrt(1-rho*rho)*r.NormFloat64()
			}
		}
		for j := range x {
			x[j] = append(x[j], 50+state[3]+state[j]+slope*float64(i)/float64(n-1))
		}
	}
	return x
}

// Independent blocks are found dependent at the rate of the significance level; strong dependence and
// a trend are found most of the time with a dozen blocks.
func TestInOrder(t *testing.T) {
	experiments := statstest.Rounds(t, 400, 2000)
	for _, c := range []struct {
		n          int
		rho, slope float64
		lag, trend [2]float64 // share found at 0.02
	}{
		{6, 0, 0, [2]float64{0, 0.035}, [2]float64{0, 0.035}},
		{12, 0, 0, [2]float64{0.005, 0.04}, [2]float64{0.005, 0.04}},
		{12, 0.7, 0, [2]float64{0.3, 1}, [2]float64{0.1, 1}},
		{24, 0.7, 0, [2]float64{0.8, 1}, [2]float64{0, 1}},
		{12, 0, 5, [2]float64{0, 1}, [2]float64{0.7, 1}},
	} {
		r := rand.New(rand.NewPCG(31, uint64(c.n)))
		lags, trends := 0, 0
		for range experiments {
			o, ok := InOrder(seriesOf(r, c.n, c.rho, c.slope))
			if !ok {
				t.Fatal("not tested")
			}
			lags += count(o.Lag1P <= 0.02)
			trends += count(o.TrendP <= 0.02)
		}
		lag, trend := float64(lags)/float64(experiments), float64(trends)/float64(experiments)
		t.Logf("%d blocks, correlation %v, trend of %v deviations: dependence found in %.3f, trend in %.3f", c.n, c.rho, c.slope, lag, trend)
		if d := difftest.Wrong("lag < c.lag[0]", lag < c.lag[0], "lag > c.lag[1]", lag > c.lag[1], "trend < c.trend[0]", trend < c.trend[0], "trend > c.trend[1]", trend > c.trend[1]); d != "" {
			t.Errorf("%s: %d blocks, correlation %v, trend %v: dependence found in %.3f, trend in %.3f", d, c.n, c.rho, c.slope, lag, trend)
		}
	}
	for name, x := range map[string][][]float64{"nothing": nil, "five values": {{1, 2, 3, 4, 5}}, "no spread": {{1, 1, 1, 1, 1, 1}}, "no number": {{1, 2, math.NaN(), 4, 5, 6}}} {
		if _, ok := InOrder(x); ok {
			t.Errorf("%s is tested", name)
		}
	}
}

// Grubbs 1969, its table of ten breaking strengths: the largest is an outlier at 5 %, not at 1 %.
func TestOutlier(t *testing.T) {
	at, g, p, ok := Outlier([]float64{568, 570, 570, 570, 572, 572, 572, 578, 584, 596})
	if !ok {
		t.Errorf("%d: %v deviations, p %v, %v", at, g, p, ok)
	} else if d := difftest.Wrong("at != 9", at != 9, "math.Abs(g-2.3901) > 0.001", math.Abs(g-2.3901) > 0.001, "p > 0.05", p > 0.05, "p < 0.01", p < 0.01); d != "" {
		t.Errorf("%s: %d: %v deviations, p %v, %v", d, at, g, p, ok)
	}
	r := rand.New(rand.NewPCG(6, 1))
	found := 0
	const experiments = 4000
	for range experiments {
		x := make([]float64, 8)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		if _, _, p, _ := Outlier(x); p < 0.05 {
			found++
		}
	}
	if share := float64(found) / experiments; share < 0.03 || share > 0.06 {
		t.Errorf("an outlier is found in %.3f of normal samples at 0.05", share)
	}
}

// Equal levels are found different at the rate of the significance level, with unequal noise too.
func TestHeterogeneity(t *testing.T) {
	experiments := statstest.Rounds(t, 1500, 4000)
	for _, c := range []struct {
		name    string
		levels  []float64 // their noise
		effect  float64   // of the last level
		between [2]float64
	}{
		{"equal", []float64{1, 1, 1, 1}, 0, [2]float64{0.01, 0.075}},
		{"unequal noise", []float64{1, 1, 1, 6}, 0, [2]float64{0.005, 0.09}},
		{"two levels", []float64{1, 3}, 0, [2]float64{0.03, 0.07}},
		{"one differs", []float64{1, 1, 1, 1}, 4, [2]float64{0.9, 1}},
	} {
		r := rand.New(rand.NewPCG(44, 4))
		found := 0
		for range experiments {
			rows := make([][]float64, 6)
			for b := range rows {
				machine := 5 * r.NormFloat64()
				for l, sd := range c.levels {
					v := machine + sd*r.NormFloat64()
					if l == len(c.levels)-1 {
						v += c.effect
					}
					rows[b] = append(rows[b], v)
				}
			}
			found += count(*Heterogeneity(rows) < 0.05)
		}
		if share := float64(found) / float64(experiments); share < c.between[0] || share > c.between[1] {
			t.Errorf("%s: found different in %.3f", c.name, share)
		}
	}
	for name, rows := range map[string][][]float64{"two blocks": {{1, 2}, {3, 5}}, "one level": {{1}, {2}, {3}}, "no noise": {{1, 2}, {1, 2}, {1, 2}}} {
		if p := Heterogeneity(rows); p != nil {
			t.Errorf("%s: p %v", name, *p)
		}
	}
}

func TestExact(t *testing.T) {
	if p := ExactEqual(6); math.Abs(p-1.0/32) > 1e-12 {
		t.Errorf("six equal differences: %v", p)
	}
	if p := ExactApart(3, 3); math.Abs(p-0.1) > 1e-9 {
		t.Errorf("three against three: %v", p)
	}
	if p := ExactEqual(1); p != 1 {
		t.Errorf("one difference: %v", p)
	}
}
