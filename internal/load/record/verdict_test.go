package record

import (
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/schedule"
)

func TestGapDistance(t *testing.T) {
	all := func(p load.Profile) (starts []int64) {
		s := schedule.New(&p, nil, 0, 1)
		for range 5000 {
			starts = append(starts, s.Next())
		}
		return starts
	}
	gapsOf := func(p load.Profile, late func(k int) int64) float64 {
		g := newGaps()
		for k, at := range all(p) {
			g.Add(at+late(k), at)
		}
		return g.distance()
	}
	for _, arrivals := range []string{load.Constant, load.Poisson} {
		p := load.Profile{Rate: 1000, Arrivals: arrivals, Seed: 1}
		if d := gapsOf(p, func(int) int64 { return 20_000 }); d > 0.01 {
			t.Errorf("%s, all 20 µs late: distance %v", arrivals, d)
		}
		if d := gapsOf(p, func(k int) int64 { return int64(k%3) * 5_000 }); d > 0.02 {
			t.Errorf("%s, up to 10 µs late: distance %v", arrivals, d)
		}
		// Sends gathered into one burst every ten milliseconds.
		bursts := newGaps()
		for _, at := range all(p) {
			bursts.Add((at/10e6+1)*10e6, at)
		}
		if d := bursts.distance(); d < 0.5 {
			t.Errorf("%s in bursts: distance %v", arrivals, d)
		}
	}
}
