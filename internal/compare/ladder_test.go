package compare

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/statstest"
)

// increments of a simulated ladder, µs, one of them zero and one negative.
var increments = []float64{40, 0, 210, -15, 60}

// climbed makes the trials of a ladder: blocks share the state of the machine, and each
// deployment adds noise of its own. missing leaves out trials.
func climbed(r *rand.Rand, blocks int, missing float64) (*Run, map[string][]figures.Measured) {
	a := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: blocks}}
	by := map[string][]figures.Measured{}
	for s := range len(increments) + 1 {
		t := plan.Treatment{ID: fmt.Sprint("s", s), Factors: plan.Factors{"mesh": fmt.Sprint("s", s), "rate": 100.0}, Baseline: "s0"}
		if s == 0 {
			t.Baseline = ""
		}
		a.Plan.Treatments = append(a.Plan.Treatments, t)
	}
	twin := a.Plan.Treatments[0]
	twin.ID, twin.Control, twin.Baseline = "s0-control", true, "s0"
	a.Plan.Treatments = append(a.Plan.Treatments, twin)
	for b := 1; b <= blocks; b++ {
		machine := 30 * r.NormFloat64()
		level := 100.0
		for s := range len(increments) + 1 {
			if s > 0 {
				level += increments[s-1]
			}
			if r.Float64() < missing {
				continue
			}
			id := fmt.Sprint("s", s)
			by[id] = append(by[id], figures.Measured{Trial: figures.Trial{Block: b, Treatment: id, Valid: true, Metrics: map[string]float64{simulated: level + machine + 5*r.NormFloat64()}}})
		}
	}
	return a, by
}

// Intervals of the steps and of the whole cover the truth, and with complete blocks the steps add up to the whole.
func TestLadderCoversTheTruth(t *testing.T) {
	experiments := statstest.Rounds(t, 500, 2000)
	total := 0.0
	for _, v := range increments {
		total += v
	}
	for _, missing := range []float64{0, 0.1} {
		r := rand.New(rand.NewPCG(7, uint64(missing*100)))
		covered, known, whole, wholes, rests, false_ := make([]float64, len(increments)), make([]float64, len(increments)), 0.0, 0.0, 0.0, 0.0
		bounded, noise := 0.0, 0.0 // rests with an interval, and those whose interval contains zero
		for range experiments {
			a, by := climbed(r, 8, missing)
			ladders, err := a.ladders(by)
			if err != nil || len(ladders) != 1 {
				t.Fatalf("%+v, %v", ladders, err)
			} else if d := difftest.Of("len(ladders[0].Steps)", len(ladders[0].Steps), len(increments)+1, "len(ladders[0].Metrics)", len(ladders[0].Metrics), 1); d != "" {
				t.Fatalf("%s: %+v, %v", d, ladders, err)
			}
			m := ladders[0].Metrics[0]
			sum := 0.0
			for i, c := range m.Increments {
				sum += c.Difference.Estimate
				if c.Difference.Known() {
					known[i]++
					if !c.Difference.Excludes(increments[i]) {
						covered[i]++
					}
				}
			}
			if m.Increments[1].Verdict == Higher || m.Increments[1].Verdict == Lower {
				false_++
			}
			if m.Whole.Known() {
				wholes++
				if !m.Whole.Excludes(total) {
					whole++
				}
			}
			if *m.Rest != 0 {
				rests++
			}
			if m.RestInterval != nil && m.RestInterval.Known() {
				bounded++
				if !m.RestInterval.Excludes(0) {
					noise++
				}
				if math.Abs(m.RestInterval.Estimate-*m.Rest) > 1e-9 {
					t.Fatalf("rest %v, with interval %v", *m.Rest, m.RestInterval.Estimate)
				}
			}
			if math.Abs(sum-m.Sum) > 1e-9 || math.Abs(m.Sum+*m.Rest-m.Whole.Estimate) > 1e-9 {
				t.Fatalf("steps %v, sum %v, rest %v, whole %v", sum, m.Sum, *m.Rest, m.Whole.Estimate)
			}
		}
		slack := 4 * math.Sqrt(0.05*0.95/float64(experiments))
		for i := range increments {
			if got := covered[i] / known[i]; math.Abs(got-0.95) > slack {
				t.Errorf("missing %v: the interval of step %d covers %.3f", missing, i+1, got)
			}
		}
		if got := whole / wholes; math.Abs(got-0.95) > slack {
			t.Errorf("missing %v: the interval of the whole covers %.3f", missing, got)
		}
		if got := false_ / float64(experiments); got > 0.05+slack {
			t.Errorf("missing %v: a step without effect is shown in %.3f of the ladders", missing, got)
		}
		// Blocks with unlike missing steps leave few degrees of freedom, so the interval may be wide.
		if got := noise / bounded; bounded > 0 && (got < 0.95-slack || got > 0.985) {
			t.Errorf("missing %v: the interval of the rest contains zero in %.3f", missing, got)
		}
		if bounded < 0.9*rests {
			t.Errorf("missing %v: %v of %v rests have an interval", missing, bounded, rests)
		}
		if complete := missing == 0; complete != (rests == 0) {
			t.Errorf("missing %v: %v ladders have a rest", missing, rests)
		}
	}
}

// A step without any valid trial leaves its cost, and the cost of the next step, in the rest.
func TestLadderWithoutAStep(t *testing.T) {
	a, by := climbed(rand.New(rand.NewPCG(2, 1)), 6, 0) // one of the 95 % of seeds
	delete(by, "s3")
	ladders := must.Get(a.ladders(by))(t)
	m := ladders[0].Metrics[0]
	if m.Increments[2].Difference != nil || m.Increments[3].Difference != nil || m.Increments[2].Verdict != Insufficient {
		t.Errorf("%+v", m.Increments)
	}
	if want := increments[2] + increments[3]; math.Abs(*m.Rest-want) > 20 || m.RestInterval.Excludes(want) || !m.RestInterval.Excludes(0) {
		t.Errorf("rest %+v, want about %v", m.RestInterval, want)
	}
}

// A step that adds the same in every block has no interval, and the exact p-value of its number.
func TestLadderStepWithoutSpread(t *testing.T) {
	a, by := climbed(rand.New(rand.NewPCG(1, 1)), 8, 0)
	for s, trials := range by {
		for i := range trials {
			trials[i].Metrics[simulated] = map[string]float64{"s0": 1, "s1": 3, "s2": 3, "s3": 4, "s4": 2, "s5": 2}[s]
		}
	}
	ladders := must.Get(a.ladders(by))(t)
	m := ladders[0].Metrics[0]
	for i, want := range []Verdict{Higher, NotShown, Higher, Lower, NotShown} {
		if got := m.Increments[i]; got.Verdict != want || got.Difference.Known() {
			t.Errorf("step %d: %+v, want %s", i+1, got, want)
		}
	}
	if m.Sum != 1 || *m.Rest != 0 || m.RestInterval != nil {
		t.Errorf("sum %v, rest %v %+v", m.Sum, *m.Rest, m.RestInterval)
	}
}

// The steps keep the order of the file with the baseline first, one ladder for each rate.
func TestLadderOrder(t *testing.T) {
	a, by := climbed(rand.New(rand.NewPCG(1, 1)), 4, 0)
	ts := a.Plan.Treatments
	ts[0], ts[2] = ts[2], ts[0]
	faster := ts[1]
	faster.ID, faster.Baseline, faster.Factors = "faster", "", plan.Factors{"mesh": "s1", "rate": 200.0}
	a.Plan.Treatments = append(ts, faster)
	ladders, err := a.ladders(by)
	if err != nil || len(ladders) != 1 {
		t.Errorf("%+v, %v", ladders, err)
	} else if d := difftest.Of("fmt.Sprint(ladders[0].Steps)", fmt.Sprint(ladders[0].Steps), "[s0 s2 s1 s3 s4 s5]", `ladders[0].Factors["rate"]`, ladders[0].Factors["rate"], 100.0); d != "" {
		t.Errorf("%s: %+v, %v", d, ladders, err)
	}
	a.estimator.method = Unpaired
	if _, err := a.ladders(by); !errors.Is(err, errNoLadder) {
		t.Errorf("unpaired: %v", err)
	}
}
