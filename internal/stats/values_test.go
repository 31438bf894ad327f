package stats

import (
	"math"
	"slices"
	"testing"
)

// Readings are of five blocks, with speeds of their own. Within a block the treatment follows the speed with a slope of 100, and has
// noise of ±1 that is orthogonal to it. Costs are half of readings, and deviate from the line by half of deviations.
func slowedBlocks(deviations []float64) (treatment, baseline, speeds []float64, blocks [][]Reading) {
	for b, deviation := range deviations {
		speed := 0.01 * float64(b-2)
		var readings []Reading
		for i := range 8 {
			e, noise := 0.01*float64(1-2*(i%2)), float64(1-2*(i/2%2))
			readings = append(readings, Reading{Treatment: 140 + 100*(speed+e) + noise, Baseline: 40, Speed: speed + e})
		}
		blocks, baseline, speeds = append(blocks, readings), append(baseline, 20), append(speeds, speed)
		treatment = append(treatment, 70+50*speed+deviation/2)
	}
	return treatment, baseline, speeds, blocks
}

// acrossSpeeds are deviations of five deployments that are orthogonal to the speeds of their blocks.
var acrossSpeeds = []float64{1, -2, 2, -2, 1}

func TestDifferencesAtMeanSpeedByHand(t *testing.T) {
	at, ok := DifferencesAtMeanSpeed(slowedBlocks(acrossSpeeds))
	if !ok || len(at.Differences) != 5 {
		t.Fatalf("%+v, %v", at, ok)
	}
	// Five blocks less a mean and a slope. Squares of half the deviations 3.5, of the speeds 10·10⁻⁴.
	near(t, "slope", at.Slope, 50, 1e-9)
	near(t, "degrees of freedom", at.DF, 3, 0)
	near(t, "standard error", at.SE, math.Sqrt(3.5/3/10e-4), 1e-9)
	near(t, "scale", at.Scale, 71.5, 1e-9)
	restored := 1 / (1 - 0.15*50/70) // as if 0.15 of a relative deviation of 50/70 passed
	for b, d := range acrossSpeeds {
		near(t, "difference", at.Differences[b], 50+d/2*restored, 1e-9)
	}
	half := tQuantile(3, 0.975) * math.Sqrt(3.5/3/5) * restored
	interval(t, "interval", at.Interval(0.95), 50-half, 50+half, 1e-9)
	interval(t, "relative slope", Result{Interval: at.RelativeSlope(50, 0.95)}, 1-tQuantile(3, 0.975)*at.SE/50, 1+tQuantile(3, 0.975)*at.SE/50, 1e-9)
	mean := MeanAtSpeed([]AtSpeed{at, {Differences: []float64{0, 0, 0, 0, 10}, Slope: 10, SE: 3, DF: 6, Scale: 80}})
	near(t, "mean slope", mean.Slope, 30, 1e-9)
	near(t, "mean error", mean.SE, math.Hypot(at.SE, 3)/2, 1e-9)
	near(t, "mean freedom", mean.DF, 9, 0)
	near(t, "mean scale", mean.Scale, 80, 0)
	near(t, "mean difference", mean.Differences[4], (at.Differences[4]+10)/2, 1e-9)
}

// A slope is used only if enough readings show one that a machine explains.
func TestDifferencesAtMeanSpeedRefused(t *testing.T) {
	for name, change := range map[string]func(treatment, baseline, speeds []float64, blocks [][]Reading) ([]float64, []float64, []float64, [][]Reading){
		"four blocks": func(treatment, baseline, speeds []float64, blocks [][]Reading) ([]float64, []float64, []float64, [][]Reading) {
			return treatment[:4], baseline[:4], speeds[:4], blocks[:4]
		},
		"an unknown speed": func(treatment, baseline, speeds []float64, blocks [][]Reading) ([]float64, []float64, []float64, [][]Reading) {
			speeds[1] = math.NaN()
			return treatment, baseline, speeds, blocks
		},
		"equal speeds": func(treatment, baseline, speeds []float64, blocks [][]Reading) ([]float64, []float64, []float64, [][]Reading) {
			return treatment, baseline, []float64{1, 1, 1, 1, 1}, blocks
		},
		"few readings": func(treatment, baseline, speeds []float64, blocks [][]Reading) ([]float64, []float64, []float64, [][]Reading) {
			for b := range blocks {
				blocks[b] = blocks[b][:4]
			}
			return treatment, baseline, speeds, blocks
		},
		"steeper than a machine explains": func(treatment, _, speeds []float64, blocks [][]Reading) ([]float64, []float64, []float64, [][]Reading) {
			return treatment, []float64{46, 46, 46, 46, 46}, speeds, blocks
		},
		"against the speed": func(treatment, _, speeds []float64, blocks [][]Reading) ([]float64, []float64, []float64, [][]Reading) {
			return treatment, []float64{95, 95, 95, 95, 95}, speeds, blocks
		},
		"against the speed within blocks": func(treatment, baseline, speeds []float64, blocks [][]Reading) ([]float64, []float64, []float64, [][]Reading) {
			for b := range blocks {
				for i := range blocks[b] {
					blocks[b][i].Speed *= -1
				}
			}
			return treatment, baseline, speeds, blocks
		},
		"noise": func(treatment, baseline, speeds []float64, blocks [][]Reading) ([]float64, []float64, []float64, [][]Reading) {
			for b := range blocks {
				for i := range blocks[b] {
					blocks[b][i].Treatment += 9 * float64(1-2*(i/2%2))
				}
			}
			return treatment, baseline, speeds, blocks
		},
	} {
		if at, ok := DifferencesAtMeanSpeed(change(slowedBlocks(acrossSpeeds))); ok {
			t.Errorf("%s: %+v", name, at)
		}
	}
}

// Analysis of covariance by hand: x = 10 + 2z ± 0.1, with noise orthogonal to z.
func TestPositionsByHand(t *testing.T) {
	shifts, noise := []float64{-1, 1, -1, 1, -1, 1, -1, 1}, []float64{1, 1, -1, -1, 1, 1, -1, -1}
	treatment, baseline := make([]float64, 8), []float64{5, 6, 7, 8, 9, 10, 11, 12}
	for i := range treatment {
		treatment[i] = baseline[i] + 10 + 2*shifts[i] + 0.1*noise[i]
	}
	a, used := PositionedDifference(treatment, baseline, shifts, 0.95)
	se := math.Sqrt(8 * 0.01 / 6 / 8) // 8 values less two parameters
	if !used || a.N != 8 {
		t.Fatalf("%+v, used %v", a, used)
	}
	near(t, "estimate", a.Estimate, 10, 1e-9)
	near(t, "coefficient", a.Coefficient, 2, 1e-9)
	near(t, "error", a.SE, se, 1e-9)
	near(t, "freedom", a.DF, 5, 0) // and one for the choice
	interval(t, "interval", a.Result, 10-tQuantile(5, 0.975)*se, 10+tQuantile(5, 0.975)*se, 1e-9)
	if _, used := PositionedDifference(treatment[:5], baseline[:5], shifts[:5], 0.95); used {
		t.Error("positions of five pairs are used")
	}
	if _, used := PositionedDifference(treatment, baseline, noise, 0.95); used {
		t.Error("positions that explain nothing are used")
	}
	for i := range treatment {
		treatment[i], baseline[i] = math.Exp(treatment[i]-baseline[i]), 1
	}
	r, used := PositionedRatio(treatment, baseline, shifts, 0.95)
	if !used {
		t.Fatalf("%+v", r)
	}
	interval(t, "ratio", r.Result, math.Exp(*a.Low), math.Exp(*a.High), 1e-3*math.Exp(10))
}

func TestNarrower(t *testing.T) {
	of := func(half float64) (i Interval) {
		i.set(-half, half)
		return i
	}
	for _, c := range []struct {
		adjusted, raw float64
		share         float64
		enough        bool
	}{{4, 10, 0.6, true}, {8.9, 10, 0.11, true}, {9.1, 10, 0.09, false}, {12, 10, -0.2, false}, {1, 0, 0, false}} {
		share, enough := Narrower(of(c.adjusted), of(c.raw))
		if near(t, "share", share, c.share, 1e-9); enough != c.enough {
			t.Errorf("%+v: %v", c, enough)
		}
	}
	if _, enough := Narrower(Interval{}, of(1)); enough {
		t.Error("no interval is narrower")
	}
}

// A complete layout of two treatments is their paired difference, and noise is divided evenly: differences 9, 10, 11 and 14.
func TestLayoutContrastByHand(t *testing.T) {
	values := [][]float64{{100, 109}, {200, 210}, {300, 311}, {50, 64}}
	r := LayoutContrast(values, stepBy(values, 1, 0), 0.95)
	// The squares of the deviations from 11 add up to 14. Each treatment has a quarter of them: 3.5·(8/3)/4. Freedom 2·3.
	se := math.Sqrt(14.0 / 3 / 4)
	near(t, "estimate", r.Estimate, 11, 1e-9)
	near(t, "error", r.SE, se, 1e-9)
	near(t, "freedom", r.DF, 6, 1e-9)
	interval(t, "interval", r, 11-tQuantile(6, 0.975)*se, 11+tQuantile(6, 0.975)*se, 1e-9)
	if r.N != 4 {
		t.Errorf("N = %d", r.N)
	}
	l := newLayout([][]float64{{1, math.NaN(), 3}, {math.NaN(), math.NaN(), math.NaN()}, {4, math.NaN(), math.NaN()}})
	if l.cells != 3 || l.rows != 2 || l.columns != 2 || l.freedom() != 0 || !slices.Equal(l.counts, []int{2, 0, 1}) {
		t.Errorf("%+v, freedom %d", l, l.freedom())
	}
}

// Values of printed tables: chi-square of 9 degrees of freedom 19.023 and 2.700, Student's t of 5 2.5706.
func TestDetectByHand(t *testing.T) {
	i := DeviationInterval(2, 9, 0.95)
	near(t, "deviation low", *i.Low, 2*math.Sqrt(9/19.0228), 1e-4)
	near(t, "deviation high", *i.High, 2*math.Sqrt(9/2.70039), 1e-4)
	for reach, want := range map[float64]int{1: 7, 2: 4, 3: 3, 0.2: 99} { // t of 6 is 2.447, of 3 3.182, of 2 4.303, of 98 1.984
		if n, ok := BlocksWithin(reach, 0.05); !ok || n != want {
			t.Errorf("%v deviations: %d blocks, want %d", reach, n, want)
		}
	}
	if n, ok := BlocksWithin(1e-6, 0.05); ok {
		t.Errorf("a millionth of a deviation: %d blocks", n)
	}
	if n, ok := BlocksWithin(1, 0); ok {
		t.Errorf("level 0: %d blocks", n)
	}
	// Two standard errors of five pairs are 0.894 deviations: with 8 pairs √8·0.894 = 2.530 exceeds t of 7, 2.365, and with 7 2.366 not 2.447.
	p := 2 * tDistribution(4).cdf(-2)
	r := Result{N: 5, SE: 1, DF: 4, P: &p}
	r.Estimate = 2
	r.set(-1, 5)
	if n, ok := BlocksToShow(r, 0.05); !ok || n != 8 {
		t.Errorf("%d pairs, want 8", n)
	}
	for name, change := range map[string]func(*Result){
		"no interval": func(r *Result) { r.Low = nil }, "no error": func(r *Result) { r.SE = 0 }, "no p": func(r *Result) { r.P = nil }} {
		q := r
		if change(&q); true {
			if n, ok := BlocksToShow(q, 0.05); ok {
				t.Errorf("%s: %d pairs", name, n)
			}
		}
	}
	// An estimate 2 standard errors from none: at its own p-value the interval ends at none.
	wide := AtLevel(r.Interval, 0, p, p, 5)
	near(t, "low at p", *wide.Low, -1, 1e-9) // never narrower
	wide = AtLevel(r.Interval, 0, p, 0.001, 5)
	half := 2 * tQuantile(4, 1-0.0005) / 2
	near(t, "low at 0.001", *wide.Low, 2-half, 1e-9)
	near(t, "high at 0.001", *wide.High, 2+half, 1e-9)
	for name, kept := range map[string]Interval{"few": AtLevel(r.Interval, 0, p, 0.001, 2), "p of 1": AtLevel(r.Interval, 0, 1, 0.001, 5), "level 0": AtLevel(r.Interval, 0, p, 0, 5)} {
		if *kept.Low != -1 || *kept.High != 5 {
			t.Errorf("%s: %v to %v", name, *kept.Low, *kept.High)
		}
	}
}

// Six pairs have a power of 80 % for 1.4352 deviations by R's power.t.test.
func TestShareForByHand(t *testing.T) {
	share, ok := ShareFor(6, 0.05, 0.8)
	if near(t, "share", share, 1.4352, 1e-3); !ok {
		t.Error("absent")
	}
	for _, c := range []struct {
		n            int
		alpha, power float64
	}{{2, 0.05, 0.8}, {6, 0, 0.8}, {6, 1, 0.8}, {6, 0.05, 1}, {6, 0.5, 0.5}} {
		if share, ok := ShareFor(c.n, c.alpha, c.power); ok {
			t.Errorf("%+v: %v", c, share)
		}
	}
}

func TestSpendingBounds(t *testing.T) {
	x := []float64{9, 11, 10, 12, 8}
	s := NewSpending(5, 5, 0.05)
	r, se := s.Bounds(x), math.Sqrt(2.5/5)
	near(t, "mean", r.Estimate, 10, 1e-9)
	near(t, "error", r.SE, se, 1e-9)
	near(t, "freedom", r.DF, 4, 0)
	interval(t, "bounds", r, 10-s.Last()*se, 10+s.Last()*se, 1e-9)
	r.Widen(2)
	interval(t, "widened", r, 10-2*s.Last()*se, 10+2*s.Last()*se, 1e-9)
	if same := s.Bounds([]float64{7, 7, 7, 7, 7}); same.Known() || same.Why != NoSpread {
		t.Errorf("without spread: %+v", same)
	}
	if none := s.Bounds(x[:4]); none.Known() || none.Why != TooFew {
		t.Errorf("before the first look: %+v", none)
	}
	// Four of eight pairs spend a quarter of the error: t of 3 and 0.05/4 is 4.177.
	if first := NewSpending(4, 8, 0.05).critical[4]; math.Abs(first-4.177) > 0.1 {
		t.Errorf("critical value of the first look: %v", first)
	}
}

// The autocorrelation of n values is (n·sum/squares+1)/(n-4) + 1/(2√n), at least 0 and at most 0.9.
func TestLasting(t *testing.T) {
	x := []float64{1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1} // six products of 1 and five of -1
	rho := (1.0*12/12+1)/8 + 0.5/math.Sqrt(12)
	near(t, "lasting", Lasting(x), math.Sqrt((1+rho)/(1-rho)), 1e-12)
	near(t, "a trend", Lasting([]float64{1, 2, 3, 4, 5, 6, 7, 8}), math.Sqrt(1.9/0.1), 1e-12) // at most 0.9
	near(t, "alternating", Lasting([]float64{1, -1, 1, -1, 1, -1, 1, -1, 1, -1}), 1, 0)
	near(t, "five values", Lasting([]float64{1, 2, 3, 4, 5}), 1, 0)
	near(t, "no spread", Lasting([]float64{3, 3, 3, 3, 3, 3}), 1, 0)
}

func TestHalfWidths(t *testing.T) {
	near(t, "of six", HalfWidth(2, 6, 0.95), 2.5706*2/math.Sqrt(6), 1e-4)
	near(t, "of two", HalfWidth(1, 2, 0.95), 12.7062/math.Sqrt2, 1e-4)
	near(t, "of an error", StudentHalfWidth(3, 5, 0.9), 2.0150*3, 1e-3)
	if h := HalfWidth(1, 1, 0.95); !math.IsInf(h, 1) {
		t.Errorf("of one: %v", h)
	}
	// Equal samples of four: error √(2·(20/3)/4) with 6 degrees of freedom; t 2.4469 and 0.9057.
	x := []float64{2, 4, 6, 8}
	d, ok := WelchDetectable(x, x, 0.05, 0.8)
	if near(t, "Welch", d, (2.4469+0.9057)*math.Sqrt(10.0/3), 2e-3); !ok {
		t.Error("absent")
	}
	for _, power := range []float64{0, 1} {
		if _, ok := WelchDetectable(x, x, 0.05, power); ok {
			t.Errorf("power %v", power)
		}
	}
	var i Interval
	i.set(-1, 3)
	for v, outside := range map[float64]bool{-1: false, 3: false, 0: false, -1.1: true, 3.1: true} {
		if i.Excludes(v) != outside {
			t.Errorf("%v is outside: %v", v, !outside)
		}
	}
}

// Clopper and Pearson: 2 of 10 has the bounds 0.0252 and 0.5561 (Documenta Geigy). A bound of 0 of 10 is 1 - 0.05^(1/10).
func TestShareBoundByTables(t *testing.T) {
	near(t, "upper of 2", ShareBound(2, 10, 0.025), 0.5561, 1e-4)
	near(t, "lower of 2", Count{K: 2, N: 10}.lower(0.025), 0.0252, 1e-4)
	near(t, "upper of 0", ShareBound(0, 10, 0.05), 1-math.Pow(0.05, 0.1), 1e-12)
	near(t, "upper of all", ShareBound(10, 10, 0.05), 1, 0)
	// 10 of 15 has the bounds 0.3838 and 0.8818. Half of the requests, each worth three times as much.
	r := CountRatio(Count{K: 10, N: 100, Scale: 6}, Count{K: 5, N: 50, Scale: 2}, 0.025)
	near(t, "ratio", r.Estimate, 3, 1e-12)
	near(t, "ratio low", *r.Low, 1.5*0.3838/(1-0.3838), 1e-3)
	near(t, "ratio high", *r.High, 1.5*0.8818/(1-0.8818), 1e-2)
}

// Twenty instants between 0 and 20, each seen by the last old answer at once and by the first new one within 5 ms.
func TestBoundsOfInstantsByHand(t *testing.T) {
	var all []Bounded
	for i := range 20 {
		all = append(all, Bounded{After: float64(i), Before: float64(i) + 5, Waits: []float64{0.1, 0.2, 0.3, 0.4}})
	}
	low, high, known := LatestBounds(all, 0.5)
	if near(t, "low of the median", low, 9, 0); !known || high > 14 || high < 9 {
		t.Errorf("median %v to %v", low, high)
	}
	low, high, known = EarliestBounds(all, 0.95)
	if near(t, "high of the 95th", high, 23, 0); !known || low < 18 || low > 23 {
		t.Errorf("95th %v to %v", low, high)
	}
	for n, want := range map[float64]int{0: 1, 0.05: 1, 0.5: 10, 0.51: 11, 1: 20} {
		if k := rank(20, n); k != want {
			t.Errorf("rank of %v: %d, want %d", n, k, want)
		}
	}
	// Of 20 instants none was seen within the wait of rank ⌈(1-0.005^(1/20))·81⌉ = 19 of 80 with 0.5 %.
	var waits []float64
	for i := range 80 {
		waits = append(waits, float64(i+1))
	}
	if d := missed(20, waits); d[0] != 19 {
		t.Errorf("missed by none: %v, want 19", d[0])
	}
	if d := missed(20, nil); len(d) != 0 {
		t.Errorf("without waits: %v", d)
	}
}

// The mean of a new run against earlier ones, whose means are 10, 12 and 14: Student's interval of a new observation.
func TestAgainstRunsByHand(t *testing.T) {
	runs := [][]float64{{9, 10, 11}, {11, 12, 13}, {13, 14, 15}}
	r := AgainstRuns([]float64{19, 20, 21}, runs, 0.95)
	se := math.Sqrt(4 * (1 + 1.0/3))
	near(t, "estimate", r.Estimate, 8, 1e-9)
	near(t, "error", r.SE, se, 1e-9)
	interval(t, "interval", r, 8-4.30265*se, 8+4.30265*se, 1e-4)
	// One trial in place of three: its variance of 1 counts in full, less the third of an earlier run.
	r = AgainstRuns([]float64{20}, runs, 0.95)
	near(t, "error of one trial", r.SE, math.Sqrt(4*(1+1.0/3)+1*(1-1.0/3)), 1e-9)
}
