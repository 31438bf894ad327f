package compare

import (
	"encoding/json"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
)

// With few and very noisy pairs the smallest ratio exceeds every number: it is unknown, and the report
// can still be written.
func TestSmallestRatioOfWildPairs(t *testing.T) {
	x := estimator{confidence: 0.95}
	wild := stats.PairedRatio([]float64{1e9, 2, 3e5}, []float64{1, 1e8, 30}, 0.95)
	if s := x.smallest(wild, 0.001, true); s != nil {
		t.Errorf("%+v", s)
	}
	calm := stats.PairedRatio([]float64{102, 104, 103, 101}, []float64{100, 101, 100, 100}, 0.95)
	s := x.smallest(calm, 0.05, true)
	if s == nil || !s.Known() {
		t.Fatalf("%+v", s)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}
