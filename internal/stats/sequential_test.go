package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/test/statstest"
)

// stopsAt runs blocks of one experiment from least to most until half of the
// interval's width is at most half, and the extra ones. It returns the interval
// and its blocks.
func stopsAt(r *rand.Rand, s shape, least, most int, half float64) (Result, int) {
	var x, y []float64
	end := most
	for b := range most {
		order := 1.0
		if r.IntN(2) == 0 {
			order = -1
		}
		t, base := s.pair(r, b, most, order)
		x, y = append(x, t), append(y, base)
		if b+1 < least {
			continue
		}
		d := PairedDifference(x, y, 0.95)
		if w, ok := d.HalfWidth(); ok && w <= half {
			end = min(end, b+1+ExtraBlocks)
		}
		if b+1 == end {
			return d, b + 1
		}
	}
	return Result{}, 0
}

// sequentialSD is about the deviation of a block's difference, by shape.
var sequentialSD = map[string]float64{"normal": 5, "drift of 10 %": 2.9, "heavy tails": 5.5, "correlated samples inside a trial": 2.4}

// A run that stops at a width covers nearly what one of fixed length does, and
// finds a difference of two equal systems at most as often as its level.
func TestCoverageWhenStoppingAtAWidth(t *testing.T) {
	experiments := statstest.Rounds(t, 2000, 10000)
	documented := statstest.Coverage(t)
	for _, s := range shapes {
		sd, ok := sequentialSD[s.name]
		if !ok {
			continue
		}
		for column, blocks := range []int{8, 12, 20} {
			// The mean half-width of a number of blocks.
			half := tQuantile(float64(blocks-1), 0.975) * sd / math.Sqrt(float64(blocks))
			r := rand.New(rand.NewPCG(20261123, uint64(blocks)))
			covered, used := 0, 0
			for range experiments {
				d, n := stopsAt(r, s, 6, 30, half)
				used += n
				if !d.Excludes(truth) {
					covered++
				}
			}
			got := float64(covered) / float64(experiments)
			t.Logf("%-36s ±%.1f: %.3f after %.1f blocks", s.name, half, got, float64(used)/float64(experiments))
			checkDocumented(t, documented["until, "+s.name], column, got, experiments)
			if got < 0.925 || got > 0.975 {
				t.Errorf("%s, ±%.1f: a 95 %% interval covers %.3f", s.name, half, got)
			}
		}
	}
}

// checkDocumented holds a figure to the table in docs/lab/coverage.md; fewer experiments may differ more.
func checkDocumented(t *testing.T, row []float64, column int, got float64, experiments int) {
	t.Helper()
	slack := 0.005 // another processor may round a few experiments the other way
	if experiments < 10000 {
		slack = 4 * math.Sqrt(0.05*0.95/float64(experiments))
	}
	if column >= len(row) || math.Abs(row[column]-got) > slack {
		t.Errorf("covers %.3f; docs/lab/coverage.md has %v in column %d", got, row, column+1)
	}
}
