package verify

import (
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// Answers by second of a round, as machines without idle CPU had them: late by slices, into the window or
// beyond its end.
func TestAnswersOfARound(t *testing.T) {
	for _, c := range []struct {
		name            string
		backlog         int64
		completed       int64
		warmup, measure float64
		rates           []float64
		found           int
	}{
		{"answers of the warm-up in the window", 30, 150, 2, 4, []float64{45, 0, 60, 45, 45, 30, 0}, 0},
		{"answers after the window", 0, 80, 1, 2, []float64{40, 40, 16, 24, 0}, 0},
		{"no answer in time", 21, 0, 1, 2, []float64{24, 1, 8, 0, 0}, 0},
		{"half of the answers", 0, 40, 1, 2, []float64{40, 40, 40, 0}, 1},
		{"more than the seconds have", 0, 160, 1, 2, []float64{40, 40, 40, 0}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := int64(0)
			r := &result.Record{Load: &result.Load{Completed: c.completed, WarmupSeconds: c.warmup, MeasureSeconds: c.measure,
				BacklogStart: &c.backlog, BacklogEnd: &end, Slices: &result.OwnSlices{Count: 10, LengthSeconds: 0.1, GuardSeconds: 0.01},
				Classes: map[string]int64{string(load.OK): c.completed}}}
			line := timeline{rates: map[int]float64{}}
			for s, rate := range c.rates {
				line.rates[s] = rate
			}
			var f findings
			if f.answers("events.jsonl", r, &line); len(f.list) != c.found {
				t.Errorf("%+v", f.list)
			}
		})
	}
}
