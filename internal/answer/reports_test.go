package answer_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/answer/answertest"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
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
		if err != nil {
			t.Fatal(err)
		}
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

// Intervals at the machine's mean speed contain the true cost at that speed, through results directories. The
// machine's speed drifts over the blocks, or changes from block to block, and the treatments of a block share it.
// Whether an interval is adjusted is chosen by its width, as always.
func TestReportsAtMeanSpeed(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("writes 32,400 trials; TARE_TEST_ALL runs it")
	}
	const reports = 300
	dir := t.TempDir()
	for _, shape := range []struct {
		name         string
		drift, burst float64 // of the logarithm: over the run, and its standard deviation from block to block
	}{{"drift of 20 %", 0.2, 0}, {"bursts of 6 %", 0, 0.06}} {
		for _, blocks := range []int{6, 12} {
			covered, adjusted := map[string]int{}, map[string]int{}
			for i := range reports {
				r := rand.New(rand.NewPCG(20261123, uint64(i)))
				costs, mean := map[int]float64{}, 0.0
				for b := 1; b <= blocks; b++ {
					costs[b] = math.Exp(shape.drift*(float64(b-1)/float64(blocks-1)-0.5) + shape.burst*r.NormFloat64())
					mean += costs[b] / float64(blocks)
				}
				s := answertest.Quickstart()
				s.Treatments = s.Treatments[:3]
				s.Seed, s.Blocks, s.Order, s.Warmup, s.Measure, s.Rate, s.Noise, s.Bare = uint64(1+i), blocks, experiment.OrderInterleaved, 0, 1, 1000, 0.02, true
				s.Speed = func(block int) float64 { return costs[block] }
				path := filepath.Join(dir, "run")
				d := s.Write(t, path)
				report, err := answer.Analyze(d, compare.Options{})
				d.Close()
				if err != nil {
					t.Fatal(err)
				}
				for name, truth := range map[string]float64{"cpu_us_per_request/data": 180 * mean, "cpu_us_per_request/total": (66 + 180 - 60) * mean} {
					c, ok := report.Find("envoy", name)
					if !ok || c.Difference == nil || !c.Difference.Known() {
						t.Fatalf("report %d: %s: %+v", i, name, c)
					}
					if !c.Difference.Excludes(truth) {
						covered[name]++
					}
					if c.Speed != nil {
						adjusted[name]++
					}
				}
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"cpu_us_per_request/data", "cpu_us_per_request/total"} {
				cell := fmt.Sprintf("%s, %d blocks, %s", shape.name, blocks, name)
				share, used := float64(covered[name])/reports, float64(adjusted[name])/reports
				t.Logf("%s: %.3f covered, %.2f adjusted", cell, share, used)
				if share < 0.93 || used < 0.5 {
					t.Errorf("%s: %.3f of 95 %% intervals contain the truth, %.2f are adjusted", cell, share, used)
				}
			}
		}
	}
}
