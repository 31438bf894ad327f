package report

import (
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
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
		{around(142.1234, 2.871), 1, false, "142.1 ±2.9", "+142.1", "±2.9"},
		{around(-0.04, 0.31), 1, false, "-0.04 ±0.31", "-0.04", "±0.31"},
		{around(-0.0004, 0.31), 1, false, "0.00 ±0.31", "0.00", "±0.31"},
		{around(12345.6, 234.6), 1, false, "12350 ±230", "+12350", "±230"},
		{around(51234, 12345), 1, false, "51000 ±12000", "+51000", "±12000"},
		{around(12, 4567), 1, false, "0 ±4600", "0", "±4600"},
		{around(299.98765, 0.0000012), 1, false, "299.988 ±<0.001", "+299.988", "±<0.001"},
		{around(0.00012, 0.00003), 100, false, "0.0120 ±0.0030", "+0.0120", "±0.0030"},
		{around(28.42, 27.61), 1, false, "28.4 ±27.6", "+28.4", "±27.6"}, // not "28 ±28"
		{around(0, 0.5), 1, false, "0.00 ±0.50", "0.00", "±0.50"},
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

// The ends of a ratio have digits of their own, and an interval that excludes no difference does not end there.
func TestRatioBounds(t *testing.T) {
	of := func(low, estimate, high float64) stats.Interval {
		return stats.Interval{Estimate: estimate, Low: &low, High: &high}
	}
	for _, c := range []struct {
		i                  stats.Interval
		ratio, ratioBounds string
	}{
		{of(0.448, 4.13, 38.02), "4.1x", "0.45 to 38"},
		{of(4.189, 4.3273, 4.471), "4.33x", "4.19 to 4.47"},
		{of(0.6, 4.3, 40), "4.3x", "0.60 to 40"},
		{of(1.002, 4.3, 40), "4.3x", "1.002 to 40"},
		{of(0.91, 0.95, 0.9991), "0.950x", "0.910 to 0.999"},
		{of(0.8, 0.9, 1.0004), "0.90x", "0.80 to 1.0004"},
		{of(0.000012, 0.00003, 12), "0.000030x", "0.000012 to 12.0"},
		{of(1e-14, 1e-13, 2), "1.0e-13x", "1.0e-14 to 2.00"},
		{of(0, 0, 2), "0x", "0 to 2.0"},
	} {
		if r, b := ratio(c.i), ratioBounds(c.i); r != c.ratio || b != c.ratioBounds {
			t.Errorf("%s %s, want %s %s", r, b, c.ratio, c.ratioBounds)
		}
	}
	for want, i := range map[string]stats.Interval{"+0.04 to +39.96": of(0.04, 21, 39.96), "-40 to 0": of(-40, -21, 0.04), "-39.96 to -0.04": of(-39.96, -21, -0.04)} {
		if got := bounds(i, 1, signed); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
