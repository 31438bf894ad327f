package main

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
)

// Of five runs those with the largest maxima are dropped, whatever their p99.
func TestMeanDrops(t *testing.T) {
	five := []trial{{p99: 1, most: 50}, {p99: 2, most: 10}, {p99: 3, most: 20}, {p99: 4, most: 40}, {p99: 8, most: 30}}
	if all, kept := mean(five, 0), mean(five, 2); all != 3.6 || math.Abs(kept-13.0/3) > 1e-9 {
		t.Errorf("%v and %v, want 3.6 and 4.33", all, kept)
	}
}

// Two sides of equal runs differ by nothing on average, and a planted difference stays, with and without the rule. The rule
// leaves three runs of five, so that the range of the differences becomes wider where the maxima are independent of the p99.
func TestDifferences(t *testing.T) {
	var equal, slower []trial
	for i := range 20 {
		x := float64(i*7%20) / 10
		equal = append(equal, trial{p99: x, most: float64(i * 13 % 20)})
		slower = append(slower, trial{p99: x + 5, most: float64(i * 13 % 20)})
	}
	width := func(d []float64) float64 { return stats.Quantile(d, 0.975) - stats.Quantile(d, 0.025) }
	all, kept := differences(equal, equal, true, 0), differences(equal, equal, true, dropped)
	if math.Abs(stats.Mean(all)) > 0.01 || math.Abs(stats.Mean(kept)) > 0.01 || width(kept) < 1.1*width(all) {
		t.Errorf("A/A: %s and %s", words(all), words(kept))
	}
	for _, drop := range []int{0, dropped} {
		if d := differences(equal, slower, false, drop); math.Abs(stats.Mean(d)-5) > 0.02 {
			t.Errorf("%d dropped: %s, want 5", drop, words(d))
		}
	}
}
