package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/statstest"
)

// A simulation makes the trials of many experiments and compares them as a report does.
// It is in memory: 10,000 experiments take seconds.
const simulated = metric.CPUPerRequest + "/total"

// speedWalk is a machine whose speed changes by 4 % from trial to trial. Readings are in
// proportion to it. The treatment costs 10 more than the baseline.
type speedWalk struct{ step, noise float64 } // of the speed, relative; of a reading, absolute

var speedWalks = []speedWalk{
	{0.04, 0.5}, {0.04, 1}, {0.02, 2},
}

// run returns the trials of both sides, and the difference at the mean speed of the run.
func (w speedWalk) run(r *rand.Rand, blocks int) (treatment, baseline []figures.Measured, truth float64) {
	slow, total := 0.0, 0.0
	for b := 1; b <= blocks; b++ {
		first := r.IntN(2)
		for _, side := range []int{first, 1 - first} {
			slow += w.step * r.NormFloat64()
			total += slow
			level := 100.0
			if side == 1 {
				level = 110
			}
			t := figures.Measured{Trial: figures.Trial{Block: b, Valid: true, Metrics: map[string]float64{
				simulated: level*(1+slow) + w.noise*r.NormFloat64(),
			}}}
			if side == 1 {
				treatment = append(treatment, t)
			} else {
				baseline = append(baseline, t)
			}
		}
	}
	return treatment, baseline, 10 * (1 + total/float64(2*blocks))
}

// Intervals cover the difference at the mean speed of a machine that drifts.
func TestCoverageUnderDrift(t *testing.T) {
	experiments := statstest.Rounds(t, 250, 4000)
	slack := 4 * math.Sqrt(0.05*0.95/float64(experiments))
	for _, w := range speedWalks {
		for _, blocks := range []int{6, 8, 12, 20} {
			r := rand.New(rand.NewPCG(20261121, uint64(blocks)))
			x := estimator{confidence: 0.95, method: Paired, blocks: blocks}
			covered := 0
			for range experiments {
				treatment, baseline, truth := w.run(r, blocks)
				cs := x.compare(plan.Treatment{ID: "envoy", Baseline: "none"}, plan.Treatment{ID: "none"}, treatment, baseline)
				if !find(cs, simulated).Difference.Excludes(truth) {
					covered++
				}
			}
			got := float64(covered) / float64(experiments)
			t.Logf("%+v, %2d blocks: covers %.3f", w, blocks, got)
			if math.Abs(got-0.95) > slack+0.01 {
				t.Errorf("%+v, %d blocks: a 95 %% interval covers %.3f", w, blocks, got)
			}
		}
	}
}

func find(cs []compared, name string) *compared {
	for i := range cs {
		if cs[i].Metric == name {
			return &cs[i]
		}
	}
	return nil
}
