package figures

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// A trial that defers work for longer than its warm-up lacks a part of it. A small share of the cost widens the interval, and a
// large one withholds the CPU.
func TestBoundLoss(t *testing.T) {
	trial := func(warmup float64) *sliced {
		return &sliced{
			record: &result.Record{BurstSeconds: 4, Placing: &result.Placing{Seconds: warmup}},
			rows: []result.Slice{
				{Own: true, Begin: seconds(0), End: seconds(1), CPU: map[metric.Plane]int64{metric.App: 20e6}},
				{Begin: seconds(1), End: seconds(3)},
			},
			limits: map[metric.Plane]Limit{},
		}
	}
	for _, c := range []struct {
		name                    string
		warmup, deferred, above float64 // s
		withheld                bool
	}{
		{"a small share", 1, 0.4e-3, 0.8e-3, false},
		{"a large share", 1, 0.6e-3, 0, true},
		{"a long warm-up", 4, 10e-3, 0, false},
	} {
		x := trial(c.warmup)
		boundLoss([]*sliced{x}, metric.App, c.deferred)
		if got := x.limits[metric.App].Above; math.Abs(got-c.above) > 1e-9 || (x.withheld != nil) != c.withheld {
			t.Errorf("%s: a limit of %v s, withheld %v, want %v s and %v", c.name, got, x.withheld != nil, c.above, c.withheld)
		}
	}
	// A burst in one of four trials may be of the machine. Later trials with a long warm-up have none.
	for n, withheld := range map[int]bool{4: false, 3: false, 2: true} {
		trials := []*sliced{trial(1)}
		for len(trials) < 4 {
			warmup := 1.0
			if len(trials) >= n {
				warmup = 8
			}
			other := trial(warmup)
			other.record.BurstSeconds = 0
			trials = append(trials, other)
		}
		if boundLoss(trials, metric.App, 1e-3); (trials[0].withheld != nil) != withheld {
			t.Errorf("a burst in one of %d trials with a short warm-up: withheld %v, want %v", n, !withheld, withheld)
		}
	}
}
