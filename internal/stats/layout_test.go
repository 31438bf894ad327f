package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/test/statstest"
)

// missing are values of 6 blocks and 4 treatments, of which some are missing, with noise that grows with the treatment.
func missing(r *rand.Rand, noise, share float64) [][]float64 {
	values := make([][]float64, 6)
	for b := range values {
		level := 100 * r.NormFloat64()
		for s := range 4 {
			v := level + 10*float64(s) + noise*float64(s+1)*r.NormFloat64()
			if r.Float64() < share {
				v = math.NaN()
			}
			values[b] = append(values[b], v)
		}
	}
	return values
}

// stepBy are the weights of the mean difference of treatments s and s-1 over the blocks that have both.
func stepBy(values [][]float64, s, before int) [][]float64 {
	weights := make([][]float64, len(values))
	n := 0.0
	for b := range values {
		weights[b] = make([]float64, len(values[b]))
		if !math.IsNaN(values[b][s] + values[b][before]) {
			n++
			weights[b][s], weights[b][before] = 1, -1
		}
	}
	for b := range weights {
		for i := range weights[b] {
			weights[b][i] /= max(n, 1)
		}
	}
	return weights
}

func TestLayoutContrastCovers(t *testing.T) {
	runs := statstest.Rounds(t, 1000, 4000)
	r := rand.New(rand.NewPCG(3, 3))
	for _, pair := range [][2]int{{1, 0}, {3, 0}, {3, 2}} {
		known, covered := 0.0, 0.0
		for range runs {
			values := missing(r, 1, 0.1)
			got := LayoutContrast(values, stepBy(values, pair[0], pair[1]), 0.95)
			if got.Known() {
				known++
				if !got.Excludes(10 * float64(pair[0]-pair[1])) {
					covered++
				}
			}
		}
		if share := covered / known; known < 0.8*float64(runs) || math.Abs(share-0.95) > 0.035 {
			t.Errorf("treatments %v: %v of %d intervals, which cover %.3f", pair, known, runs, share)
		}
	}
}

func TestLayoutContrastWithoutInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	exact := missing(r, 0, 0)
	exact[2][1] = math.NaN()
	if got := LayoutContrast(exact, stepBy(exact, 3, 1), 0.95); math.Abs(got.Estimate-20) > 1e-9 || got.Known() || got.Why != NoSpread {
		t.Errorf("without noise: %+v", got)
	}
	few := missing(r, 1, 0)
	for b := 2; b < len(few); b++ {
		few[b][1] = math.NaN()
	}
	if got := LayoutContrast(few, stepBy(few, 1, 0), 0.95); got.Known() || got.Why != TooFew {
		t.Errorf("two values: %+v", got)
	}
	if got := LayoutContrast(nil, nil, 0.95); got.Known() || got.Why != TooFew {
		t.Errorf("nothing: %+v", got)
	}
}
