package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/analysis"
	"github.com/tare-mesh/tare/internal/analysis/analysistest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func reportOf(t *testing.T, s analysistest.Study) *analysis.Report {
	t.Helper()
	r, err := analysis.Analyze(s.Write(t, filepath.Join(t.TempDir(), "run")), analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; `go test ./internal/report -update` rewrites it if the new one is right\n%s", path, got)
	}
}

func TestTextGolden(t *testing.T) {
	quick := reportOf(t, analysistest.Quickstart())
	for _, c := range []struct {
		file string
		r    *analysis.Report
		o    Options
	}{
		{"quickstart.txt", quick, Options{}},
	} {
		var b bytes.Buffer
		if err := writeText(&b, c.r, c.o); err != nil {
			t.Fatal(err)
		}
		golden(t, c.file, b.Bytes())
	}
}
