package predict

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/stats/statstest"
)

// planted are cores over the rate. No form has those from the logarithm on.
var planted = map[string]func(rate float64) float64{
	"line":        func(x float64) float64 { return 0.02 + 2e-4*x },
	"wake-ups":    func(x float64) float64 { return 0.02 + 1e-4*x + 3e-3*math.Sqrt(x) },
	"contention":  func(x float64) float64 { return 0.02 + 1.5e-4*x + 4e-8*x*x },
	"logarithm":   func(x float64) float64 { return 0.05 * math.Log(1+x/100) },
	"kink":        func(x float64) float64 { return 0.02 + 3e-4*min(x, 700) + 1e-4*max(0, x-700) },
	"slight kink": func(x float64) float64 { return 0.02 + 2.2e-4*min(x, 700) + 1.6e-4*max(0, x-700) },
	"knee":        func(x float64) float64 { return 0.02 + 1.5e-4*x + 6e-4*max(0, x-1400) },
}

// plantedPoints are deployments that differ by a share, with noise of trials.
func plantedPoints(r *rand.Rand, truth func(float64) float64, blocks int, rates []float64, deployment, trial float64) (points []Point) {
	for b := range blocks {
		level := 1 + deployment*r.NormFloat64()
		for _, x := range rates {
			points = append(points, Point{b, []float64{x}, truth(x) * level * (1 + trial*r.NormFloat64())})
		}
	}
	return points
}

// The band of the mean holds planted costs between the measured rates, also those that no form has, and is narrow where a
// form has them.
func TestBandsHoldWhatNoFormHas(t *testing.T) {
	rounds := statstest.Rounds(t, 100, 2000)
	least := 0.93
	if rounds < 2000 {
		least -= 2 * math.Sqrt(0.93*0.07/float64(rounds))
	}
	five := []float64{100, 220, 490, 1100, 2000}
	four := []float64{100, 400, 1000, 2000}
	for _, c := range []struct {
		truth  string
		blocks int
		rates  []float64
		at     []float64
		quiet  bool
		widest float64 // mean of half of the band, as a share
	}{
		{"wake-ups", 6, []float64{100, 1000, 2000}, []float64{110, 250, 600, 1500}, false, 0.22},
		{"logarithm", 6, []float64{100, 600, 2000}, []float64{110, 250, 1100}, false, 0.32},
		{"kink", 6, []float64{100, 600, 2000}, []float64{250, 700, 1100}, false, 0.25},
		{"line", 5, []float64{100, 600, 2000}, []float64{250, 1300}, false, 0.08},
		{"logarithm", 6, four, []float64{150, 250, 700, 1600}, false, 0.06},
		{"kink", 6, four, []float64{150, 250, 700, 1600}, false, 0.14},
		{"line", 3, five, []float64{800}, false, 0.08},
		{"line", 5, five, []float64{150, 800, 1600}, false, 0.045},
		{"line", 8, five, []float64{150, 800, 1600}, false, 0.03},
		{"wake-ups", 6, five, []float64{150, 800, 1600}, false, 0.04},
		{"contention", 6, five, []float64{150, 800, 1600}, false, 0.04},
		{"logarithm", 6, five, []float64{110, 150, 250, 800, 1600}, false, 0.055},
		{"kink", 6, five, []float64{110, 150, 490, 700, 800, 1600}, false, 0.11},
		{"knee", 6, five, []float64{110, 150, 490, 800, 1600, 1900}, false, 0.32},
		{"line", 6, four, []float64{150, 700, 1600}, true, 0.01},
		{"logarithm", 6, four, []float64{150, 250, 700, 1600}, true, 0.05},
		{"logarithm", 6, five, []float64{110, 150, 250, 800, 1600}, true, 0.05},
		{"slight kink", 6, five, []float64{110, 150, 490, 700, 800, 1600}, true, 0.05},
	} {
		truth, deployment, trial := planted[c.truth], 0.03, 0.015
		if c.quiet {
			deployment, trial = 0.004, 0.003
		}
		r := rand.New(rand.NewPCG(11, uint64(c.blocks)))
		held, width := make([]float64, len(c.at)), make([]float64, len(c.at))
		forms := map[string]int{}
		for range rounds {
			curve := must.Get(Fit(plantedPoints(r, truth, c.blocks, c.rates, deployment, trial), []string{"rate"}, 0.95))(t)
			forms[curve.Form]++
			for i, x := range c.at {
				band := must.Get(curve.At(x))(t)
				if band.Low <= truth(x) && truth(x) <= band.High {
					held[i] += 1 / float64(rounds)
				}
				width[i] += (band.High - band.Low) / 2 / truth(x) / float64(rounds)
			}
		}
		t.Logf("%-11s %d blocks %v at %v: held %.3f ±%.3f %v", c.truth, c.blocks, c.rates, c.at, held, width, forms)
		for i, x := range c.at {
			if held[i] < least || width[i] > c.widest {
				t.Errorf("%s, %d blocks at %v: the band at %g holds %.3f, want %.3f, and is ±%.3f, want up to %.3f", c.truth, c.blocks, c.rates, x, held[i], least, width[i], c.widest)
			}
		}
		if len(c.rates) == 3 && forms[formBetween] != rounds {
			t.Errorf("%s: three rates have the forms %v", c.truth, forms)
		}
	}
}

// More blocks narrow the part of a band that is noise: not what three rates leave open.
func TestMoreBlocksLeaveTheFormOpen(t *testing.T) {
	points := plantedPoints(rand.New(rand.NewPCG(31, 32)), planted["wake-ups"], 6, []float64{100, 1000, 2000}, 0.001, 0.001)
	curve := must.Get(Fit(points, []string{"rate"}, 0.95))(t)
	size := Size{Curve: curve, Place: []float64{250}, CPU: must.Get(curve.At(250))(t)}
	// From 0.0858 to 0.1104 cores, by the lines through both neighbours and through the next two rates: ±12.5 % of the middle.
	if half, gap := widest([]Size{size}); math.Abs(gap-0.125) > 0.004 || half < gap || half-gap > 0.005 {
		t.Errorf("±%.4f, of which the form leaves ±%.4f open, want ±0.125", half, gap)
	}
}

// A cause is printed for a form that beats each other bend, and has factors of work.
func TestReasonsNeedRivalsAndWork(t *testing.T) {
	rates := []float64{100, 220, 490, 1100, 2000}
	r := rand.New(rand.NewPCG(21, 22))
	for _, c := range []struct {
		truth func(float64) float64
		rates []float64
		want  string
	}{
		{planted["wake-ups"], rates, rateForms[1].reason},
		{planted["contention"], rates, rateForms[2].reason},
		{planted["line"], rates, rateForms[0].reason},
		{planted["line"], rates[:3], "3 rates fit any, and a fourth would exclude some"},
		{planted["knee"], rates, "of unknown form between the measured rates: the nearest, contention, misses them by up to"},
		{planted["logarithm"], rates, "of unknown form: the nearest misses it by up to 0.9 %, in the blocks alike"},
		{func(x float64) float64 { return 0.02 + 3e-4*x - 5e-8*x*x }, rates, "fixed work, and work for every request that falls with the rate, for an unknown reason"},
		{func(x float64) float64 { return 0.1 + 6e-4*x - 5e-3*math.Sqrt(x) }, rates, "fixed work, and work for every request that grows with the rate, for an unknown reason"},
	} {
		curve := must.Get(Fit(plantedPoints(r, c.truth, 6, c.rates, 0.004, 0.0005), []string{"rate"}, 0.95))(t)
		if !strings.Contains(curve.Reason, c.want) {
			t.Errorf("%s: %q, want %q", curve.Form, curve.Reason, c.want)
		}
	}
}

// Between two levels a cost lies between the line through both and the nearer of the next two lines, computed by hand.
func TestEndsBetweenRates(t *testing.T) {
	for name, c := range map[string]struct {
		costs     []float64 // at 1, 2, 4, 5
		at        float64
		low, high float64
	}{
		"measured":                     {[]float64{10, 14, 18, 19}, 2, 14, 14},
		"falling work":                 {[]float64{10, 14, 18, 19}, 3, 16, 17},           // left 18, right 17
		"growing work":                 {[]float64{10, 11, 17, 22}, 3, 12, 14},           // left 12, right 12
		"no more than the next":        {[]float64{10, 14, 15, 15.2}, 3.9, 14.95, 14.98}, // left 21.6, right 14.98
		"first interval":               {[]float64{10, 14, 18, 19}, 1.5, 12, 13},         // right 13, and 15 from 0 on
		"first interval, less from 0":  {[]float64{10, 14, 14.2, 14.3}, 1.1, 10.4, 11},   // right 13.91, and 11 from 0 on
		"last interval":                {[]float64{10, 11, 17, 22}, 4.5, 18.5, 19.5},     // left 18.5
		"bends both ways":              {[]float64{10, 14, 18, 22}, 3, 14, 18},           // left 18, right 14
		"costs that fall have no more": {[]float64{18, 14, 12, 12}, 3, 12, 13},           // left 10, right 12
	} {
		b := between{[]float64{1, 2, 4, 5}, c.costs}
		low, high := b.ends([]float64{c.at})
		if l, h := b.cost(low), b.cost(high); math.Abs(l-c.low) > 1e-9 || math.Abs(h-c.high) > 1e-9 {
			t.Errorf("%s: from %g to %g, want %g to %g", name, l, h, c.low, c.high)
		}
	}
}
