package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Anscombe, "Graphs in statistical analysis", The American Statistician 1973,
// first set: 3.0001 + 0.5001 x, standard errors 1.1247 and 0.1179.
func TestLineAnscombe(t *testing.T) {
	x := []float64{10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5}
	y := []float64{8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68}
	var ps []Point
	for i := range x {
		ps = append(ps, Point{x[i], y[i], 1, i})
	}
	fit := Line(ps, 0.95)
	near(t, "intercept", fit.Intercept.Estimate, 3.0000909, 1e-6)
	near(t, "slope", fit.Slope.Estimate, 0.5000909, 1e-6)
	const t975 = 2.2621572 // nine degrees of freedom
	half, _ := fit.Intercept.HalfWidth()
	near(t, "standard error of the intercept", half/t975, 1.1247468, 1e-5)
	half, _ = fit.Slope.HalfWidth()
	near(t, "standard error of the slope", half/t975, 0.1179055, 1e-6)
	if fit.Misfit != nil {
		t.Error("a lack of fit without replicates")
	}
}

// A weight of N counts like N equal observations, for the estimate.
func TestLineWeights(t *testing.T) {
	heavy := Line([]Point{{1, 2, 3, 0}, {2, 3, 1, 1}, {4, 8, 1, 2}}, 0.95)
	often := Line([]Point{{1, 2, 1, 0}, {1, 2, 1, 0}, {1, 2, 1, 0}, {2, 3, 1, 1}, {4, 8, 1, 2}}, 0.95)
	near(t, "slope", heavy.Slope.Estimate, often.Slope.Estimate, 1e-12)
	near(t, "intercept", heavy.Intercept.Estimate, often.Intercept.Estimate, 1e-12)
}

func TestLineAbsent(t *testing.T) {
	for name, ps := range map[string][]Point{
		"too few":       {{1, 1, 1, 0}, {2, 2, 1, 1}},
		"one x":         {{1, 1, 1, 0}, {1, 2, 1, 0}, {1, 3, 1, 0}},
		"NaN":           {{1, 1, 1, 0}, {2, math.NaN(), 1, 1}, {3, 3, 1, 2}},
		"no weight":     {{1, 1, 0, 0}, {2, 2, 1, 1}, {3, 3, 1, 2}},
		"exactly there": {{1, 1, 1, 0}, {2, 2, 1, 1}, {3, 3, 1, 2}},
	} {
		if fit := Line(ps, 0.95); fit.Slope.Known() || fit.Intercept.Known() || fit.Misfit != nil {
			t.Errorf("%s: %+v", name, fit)
		}
	}
}

// Five runs at each of five rates, with noise in proportion to the cost: intervals
// have their coverage. The check rejects a true line once in twenty studies, and
// nearly always if the points are not on a line.
func TestLineCoverageAndMisfit(t *testing.T) {
	const studies = 4000
	rates := []float64{60, 120, 240, 600, 1200}
	r := rand.New(rand.NewPCG(17, 1))
	covered, spoke, saw := [2]int{}, 0, 0
	for range studies {
		for _, bend := range []float64{0, 0.2} {
			var ps []Point
			for g, x := range rates {
				for range 5 {
					truth := 0.06 + 0.0022*x*(1-bend*x/1200)
					ps = append(ps, Point{x, truth * (1 + 0.04*r.NormFloat64()), 1, g})
				}
			}
			WeighByGroup(ps)
			fit := Line(ps, 0.95)
			misfit := *fit.Misfit < 0.05
			if bend > 0 {
				saw += count(misfit)
				continue
			}
			spoke += count(misfit)
			covered[0] += count(!fit.Intercept.Excludes(0.06))
			covered[1] += count(!fit.Slope.Excludes(0.0022))
		}
	}
	for i, c := range covered {
		if share := float64(c) / studies; share < 0.93 || share > 0.975 {
			t.Errorf("coverage of coefficient %d is %.3f", i, share)
		}
	}
	if share := float64(spoke) / studies; share < 0.02 || share > 0.09 {
		t.Errorf("the check speaks of a true line in %.3f of studies", share)
	}
	if share := float64(saw) / studies; share < 0.9 {
		t.Errorf("the check sees a bend in %.3f of studies only", share)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The band of a line at x follows from the intervals of slope and intercept and from Middle: it is the
// interval of the intercept of the same points moved by x.
func TestBandOfALine(t *testing.T) {
	points := []Point{{X: 100, Y: 11, Weight: 3}, {X: 100, Y: 12, Weight: 3}, {X: 300, Y: 29, Weight: 2}, {X: 300, Y: 33, Weight: 2}, {X: 600, Y: 61, Weight: 1}, {X: 600, Y: 58, Weight: 1}}
	fit := Line(points, 0.95)
	fixed, _ := fit.Intercept.HalfWidth()
	slope, _ := fit.Slope.HalfWidth()
	for _, x := range []float64{0, 100, fit.Middle, 450, 600} {
		moved := slices.Clone(points)
		for i := range moved {
			moved[i].X -= x
		}
		want, known := Line(moved, 0.95).Intercept.HalfWidth()
		got := math.Sqrt(fixed*fixed - math.Pow(fit.Middle*slope, 2) + math.Pow((x-fit.Middle)*slope, 2))
		if !known || math.Abs(got-want) > 1e-9*want {
			t.Errorf("at %v: half width %v, want %v", x, got, want)
		}
	}
}
