package report

import (
	"testing"

	"github.com/tare-mesh/tare/internal/answer/stats"
)

func around(estimate, half float64) stats.Interval {
	low, high := estimate-half, estimate+half
	return stats.Interval{Estimate: estimate, Low: &low, High: &high}
}

// Two digits of the uncertainty, the estimate to the same place.
func TestFigures(t *testing.T) {
	for _, c := range []struct {
		i          stats.Interval
		scale      float64
		constant   bool
		figure     string
		difference string
		bounds     string
	}{
		{around(142.1234, 2.871), 1, false, "142.1 ±2.9", "+142.1", "[+139.3, +145.0]"},
		{around(-0.04, 0.31), 1, false, "-0.04 ±0.31", "-0.04", "[-0.35, +0.27]"},
		{around(-0.0004, 0.31), 1, false, "0.00 ±0.31", "0.00", "[-0.31, +0.31]"},
		{around(12345.6, 234.6), 1, false, "12346 ±235", "+12346", "[+12111, +12580]"},
		{around(299.98765, 0.0000012), 1, false, "299.988 ±<0.001", "+299.988", "[+299.988, +299.988]"},
		{around(0.00012, 0.00003), 100, false, "0.0120 ±0.0030", "+0.0120", "[+0.0090, +0.0150]"},
		{around(0, 0.5), 1, false, "0.00 ±0.50", "0.00", "[-0.50, +0.50]"},
		{stats.Interval{Estimate: 47.98}, 1, false, "48.0 ±?", "+48.0", ""},
		{stats.Interval{Estimate: 300}, 1, true, "300", "+300", ""},
		{stats.Interval{Estimate: 1234567}, 1, false, "1234567 ±?", "+1234567", ""},
		{stats.Interval{}, 1, false, "0", "0", ""},
	} {
		if got := figure(c.i, c.scale, c.constant); got != c.figure {
			t.Errorf("figure %q, want %q", got, c.figure)
		}
		if got := difference(c.i, c.scale); got != c.difference {
			t.Errorf("difference %q, want %q", got, c.difference)
		}
		if got := bounds(c.i, c.scale, signed); got != c.bounds {
			t.Errorf("bounds %q, want %q", got, c.bounds)
		}
	}
	for v, want := range map[float64]string{0.0304: "0.030", 1.44: "1.4", 14.4: "14", 144: "144", 0: "0.0"} {
		if got := rough(v); got != want {
			t.Errorf("rough(%v) = %q, want %q", v, got, want)
		}
	}
}
