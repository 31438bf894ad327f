package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
)

// The proposed allocation is the best of all, by simulation: its mean interval is as narrow as any other
// in the same time.
func TestBestAllocation(t *testing.T) {
	const seconds = 120.0
	for _, c := range []Components{
		{Row: 0.09, Deployment: 0.02, Price: BlockPrice{4, 0.3}, Level: 0.05},
		{Row: 0.09, Deployment: 0.10, Price: BlockPrice{4, 0.3}, Level: 0.05},
		{Row: 0.30, Deployment: 0.01, Price: BlockPrice{4, 0.3}, Level: 0.05},
	} {
		best, ok := c.Best(seconds, 10, 0.95)
		if !ok || c.Seconds(best.Blocks, best.Rows) > seconds {
			t.Fatalf("%+v: %+v, %v", c, best, ok)
		}
		proposed := simulatedHalf(c, best)
		for _, rows := range []int{10, 20, 40, 55} {
			other := Allocation{int(seconds / c.Seconds(1, rows)), rows}
			if half := simulatedHalf(c, other); proposed > 1.05*half {
				t.Errorf("%+v: %+v gives ±%.4f, %+v ±%.4f", c, best, proposed, other, half)
			}
		}
		if half := c.HalfWidth(best.Blocks, best.Rows, 0.95); math.Abs(half/proposed-1) > 0.06 {
			t.Errorf("%+v: expected ±%.4f, simulated ±%.4f", best, half, proposed)
		}
	}
}

// simulatedHalf is the mean half width over many runs of blocks with rows.
func simulatedHalf(c Components, a Allocation) float64 {
	r := rand.New(rand.NewPCG(1, 2))
	sum := 0.0
	const runs = 800
	for range runs {
		x := make([]float64, a.Blocks)
		for i := range x {
			x[i] = 1 + c.Deployment*r.NormFloat64() + c.Row/math.Sqrt(float64(a.Rows))*r.NormFloat64()
		}
		half, _ := stats.MeanInterval(x, 0.95).HalfWidth()
		sum += half
	}
	return sum / runs
}

// The cheapest allocation shows the difference, and none of the neighbours is cheaper.
func TestCheapestAllocation(t *testing.T) {
	c := Components{Row: 0.09, Deployment: 0.02, Price: BlockPrice{4, 0.3}, Level: 0.05}
	best, ok := c.Cheapest(0.03, 10)
	if !ok {
		t.Fatal("none")
	}
	if n, _ := stats.BlocksFor(0.03/c.Spread(best.Rows), c.Level, stats.Power); best.Blocks < n {
		t.Errorf("%+v, and %d blocks are needed", best, n)
	}
	for _, rows := range []int{10, 15, 20, 30, 40, 80} {
		n, _ := stats.BlocksFor(0.03/c.Spread(rows), c.Level, stats.Power)
		if n = max(n, fewestBlocks); c.Seconds(n, rows) < c.Seconds(best.Blocks, best.Rows) {
			t.Errorf("%d blocks of %d rows take %.0f s, %+v %.0f s", n, rows, c.Seconds(n, rows), best, c.Seconds(best.Blocks, best.Rows))
		}
	}
}
