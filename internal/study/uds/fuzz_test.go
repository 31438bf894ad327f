package uds

import (
	"testing"

	"github.com/tare-mesh/tare/test/importertest"
)

func FuzzLog(f *testing.F) {
	f.Add([]byte(head + "2025-01-02 03:04:05,nginx,9,55\n2025-01-02 03:04:10,nginx,9m,12m,55Mi,20Mi\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parse("fuzz.log", b); err == nil {
			importertest.Possible(t, s)
		}
	})
}
