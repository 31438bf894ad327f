package analysis_test

import (
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/analysis"
	"github.com/tare-mesh/tare/internal/analysis/analysistest"
)

// A long study: 500 trials of 10 s.
func BenchmarkAnalyze(b *testing.B) {
	s := analysistest.Quickstart()
	s.Blocks, s.Warmup, s.Measure, s.Rate = 100, 1, 10, 100
	d := s.Write(b, filepath.Join(b.TempDir(), "run"))
	for b.Loop() {
		if _, err := analysis.Analyze(d, analysis.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/float64(len(d.Plan().Trials)), "ms/trial")
}
