package predict

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/statstest"
)

// truths are costs over the rate, each of one form.
var truths = map[string]func(rate float64) float64{
	"line":       func(x float64) float64 { return 20 + 0.15*x },
	"wake-ups":   func(x float64) float64 { return 5 + 0.05*x + 4*math.Sqrt(x) },
	"contention": func(x float64) float64 { return 20 + 0.1*x + 0.00008*x*x },
}

// simulated are deployments that differ by 3 %, with 2 % of noise in each trial.
func simulated(r *rand.Rand, blocks int, rates []float64, truth func(float64) float64) (points []Point) {
	for b := range blocks {
		level := 1 + 0.03*r.NormFloat64()
		for _, x := range rates {
			points = append(points, Point{b, []float64{x}, truth(x) * level * (1 + 0.02*r.NormFloat64())})
		}
	}
	return points
}

// The band of a new deployment holds trials at rates that were not measured, in 90 to 98 % of cases. Without some trials, as
// invalid ones are, the bands of fewer deployments do too: each other trial is used.
func TestBandsHoldNewDeployments(t *testing.T) {
	for name, lost := range map[string]func(r *rand.Rand, rate float64) bool{
		"all trials":           func(*rand.Rand, float64) bool { return false },
		"any trial lost":       func(r *rand.Rand, _ float64) bool { return r.Float64() < 0.1 },
		"highest rate is lost": func(r *rand.Rand, rate float64) bool { return rate == 2000 && r.Float64() < 0.3 },
	} {
		t.Run(name, func(t *testing.T) { bandsHold(t, lost) })
	}
}

// bandsHold loses trials, and requires that bands hold new deployments.
func bandsHold(t *testing.T, lost func(r *rand.Rand, rate float64) bool) {
	t.Helper()
	rounds := statstest.Rounds(t, 400, 2000)
	rates := []float64{100, 200, 500, 1000, 2000}
	r := rand.New(rand.NewPCG(1, 2))
	for name, truth := range truths {
		held, n, used := 0, 0, 0
		for range rounds {
			points := slices.DeleteFunc(simulated(r, 8, rates, truth), func(p Point) bool { return lost(r, p.At[0]) })
			c := must.Get(Fit(points, []string{"rate"}, 0.95))(t)
			used += c.Blocks
			x := 100 * math.Pow(20, r.Float64())
			band := must.Get(c.At(x))(t)
			next := simulated(r, 1, []float64{x}, truth)[0].Cost
			if n++; next >= band.NewLow && next <= band.NewHigh {
				held++
			}
		}
		if share := float64(held) / float64(n); share < 0.90 || share > 0.98 {
			t.Errorf("%s: the band holds %.3f of new deployments, want 0.90 to 0.98", name, share)
		}
		if mean := float64(used) / float64(n); mean < 7 { // 8 without those that lost two trials of five: 7.3
			t.Errorf("%s: curves have %.1f of 8 blocks", name, mean)
		}
	}
}

// Costs over the rate and the number of connections: bands at points of both axes that were not measured hold new
// deployments, and an axis on which costs do not depend has no term.
func TestCurvesOverTwoAxes(t *testing.T) {
	rounds := statstest.Rounds(t, 150, 500)
	r := rand.New(rand.NewPCG(5, 6))
	for name, c := range map[string]struct {
		truth  func(rate, connections float64) float64
		reason string // of the axis, empty for none
	}{
		"memory of each connection": {func(rate, connections float64) float64 { return 40 + 0.004*rate + 0.1*connections }, "work that grows with connections"},
		"dearer requests":           {func(rate, connections float64) float64 { return 20 + rate*(0.1+0.0004*connections) }, "work of every request that grows with connections"},
		"no effect":                 {func(rate, _ float64) float64 { return 20 + 0.15*rate }, ""},
	} {
		deployment := func(block int, at [][]float64) (points []Point) {
			level := 1 + 0.03*r.NormFloat64()
			for _, x := range at {
				points = append(points, Point{block, x, c.truth(x[0], x[1]) * level * (1 + 0.02*r.NormFloat64())})
			}
			return points
		}
		var grid [][]float64
		for _, rate := range []float64{100, 300, 1000, 2000} {
			for _, connections := range []float64{4, 32, 256} {
				grid = append(grid, []float64{rate, connections})
			}
		}
		held, found := 0, 0
		for range rounds {
			var points []Point
			for b := range 8 {
				points = append(points, deployment(b, grid)...)
			}
			curve := must.Get(Fit(points, []string{"rate", "connections"}, 0.95))(t)
			if _, reason, _ := strings.Cut(curve.Reason, "; "); reason == c.reason {
				found++
			}
			at := []float64{100 * math.Pow(20, r.Float64()), 4 * math.Pow(64, r.Float64())}
			band := must.Get(curve.At(at...))(t)
			if next := deployment(0, [][]float64{at})[0].Cost; next >= band.NewLow && next <= band.NewHigh {
				held++
			}
		}
		if share := float64(held) / float64(rounds); share < 0.90 || share > 0.985 {
			t.Errorf("%s: the band holds %.3f of new deployments, want 0.90 to 0.98", name, share)
		}
		if share := float64(found) / float64(rounds); share < 0.8 {
			t.Errorf("%s: %.2f of the curves have %q, want 0.8", name, share, c.reason)
		}
	}
}

// Without noise, each truth is found by its form, and between the rates too.
func TestFormsAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, truth := range truths {
		var points []Point
		for b := range 6 {
			level := 1 + 0.03*r.NormFloat64()
			for _, x := range []float64{100, 200, 500, 1000, 2000} {
				points = append(points, Point{b, []float64{x}, truth(x) * level})
			}
		}
		c := must.Get(Fit(points, []string{"rate"}, 0.95))(t)
		band := must.Get(c.At(700))(t)
		if c.Form != name || truth(700) < band.NewLow || truth(700) > band.NewHigh {
			t.Errorf("%s is found as %s, and is %v at 700, with %+v", name, c.Form, truth(700), band)
		}
	}
}

func TestCurvesRefuse(t *testing.T) {
	rates := []float64{100, 200, 500}
	for name, c := range map[string]struct {
		points []Point
		rate   float64
		want   string
	}{
		"above":       {simulated(rand.New(rand.NewPCG(1, 1)), 4, rates, truths["line"]), 501, "501 requests/s are outside the measured range of 100 to 500"},
		"below":       {simulated(rand.New(rand.NewPCG(1, 1)), 4, rates, truths["line"]), 99, "outside the measured range"},
		"no number":   {simulated(rand.New(rand.NewPCG(1, 1)), 4, rates, truths["line"]), math.NaN(), "outside the measured range"},
		"two blocks":  {simulated(rand.New(rand.NewPCG(1, 1)), 2, rates, truths["line"]), 200, "a curve over rates needs 3 blocks (repetitions), and the run has 2"},
		"two rates":   {simulated(rand.New(rand.NewPCG(1, 1)), 4, rates[:2], truths["line"]), 150, "a curve over rates needs usable trials at 3 rates, and the run has them at 2 (tare report prints why trials or their response times are left out)"},
		"no cost":     {simulated(rand.New(rand.NewPCG(1, 1)), 4, rates, func(float64) float64 { return 0 }), 200, "no numbers above zero"},
		"invalid":     {simulated(rand.New(rand.NewPCG(1, 1)), 3, rates, truths["line"])[2:], 200, "a curve over rates needs 3 blocks (repetitions) with usable trials at 2 of 3 loads, and the run has 2 of 3 (tare report prints why trials or their response times are left out)"},
		"no trial":    {nil, 200, "no valid trial of the run has it"},
		"lost trials": {simulated(rand.New(rand.NewPCG(1, 1)), 3, rates, truths["line"])[1:], 200, ""},
	} {
		curve, err := Fit(c.points, []string{"rate"}, 0.95)
		if err == nil {
			_, err = curve.At(c.rate)
		}
		switch {
		case err == nil && c.want != "":
			t.Errorf("%s: no error", name)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case err != nil && hint.Of(err) == "" && name != "no cost" && name != "no trial":
			t.Errorf("%s: %v has no hint", name, err)
		}
	}
}

// The changes of the experiment make a run enough for a curve, also if as many blocks have an invalid trial again.
func TestChangesAreEnoughForCurves(t *testing.T) {
	for want, few := range map[string]FewError{
		"blocks=6":                           {Rates: 3, Loads: 3, Blocks: 1, Complete: 1},
		"blocks=7":                           {Rates: 3, Loads: 6, Blocks: 5, Complete: 1},
		"factors.rate=[100, 220, 490, 1000]": {Rates: 1, Loads: 1, Blocks: 4, Complete: 4},
	} {
		if got := few.Changes(); len(got) != 1 || got[0] != want {
			t.Errorf("%+v: %q, want %s", few, got, want)
		}
	}
}

// Published figures of an Istio sidecar at 1000 to 5000 requests/s (istio.io, 15335), as docs/how-to/size-a-proxy.md
// discusses them: how far each form misses them, and that curved forms need a negative term.
func TestPublishedCurve(t *testing.T) {
	var points []Point
	for i, cores := range []float64{0.18, 0.30, 0.40, 0.43, 0.45} {
		points = append(points, Point{At: []float64{1000 * float64(i+1)}, Cost: cores})
	}
	c := &Curve{Axes: []Axis{{Name: "rate", From: 1000, To: 5000, Levels: 5}}}
	for i, want := range []struct {
		missed   float64
		negative bool
	}{{0.13, false}, {0.04, true}, {0.025, true}} {
		f := rateForms[i]
		k, ok := c.fitTo(f, points)
		if !ok {
			t.Fatalf("%s has no fit", f.name)
		}
		most, negative := 0.0, false
		for _, p := range points {
			most = max(most, math.Abs(c.value(f, k, p.At)/p.Cost-1))
		}
		for _, factor := range k {
			negative = negative || factor < 0
		}
		if math.Abs(most-want.missed) > 0.005 || negative != want.negative {
			t.Errorf("%s misses by %.3f with terms %.3f, want %.3f", f.name, most, k, want.missed)
		}
	}
	must.Fail(t, must.Err(Fit(points, []string{"rate"}, 0.95)), "a curve over rates needs 3 blocks (repetitions), and the run has 1")
}
