package debate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/study/debate/debatetest"
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

func FuzzCSV(f *testing.F) {
	for _, q := range []debatetest.Sequence{{Mesh: "linkerd"}, {Mesh: "ambient", Nodes: 2}, {Mesh: "unmeshed", LF: true}} {
		f.Add(q.CSV(60, debatetest.Start, rand.New(rand.NewPCG(1, 2)))[:4000])
		q.Seconds = 60
		f.Add(q.CSV(60, debatetest.Start, rand.New(rand.NewPCG(1, 2))))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := parseTable("fuzz.csv", b)
		if err != nil {
			return
		}
		s, _, err := table.planes()
		if err != nil {
			return
		}
		possible(t, s)
		tr := importer.Trial{Record: result.Record{Valid: true, Sampled: s}}
		phases(&tr, table, importer.Options{}, nil)
	})
}
