package verify

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// The median of the seconds is that of the measure phase. If a phase begins or ends within a second, it is the longest of
// them: the run may have counted that second.
func TestMedianOfSeconds(t *testing.T) {
	l := &timeline{p50: map[int]float64{0: 2, 1: 3, 2: 169, 3: 400}}
	for _, c := range []struct {
		warmup, measure float64
		want            time.Duration
	}{{1, 1, 3 * time.Millisecond}, {0, 3, 3 * time.Millisecond}, {0.2, 2, 400 * time.Millisecond}, {1, 1.5, 400 * time.Millisecond}} {
		if got := medianOf(&result.Record{Load: &result.Load{WarmupSeconds: c.warmup, MeasureSeconds: c.measure}}, l); got != c.want {
			t.Errorf("warm-up %v s, measure phase %v s: %v, want %v", c.warmup, c.measure, got, c.want)
		}
	}
}
