package runner

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// A counter that is refreshed every 10 to 20 s gives the CPU of each slice that has two refreshes, whatever its
// neighbours use. In shorter ones the edges are unknown, and they are counted.
func TestValuesAtEdges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		length time.Duration
		exact  bool
	}{{time.Minute, true}, {45 * time.Second, true}, {12 * time.Second, false}} {
		cores := []float64{0.5, 0.01, 0.02, 0.7, 0.01, 0.6}
		used := func(at time.Time) (ns float64) { // since long before the first slice
			ns = 1e9
			for i, share := range cores {
				in := min(max(at.Sub(start.Add(time.Duration(i)*c.length)), 0), c.length)
				ns += share * float64(in)
			}
			return ns
		}
		var readings []result.Reading
		for at := start.Add(-15 * time.Second); at.Before(start.Add(time.Duration(len(cores))*c.length + 30*time.Second)); {
			readings = append(readings, result.Reading{At: at, CPU: int64(used(at))})
			at = at.Add(10*time.Second + time.Duration(r.Float64()*float64(10*time.Second)))
		}
		var edges []time.Time
		for i := range len(cores) + 1 {
			edges = append(edges, start.Add(time.Duration(i)*c.length))
		}
		values, short := valuesAt(readings, edges)
		if len(values) != len(edges) || (short == 0) != c.exact {
			t.Fatalf("slices of %v: %d values, %d without two refreshes", c.length, len(values), short)
		}
		for i, share := range cores {
			got := float64(values[i+1]-values[i]) / float64(c.length)
			if off := got/share - 1; c.exact && (off > 1e-6 || off < -1e-6) {
				t.Errorf("slices of %v: slice %d used %.4f cores, want %.4f", c.length, i, got, share)
			}
		}
	}
	if values, short := valuesAt(nil, []time.Time{start, start.Add(time.Second)}); values != nil || short != 0 {
		t.Errorf("without a reading: %v, %d", values, short)
	}
}
