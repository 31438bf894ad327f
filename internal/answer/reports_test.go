package answer_test

import (
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// Reports of results directories with known truth: intervals contain it, the A/A pair's contain zero, and
// few reports claim a difference between equal treatments. The whole way from counters and latency logs is
// in it. The bounds come from the binomial distribution at one in a thousand.
func TestReportsOfKnownTruth(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("writes 4800 trials; TARE_TEST_ALL runs it")
	}
	const reports = 200
	const total = "cpu_us_per_request/total"
	aaMissed, missed, claimed := 0, 0, 0
	for i := range reports {
		s := answertest.Quickstart()
		s.Treatments = s.Treatments[:4]
		s.Treatments[3].Truth = s.Treatments[0].Truth // a mesh that costs nothing
		s.Seed, s.Blocks, s.Warmup, s.Measure, s.Rate, s.Noise, s.Drift, s.Walk = uint64(1000+i), 6, 0, 1, 50, 0.03, 0.1, 0.02
		d := s.Write(t, filepath.Join(t.TempDir(), "run"))
		r, err := answer.Analyze(d, compare.Options{})
		d.Close()
		must.OK(t, err)
		find := func(treatment string) compare.Comparison {
			c, ok := r.Find(treatment, total)
			if !ok || c.Difference == nil || !c.Difference.Known() {
				t.Fatalf("report %d: %s: %+v", i, treatment, c)
			}
			return c
		}
		if find("none-control").Difference.Excludes(0) {
			aaMissed++
		}
		// Costs are in proportion to the level of the machine, whose mean is 5 % above its beginning. The walk
		// moves it further, so the truth is a ratio.
		if c := find("envoy"); c.Ratio.Excludes((66.0 + 180) / 60) {
			missed++
		}
		for _, c := range r.Comparisons {
			if c.Treatment == "envoy-plaintext" && c.Family == compare.Headline && (c.Verdict == compare.Higher || c.Verdict == compare.Lower) {
				claimed++
				break
			}
		}
	}
	t.Logf("%d reports: %d A/A intervals without zero, %d without the true ratio, %d reports with a false claim", reports, aaMissed, missed, claimed)
	for what, n := range map[string]int{"A/A intervals without zero": aaMissed, "intervals without the true ratio": missed, "reports with a false claim": claimed} {
		if chance := (distuv.Binomial{N: reports, P: 0.05}).Survival(float64(n - 1)); chance < 0.001 {
			t.Errorf("%s: %d of %d", what, n, reports)
		}
	}
}
