package uds

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
)

// possible fails on an impossible figure, which a reader must reject.
func possible(t *testing.T, s *result.Sampled) {
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

func FuzzLog(f *testing.F) {
	f.Add([]byte(head + "2025-01-02 03:04:05,nginx,9,55\n2025-01-02 03:04:10,nginx,9m,12m,55Mi,20Mi\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parse("fuzz.log", b); err == nil {
			possible(t, s)
		}
	})
}
