package load

import (
	"strconv"
	"testing"
)

// Bounds are the least of the series at or above a time, and short in print.
func TestBoundAbove(t *testing.T) {
	for ms, want := range map[float64]float64{0: 0.001, 0.0013: 0.0015, 0.15: 0.15, 0.151: 0.2, 0.55: 0.6, 1: 1, 1.01: 1.25, 8.1: 10, 99: 100, 59_999: 60_000} {
		if got := BoundAbove(ms, HistogramBounds); got != want {
			t.Errorf("%v: %v, want %v", ms, got, want)
		}
	}
	for ms := 0.001; ms < 1e5; ms *= 1.07 {
		if text := strconv.FormatFloat(BoundAbove(ms, HistogramBounds), 'g', -1, 64); len(text) > 7 {
			t.Errorf("%v: bound %s", ms, text)
		}
	}
}
