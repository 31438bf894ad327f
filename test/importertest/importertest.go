// Package importertest checks what importers read.
package importertest

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
)

// Possible fails on an impossible figure, which a reader must reject.
func Possible(t *testing.T, s *result.Sampled) {
	t.Helper()
	last := s.Rows[0].At
	for _, r := range s.Rows {
		if r.At.Before(last) {
			t.Error("the time goes back")
		}
		last = r.At
		for _, vs := range [][]*float64{r.Cores, r.Memory} {
			if vs != nil && len(vs) != len(s.Tasks) {
				t.Fatal("a row is not as wide as its tasks")
			}
			for _, v := range vs {
				if v != nil && !(*v >= 0 && *v < math.MaxFloat64) {
					t.Errorf("figure %v", *v)
				}
			}
		}
	}
}
