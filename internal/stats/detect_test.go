package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/test/statstest"
)

// Owen, "The power of Student's t-test", JASA 1965, and R's power.t.test(type = "one.sample"):
// n, standard deviations, level, power.
func TestTestPower(t *testing.T) {
	for _, c := range []struct {
		n                   int
		share, alpha, power float64
	}{
		{20, 1, 0.05, 0.9886}, // R: power.t.test(20, 1, type = "one.sample")
		{10, 1, 0.05, 0.8031},
		{6, 1.4352, 0.05, 0.8},
		{9, 1.0677, 0.05, 0.8},
	} {
		got := testPower(c.share*math.Sqrt(float64(c.n)), float64(c.n-1), c.alpha)
		if math.Abs(got-c.power) > 0.002 {
			t.Errorf("%d pairs, %v deviations, level %v: power %.4f, want %.4f", c.n, c.share, c.alpha, got, c.power)
		}
	}
}

// The integral over the estimated deviation itself, by Simpson's rule with 400,000 steps: delta, degrees of freedom, level, power.
func TestTestPowerIsExact(t *testing.T) {
	for _, c := range [][4]float64{{1, 2, 0.05, 0.095201755498}, {3, 2, 0.0025, 0.024665710008}, {2.5, 4, 0.05, 0.477261117382}, {4, 12, 0.01, 0.804986900236}, {3, 29, 0.001, 0.285941054351}} {
		if got := testPower(c[0], c[1], c[2]); math.Abs(got-c[3]) > 1e-10 {
			t.Errorf("%v: power %.12f", c, got)
		}
	}
}

// A true difference of the detectable size is found in 80 of 100 experiments, at every
// level that Holm's steps apply.
func TestDetectableIsFound(t *testing.T) {
	experiments := statstest.Rounds(t, 4000, 20000)
	slack := 4 * math.Sqrt(0.16/float64(experiments))
	for _, n := range []int{3, 4, 6, 12} {
		for _, live := range []int{1, 2, 7} {
			alpha := 0.05 / float64(live)
			share, ok := ShareFor(n, alpha, Power)
			if !ok {
				t.Fatalf("%d pairs: no share", n)
			}
			r := rand.New(rand.NewPCG(3, uint64(n)))
			found := 0
			for range experiments {
				x := make([]float64, n)
				for i := range x {
					x[i] = share + r.NormFloat64()
				}
				if *MeanInterval(x, 0.95).P < alpha {
					found++
				}
			}
			if got := float64(found) / float64(experiments); math.Abs(got-Power) > slack {
				t.Errorf("%d pairs, %d hypotheses: power %.3f", n, live, got)
			}
		}
	}
}

// The number of blocks is the least with the power, and its own inverse.
func TestBlocksFor(t *testing.T) {
	for _, n := range []int{3, 4, 6, 13, 200} {
		share, _ := ShareFor(n, 0.01, Power)
		got, ok := BlocksFor(share*1.001, 0.01, Power)
		if !ok || got != n {
			t.Errorf("%v deviations, which %d pairs show: %d (%v)", share, n, got, ok)
		}
	}
	if n, ok := BlocksFor(100, 0.05, Power); !ok || n != MinN {
		t.Errorf("100 deviations: %d, %v", n, ok)
	}
	for _, share := range []float64{0, -1, 1e-9, math.NaN(), math.Inf(1)} {
		if n, ok := BlocksFor(share, 0.05, Power); ok {
			t.Errorf("%v deviations: %d blocks", share, n)
		}
	}
}

// The range of the detectable difference holds the one of the true deviation in 95 of 100 experiments.
func TestRangeOfTheDetectable(t *testing.T) {
	const experiments = 4000
	for _, n := range []int{3, 6, 12} {
		share, _ := ShareFor(n, 0.05, Power)
		r := rand.New(rand.NewPCG(5, uint64(n)))
		held := 0
		for range experiments {
			x := make([]float64, n)
			for i := range x {
				x[i] = r.NormFloat64()
			}
			d, ok := MeanInterval(x, 0.95).Detectable(0.05, Power, 0.95)
			if !ok || !(*d.Low < d.Estimate && d.Estimate < *d.High) {
				t.Fatalf("%+v %v", d, ok)
			}
			if !d.Excludes(share) {
				held++
			}
		}
		if got := float64(held) / experiments; math.Abs(got-0.95) > 0.015 {
			t.Errorf("%d pairs: the range holds the truth in %.3f", n, got)
		}
	}
}

// HolmLevels is Holm: a hypothesis is rejected there exactly if it is rejected here.
func TestHolmLevels(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	for range 2000 {
		p := make([]float64, 1+r.IntN(9))
		for i := range p {
			if p[i] = math.Pow(r.Float64(), 1+6*r.Float64()); r.IntN(8) == 0 {
				p[i] = math.NaN()
			}
		}
		adjusted := Holm(p)
		levels, live := HolmLevels(p, 0.05)
		for i := range p {
			if math.IsNaN(p[i]) {
				if !math.IsNaN(levels[i]) {
					t.Fatalf("%v: level %v of no test", p, levels[i])
				}
				continue
			}
			if (p[i] <= levels[i]) != (adjusted[i] <= 0.05*(1+1e-12)) || live[i] < 1 {
				t.Fatalf("%v: %v at level %v (%d live), adjusted %v", p, p[i], levels[i], live[i], adjusted[i])
			}
		}
	}
}

// Among live hypotheses of a Holm family, a difference of the detectable size is found in
// 80 of 100 experiments: others that are significant cost nothing, those that are not do.
func TestDetectableInAFamily(t *testing.T) {
	experiments := statstest.Rounds(t, 2000, 10000)
	const n = 6
	for _, c := range []struct{ significant, null int }{{5, 0}, {4, 1}, {0, 6}} {
		m := c.significant + c.null + 1
		share, _ := ShareFor(n, 0.05/float64(c.null+1), Power)
		unadjusted, _ := ShareFor(n, 0.05, Power)
		found, foundUnadjusted := 0, 0
		r := rand.New(rand.NewPCG(8, uint64(m)))
		sample := func(mean float64) float64 {
			x := make([]float64, n)
			for i := range x {
				x[i] = mean + r.NormFloat64()
			}
			return *MeanInterval(x, 0.95).P
		}
		for range experiments {
			p := make([]float64, m)
			for i := 1; i < m; i++ {
				if p[i] = 1e-12; i > c.significant {
					p[i] = sample(0)
				}
			}
			p[0] = sample(share)
			if Holm(p)[0] < 0.05 {
				found++
			}
			p[0] = sample(unadjusted)
			if Holm(p)[0] < 0.05 {
				foundUnadjusted++
			}
		}
		got, before := float64(found)/float64(experiments), float64(foundUnadjusted)/float64(experiments)
		t.Logf("%d significant, %d null: power %.3f; at the size of the unadjusted level %.3f", c.significant, c.null, got, before)
		if got < 0.77 || got > 0.85 {
			t.Errorf("%d significant, %d null: power %.3f", c.significant, c.null, got)
		}
		if c.null == 6 && before > 0.5 {
			t.Errorf("the unadjusted size is found in %.3f: then nothing was wrong with it", before)
		}
	}
}
