package report_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/statstest"
)

// Six treatments that cost what their baseline costs: at most one report in twenty opens with a difference of any of them, in CPU
// or memory, or in response times, whose logs take minutes to write.
func TestHeadlinesOfNullTreatments(t *testing.T) {
	reports := statstest.Rounds(t, 8, 200)
	for name, data := range map[string]float64{"proxies": 180, "programs without a proxy": 0} {
		wrong := 0
		for seed := range uint64(reports) {
			truth := answertest.Truth{AppUS: 60, DataUS: data, LoadUS: 20, AppMiB: 14, DataMiB: data / 4, MedianMS: 0.5}
			s := answertest.Study{Name: "equal", Bare: data == 0 || reports < 200, Blocks: 6, Seed: 1000 + seed, Warmup: 1, Measure: 1, Rate: 50, Noise: 0.01, Drift: 0.1}
			for i := range 7 {
				level := fmt.Sprint("m", i)
				one := answertest.Treatment{ID: level, Factors: plan.Factors{"mesh": level}, Truth: truth}
				if i > 0 {
					one.Baseline = "m0"
				}
				s.Treatments = append(s.Treatments, one)
			}
			s.YAML = fmt.Sprintf("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: equal}\nblocks: %d\n", s.Blocks)
			claims := report.Claims(analyzed(t, s))
			for _, c := range claims {
				if c.Relation == compare.Higher || c.Relation == compare.Lower {
					t.Logf("%s, report %d: %s", name, seed, c.Sentence)
					wrong++
					break
				}
			}
			if len(claims) == 0 {
				t.Fatalf("%s: no claims", name)
			}
		}
		share := float64(wrong) / float64(reports)
		t.Logf("%s: a false headline in %d of %d reports", name, wrong, reports)
		if share > 0.05+3*math.Sqrt(0.05*0.95/float64(reports)) {
			t.Errorf("%s: a false headline in %d of %d reports", name, wrong, reports)
		}
	}
}
