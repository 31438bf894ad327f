package answer_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
)

// slower makes the data plane of envoy more expensive, by a factor for each block.
func slower(factor func(block int) float64) answertest.Study {
	s := answertest.Quickstart()
	s.Treatments, s.Blocks, s.Warmup, s.Measure, s.Rate, s.Drift = s.Treatments[:3], 16, 1, 1, 50, 0
	s.Change = func(r *result.Record) {
		for i := range r.Tasks {
			if u := &r.Tasks[i]; r.Treatment == "envoy" {
				u.End.CPU = u.Start.CPU + int64(float64(u.End.CPU-u.Start.CPU)*factor(r.Block))
			}
		}
	}
	return s
}

// What makes intervals too narrow is named, and independent blocks are not.
func TestDiagnoses(t *testing.T) {
	for name, c := range map[string]struct {
		factor func(block int) float64
		want   string
	}{
		"independent":                 {func(int) float64 { return 1 }, ""},
		"depends on the block before": {func(b int) float64 { return 1 + 0.1*math.Sin(math.Pi*float64(b)/4) }, "pairs-dependent"},
		"grows over the run":          {func(b int) float64 { return 1 + 0.02*float64(b) }, "effect-drifts"},
		"one block":                   {func(b int) float64 { return 1 + 0.5*math.Floor(float64(b)/11)*math.Floor(11/float64(b)) }, "outlier-block"},
	} {
		report := analyse(t, slower(c.factor))
		for _, code := range []string{"pairs-dependent", "effect-drifts", "outlier-block"} {
			if has := hasWarning(report.Warnings, code); has != (code == c.want) {
				t.Errorf("%s: %s is %v: %s", name, code, has, messages(report))
			}
		}
	}
}

func messages(r *answer.Report) string {
	var all []string
	for _, w := range r.Warnings {
		all = append(all, w.Message)
	}
	return strings.Join(all, "; ")
}
