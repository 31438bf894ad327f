package debate

import (
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/debatetest"
	"github.com/tare-mesh/tare/test/importertest"
)

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
		importertest.Possible(t, s)
		tr := importer.Trial{Record: result.Record{Valid: true, Sampled: s}}
		phases(&tr, table, importer.Options{}, nil)
	})
}
