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
// proportion to it, and so is the probe beside each trial, to shown (0..1) and an error.
// The treatment costs 10 more than the baseline, and slows the probe itself by shift.
type speedWalk struct {
	name         string
	step, noise  float64 // of the speed, relative; of a reading, absolute
	shown, error float64
	shift        float64
}

var speedWalks = []speedWalk{
	{"probe shows the drift of the processor", 0.04, 0.5, 1, 0.003, 0},
	{"probe shows half as much", 0.04, 1, 0.5, 0.01, 0},
	{"probe unrelated", 0.02, 2, 0, 0.03, 0},
	{"treatment shifts the probe by 2 %", 0.04, 0.5, 1, 0.003, 0.02},
	{"treatment shifts the probe by 3 %", 0.04, 0.5, 1, 0.003, 0.03},
}

// run returns the trials of both sides, and the difference at the mean speed of the run.
func (w speedWalk) run(r *rand.Rand, blocks int) (treatment, baseline []figures.Measured, truth float64) {
	slow, total := 0.0, 0.0
	for b := 1; b <= blocks; b++ {
		first := r.IntN(2)
		for _, side := range []int{first, 1 - first} {
			slow += w.step * r.NormFloat64()
			total += slow
			level, shift := 100.0, 0.0
			if side == 1 {
				level, shift = 110, w.shift
			}
			t := figures.Measured{Trial: figures.Trial{Block: b, Valid: true, Metrics: map[string]float64{
				simulated:        level*(1+slow) + w.noise*r.NormFloat64(),
				metric.ProbeTime: 12 * math.Exp(w.shown*slow+w.error*r.NormFloat64()+shift),
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

// A probe beside the trials neither moves nor narrows an interval, also if the treatment
// shifts the probe. Adjusted for such a probe, intervals of 95 % covered 0.82 at 3 %.
func TestCoverageWithAProbe(t *testing.T) {
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
			t.Logf("%-40s %2d blocks: covers %.3f", w.name, blocks, got)
			if math.Abs(got-0.95) > slack+0.01 {
				t.Errorf("%s, %d blocks: a 95 %% interval covers %.3f", w.name, blocks, got)
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
