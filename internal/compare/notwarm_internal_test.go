package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// A gate that rests on programs that were not warm is undecided, unless warm pairs alone decide alike.
func TestGatesOfColdPrograms(t *testing.T) {
	const blocks, message = 12, "the program is warm after about 48s"
	for name, c := range map[string]struct {
		gate    string
		change  float64
		cold    func(id string, block int) bool
		outcome Outcome
		doubted Outcome // "": no doubt
		doubt   string
	}{
		"B is cold and breaches":  {"cpu_us_per_request/data < +2%", 0.1, func(id string, _ int) bool { return id == "b" }, Undecided, Breached, "not-warm: 12 of 12 trials of b: " + message},
		"both are cold and hold":  {"cpu_us_per_request/data < +2%", 0, func(string, int) bool { return true }, Undecided, Holds, "not-warm: 12 of 12 trials of a: " + message + "; 12 of 12 trials of b: " + message},
		"A is cold and holds":     {"cpu_us_per_request/data < +2%", -0.1, func(id string, _ int) bool { return id == "a" }, Undecided, Holds, "not-warm: 12 of 12 trials of a: " + message},
		"one cold block breaches": {"cpu_us_per_request/data < +2%", 0.1, func(id string, block int) bool { return id == "b" && block == 1 }, Breached, "", ""},
		"two warm blocks":         {"cpu_us_per_request/data < +2%", 0.1, func(id string, block int) bool { return id == "b" && block > 2 }, Undecided, Breached, "not-warm: 10 of 12 trials of b: " + message},
		"no cold block breaches":  {"cpu_us_per_request/data < +2%", 0.1, func(string, int) bool { return false }, Breached, "", ""},
		"memory is not concerned": {"memory_mib/data < +2%", 0.1, func(string, int) bool { return true }, Breached, "", ""},
	} {
		a := &Run{
			Plan: plan.Plan{Blocks: blocks, Treatments: []plan.Treatment{{ID: "a"}, {ID: "b", Baseline: "a"}}}, Planned: blocks,
			estimator: estimator{confidence: 0.95, method: Paired, blocks: blocks},
		}
		a.File.Decide.Gates = []string{c.gate}
		for block := 1; block <= blocks; block++ {
			for id, change := range map[string]float64{"a": 0, "b": c.change} {
				v := 400 * (1 + change)
				if id == "b" { // pairs deviate a little
					v *= 1 + 0.001*float64(block*5%7)
				}
				trial := figures.Measured{Trial: figures.Trial{ID: fmt.Sprint(id, block), Treatment: id, Block: block, Valid: true, Metrics: map[string]float64{dataCPU: v, "memory_mib/data": v}}}
				if c.cold(id, block) {
					trial.Warnings = []figures.Warning{{Code: notWarm, Message: message, Metrics: metric.CPU()}}
				}
				a.Trials = append(a.Trials, trial)
			}
		}
		a.Records = make([]result.Record, len(a.Trials))
		d := must.Get(a.Decisions())(t)[0]
		if d.Outcome != c.outcome || d.Doubted != c.doubted || strings.Join(d.Doubts, "|") != c.doubt {
			t.Errorf("%s: %s, %q without %q; want %s, %q without %q", name, d.Outcome, d.Doubted, d.Doubts, c.outcome, c.doubted, c.doubt)
		}
	}
}

// A gate between runs rests on their warm trials too.
func TestGatesOfColdRuns(t *testing.T) {
	g := must.Get(ParseGate("cpu_us_per_request/data < +2%"))(t)
	for name, c := range map[string]struct {
		cold func(run, trial int) bool // run 3 is the new one
		want Outcome
	}{
		"warm":                      {func(int, int) bool { return false }, Breached},
		"the new run is cold":       {func(run, _ int) bool { return run == 3 }, Undecided},
		"a trial of each is cold":   {func(_, trial int) bool { return trial == 0 }, Breached},
		"two of the base runs cold": {func(run, _ int) bool { return run < 2 }, Undecided},
	} {
		r := rand.New(rand.NewPCG(5, 6))
		x := estimator{confidence: 0.95}
		var runs [][]figures.Measured
		for run := range 4 {
			var trials []figures.Measured
			for trial := range 6 {
				m := figures.Measured{Trial: figures.Trial{ID: fmt.Sprint(run, trial), Valid: true, Metrics: map[string]float64{dataCPU: 400 * (1 + 0.1*float64(run/3)) * math.Exp(0.002*r.NormFloat64())}}}
				if c.cold(run, trial) {
					m.Warnings = []figures.Warning{{Code: notWarm, Message: "cold", Metrics: metric.CPU()}}
				}
				trials = append(trials, m)
			}
			runs = append(runs, trials)
		}
		cs := changes(&x, plan.Treatment{ID: "b"}, false, runs[:3], runs[3])
		if len(cs) != 1 || cs[0].BaseRuns != stats.MinN {
			t.Fatalf("%s: %+v", name, cs)
		}
		if got := g.check(&cs[0].Comparison); got.Outcome != c.want || (c.want == Undecided) != strings.Contains(got.Why, notWarm) {
			t.Errorf("%s: %s (%s), want %s", name, got.Outcome, got.Why, c.want)
		}
	}
}
