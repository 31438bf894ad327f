package predict

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/statstest"
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

// drawnTruths are costs over the rate with factors that are drawn at random. No form has those from the logarithm on.
var drawnTruths = map[string]func(r *rand.Rand) func(float64) float64{
	"line": func(r *rand.Rand) func(float64) float64 {
		own, each := 0.05*r.Float64(), 1e-4*(0.5+3*r.Float64())
		return func(x float64) float64 { return own + each*x }
	},
	"wake-ups": func(r *rand.Rand) func(float64) float64 {
		own, each, shared := 0.05*r.Float64(), 2e-4*r.Float64(), 5e-3*r.Float64()
		return func(x float64) float64 { return own + each*x + shared*math.Sqrt(x) }
	},
	"contention": func(r *rand.Rand) func(float64) float64 {
		own, each, waits := 0.05*r.Float64(), 1e-4*(0.5+2*r.Float64()), 1e-7*r.Float64()
		return func(x float64) float64 { return own + each*x + waits*x*x }
	},
	"logarithm": func(r *rand.Rand) func(float64) float64 {
		size, from := 0.1*(0.5+r.Float64()), 50+400*r.Float64()
		return func(x float64) float64 { return size * math.Log(1+x/from) }
	},
	"kink": func(r *rand.Rand) func(float64) float64 {
		own, at, before, after := 0.05*r.Float64(), 300+1500*r.Float64(), 1e-4*(0.5+3*r.Float64()), 1e-4*(0.5+3*r.Float64())
		return func(x float64) float64 { return own + before*min(x, at) + after*max(0, x-at) }
	},
	"power": func(r *rand.Rand) func(float64) float64 {
		size, power := 1e-3*(1+3*r.Float64()), 0.4+0.5*r.Float64()
		return func(x float64) float64 { return size * math.Pow(x, power) }
	},
}

// Costs, rates and the wanted rate are drawn at random, 60 runs of each: the band of the mean holds the cost.
func TestBandsAtRandomLevels(t *testing.T) {
	draws := statstest.Rounds(t, 10, 100)
	const runs = 60
	for _, name := range slices.Sorted(maps.Keys(drawnTruths)) {
		for _, rates := range []int{3, 4, 5} {
			r := rand.New(rand.NewPCG(41, uint64(rates)))
			held, worst, width := 0, runs, 0.0
			for range draws {
				truth, levels := drawnTruths[name](r), []float64{50 + 150*r.Float64()}
				for len(levels) < rates { // up to 2,000 or so
					levels = append(levels, levels[len(levels)-1]*math.Pow(16, (0.6+0.8*r.Float64())/float64(rates-1)))
				}
				at := levels[0] * math.Pow(levels[rates-1]/levels[0], r.Float64())
				here := 0
				for range runs {
					curve := must.Get(Fit(plantedPoints(r, truth, 6, levels, 0.03, 0.015), []string{"rate"}, 0.95))(t)
					band := must.Get(curve.At(at))(t)
					if band.Low <= truth(at) && truth(at) <= band.High {
						here++
					}
					width += (band.High - band.Low) / 2 / truth(at) / float64(runs*draws)
				}
				held, worst = held+here, min(worst, here)
			}
			share := float64(held) / float64(runs*draws)
			t.Logf("%-10s %d rates: the band holds %d of %d runs, %d of 60 at the worst levels, and is ±%.1f %%", name, rates, held, runs*draws, worst, 100*width)
			if share < 0.93 || worst < runs/2 {
				t.Errorf("%s, %d rates: the band holds %.3f, %d of 60 at the worst levels", name, rates, share, worst)
			}
		}
	}
}

// With a second axis the band over the rate holds planted costs too, between few rates as between the levels of one axis.
func TestBandsOverTwoAxesHoldWhatNoFormHas(t *testing.T) {
	rounds := statstest.Rounds(t, 60, 600)
	connections := []float64{4, 32, 64}
	for _, c := range []struct {
		truth string
		rates []float64
		at    []float64
	}{
		{"line", []float64{100, 400, 1000, 2000}, []float64{250, 16}},
		{"wake-ups", []float64{100, 400, 1000, 2000}, []float64{250, 16}},
		{"logarithm", []float64{100, 400, 1000, 2000}, []float64{250, 16}},
		{"kink", []float64{100, 400, 1000, 2000}, []float64{700, 16}},
		{"line", []float64{100, 600, 2000}, []float64{250, 16}},
		{"wake-ups", []float64{100, 1000, 2000}, []float64{250, 16}},
		{"logarithm", []float64{100, 600, 2000}, []float64{250, 16}},
		{"kink", []float64{100, 600, 2000}, []float64{1100, 16}},
	} {
		truth := func(x, n float64) float64 { return planted[c.truth](x) + 2e-4*n }
		r := rand.New(rand.NewPCG(51, uint64(len(c.rates))))
		held, refused, width := 0, 0, 0.0
		forms := map[string]int{}
		for range rounds {
			var points []Point
			for block := range 6 {
				level := 1 + 0.03*r.NormFloat64()
				for _, x := range c.rates {
					for _, n := range connections {
						points = append(points, Point{block, []float64{x, n}, truth(x, n) * level * (1 + 0.015*r.NormFloat64())})
					}
				}
			}
			curve, err := Fit(points, []string{"rate", "connections"}, 0.95)
			if err != nil {
				refused++
				continue
			}
			forms[curve.Form+curve.form.others]++
			band := must.Get(curve.At(c.at...))(t)
			if v := truth(c.at[0], c.at[1]); band.Low <= v && v <= band.High {
				held++
			}
			width += (band.High - band.Low) / 2 / truth(c.at[0], c.at[1]) / float64(rounds)
		}
		t.Logf("%-10s at %v: the band holds %d and is refused %d of %d times, ±%.1f %% %v", c.truth, c.rates, held, refused, rounds, 100*width, forms)
		if float64(held+refused) < 0.93*float64(rounds)-2*math.Sqrt(0.93*0.07*float64(rounds)) {
			t.Errorf("%s at %v: the band holds %d and is refused %d of %d times", c.truth, c.rates, held, refused, rounds)
		}
	}
}
