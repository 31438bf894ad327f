package stats_test

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/stats"
)

// CPU time of a request in µs, with a sidecar and without, in six blocks.
func ExamplePairedDifference() {
	sidecar, none := []float64{152, 149, 155, 151, 150, 153}, []float64{101, 99, 104, 100, 101, 101}
	r := stats.PairedDifference(sidecar, none, 0.95)
	fmt.Printf("+%.1f µs [%.1f, %.1f], p below 0.001: %t\n", r.Estimate, *r.Low, *r.High, *r.P < 0.001)
	// Output: +50.7 µs [49.6, 51.8], p below 0.001: true
}

// Two of ten requests failed. With 95 % confidence, the share of failures is at most 0.507.
func ExampleShareBound() {
	fmt.Printf("%.3f\n", stats.ShareBound(2, 10, 0.05))
	// Output: 0.507
}
