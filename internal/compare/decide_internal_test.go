package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/statstest"
)

// The errors of decisions over all looks are at most 5 %: false breaches at the limit, false holds at the limit and
// detect. The other cases are about power.
func TestDecisionErrors(t *testing.T) {
	rounds := statstest.Rounds(t, 500, 4000)
	gate := must.Get(ParseGate("cpu_us_per_request/data < +2%"))(t)
	for _, c := range []struct {
		name            string
		change, detect  float64 // true change; share
		noise           float64 // of a pair
		breached, holds [2]float64
		ends            int // pairs after which the time is over; 0: all, -1: all, decided at the end
	}{
		{"at the limit", 0.02, 0, 0.02, [2]float64{0, 0.05}, [2]float64{0, 0.05}, 0},
		{"at the limit, time over", 0.02, 0, 0.02, [2]float64{0.025, 0.05}, [2]float64{0.025, 0.05}, 10},
		{"at the limit, at the end", 0.02, 0, 0.02, [2]float64{0.025, 0.05}, [2]float64{0.025, 0.05}, -1},
		{"no difference, at the end", 0, 0, 0.02, [2]float64{0, 0.01}, [2]float64{0.9, 1}, -1},
		{"at the limit and detect", 0.04, 0.02, 0.02, [2]float64{0.9, 1}, [2]float64{0, 0.05}, 0},
		{"at the limit with detect", 0.02, 0.02, 0.02, [2]float64{0, 0.05}, [2]float64{0.9, 1}, 0},
		{"no difference", 0, 0, 0.02, [2]float64{0, 0.01}, [2]float64{0.9, 1}, 0},
		{"twice the limit", 0.04, 0, 0.02, [2]float64{0.9, 1}, [2]float64{0, 0.01}, 0},
		{"no difference, much noise", 0, 0, 0.1, [2]float64{0, 0.05}, [2]float64{0, 0.5}, 0},
	} {
		r := rand.New(rand.NewPCG(3, 5))
		w := gateTest{gate: gate, detect: c.detect, looks: 30, breach: decisionError, atEnd: c.ends < 0}
		count, pairs := map[Outcome]float64{}, 0
		for range rounds {
			var a, b []float64
			outcome := Undecided
			end := w.looks
			if c.ends > 0 {
				end = c.ends
			}
			for len(a) < end && outcome == Undecided {
				machine := 400 * (1 + 0.1*r.NormFloat64()) // differs between blocks, and is the same for both
				a = append(a, machine)
				b = append(b, machine*(1+c.change)*math.Exp(c.noise*r.NormFloat64()))
				w.last = len(a) == end
				d, _ := w.decide(b, a)
				outcome = d.Outcome
			}
			count[outcome] += 1 / float64(rounds)
			pairs += len(a)
		}
		t.Logf("%s: breached %.3f, holds %.3f, undecided %.3f, %.1f pairs", c.name, count[Breached], count[Holds], count[Undecided], float64(pairs)/float64(rounds))
		for outcome, want := range map[Outcome][2]float64{Breached: c.breached, Holds: c.holds} {
			margin := 3 * math.Sqrt(0.05*0.95/float64(rounds))
			if got := count[outcome]; got < want[0]-margin || got > want[1]+margin {
				t.Errorf("%s: %s in %.3f of runs, want %.2f to %.2f", c.name, outcome, got, want[0], want[1])
			}
		}
	}
}

// A gate on a decrease is the mirror of one on an increase.
func TestDecisionOfALowerBound(t *testing.T) {
	gate := must.Get(ParseGate("rate > -1%"))(t)
	w := gateTest{gate: gate, looks: 10, breach: decisionError}
	a, b := []float64{100, 100, 100, 100, 100, 100}, []float64{90, 91, 89.5, 90.2, 90.7, 90.1}
	if d, _ := w.decide(b, a); d.Outcome != Breached {
		t.Errorf("ten percent less: %+v", d)
	}
	if d, _ := w.decide(a, b); d.Outcome != Holds {
		t.Errorf("ten percent more: %+v", d)
	}
	if d, _ := w.decide([]float64{0, 1, 1, 1}, []float64{1, 1, 1, 1}); d.Outcome != Undecided || d.Why == "" {
		t.Errorf("a zero: %+v", d)
	}
}

// doubtful are runs whose pairs depend on one another, have outliers or shift. Their gates are mostly undecided, and seldom wrong.
var doubtful = []struct {
	name          string
	change, lasts float64    // true change without outliers; autocorrelation
	rare, larger  float64    // share of blocks that are larger
	shift         float64    // of the last three fifths of the planned blocks
	wrong         [2]float64 // largest shares of breaches and of holds; 0: not bounded
}{
	{name: "gate, autocorrelation 0.8, at the limit", change: 0.02, lasts: 0.8, wrong: [2]float64{0.16, 0.06}},
	{name: "gate, autocorrelation 0.6, at the limit", change: 0.02, lasts: 0.6, wrong: [2]float64{0.09, 0.06}},
	{name: "gate, autocorrelation 0.3, at the limit", change: 0.02, lasts: 0.3, wrong: [2]float64{0.09, 0.06}},
	{name: "gate, 8 % of blocks at +20 %, the others at the limit", change: 0.02, rare: 0.08, larger: 0.2},
	{name: "gate, 8 % of blocks at +20 %, the mean at the limit", change: 0.004, rare: 0.08, larger: 0.2}, // holds are wrong, and before the first rare block
	{name: "gate, 4 % of blocks at +50 %, the mean at the limit", change: 0.003, rare: 0.04, larger: 0.5}, // likewise
	{name: "gate, shift after 40 % of the run, the mean at the limit", shift: 0.0333, wrong: [2]float64{0.05, 0.05}},
	{name: "gate, independent, no change"},
}

// The pairs of a run break the assumptions of its gate: the test over all looks, with the diagnoses.
func TestDecisionsUnderDoubt(t *testing.T) {
	rounds := statstest.Rounds(t, 60, 600)
	documented := statstest.Coverage(t)
	const blocks, gate = 30, "cpu_us_per_request/data < +2%"
	for _, c := range doubtful {
		r := rand.New(rand.NewPCG(7, 9))
		count, inSpite := map[Outcome]float64{}, 0.0 // inSpite: holds with a rare block among the pairs
		for range rounds {
			a := &Run{
				Plan: plan.Plan{Treatments: []plan.Treatment{{ID: "a"}, {ID: "b", Baseline: "a"}}}, Planned: blocks,
				estimator: estimator{confidence: 0.95, method: Paired},
			}
			a.File.Decide.Gates = []string{gate}
			outcome, noise, seen := Undecided, r.NormFloat64(), false
			for block := 1; block <= blocks && outcome == Undecided; block++ {
				noise = c.lasts*noise + math.Sqrt(1-c.lasts*c.lasts)*r.NormFloat64()
				after := 400 * (1 + c.change) * math.Exp(0.02*noise)
				if r.Float64() < c.rare {
					after, seen = after*(1+c.larger), true
				}
				if block > blocks*2/5 {
					after *= 1 + c.shift
				}
				for id, v := range map[string]float64{"a": 400, "b": after} {
					a.Trials = append(a.Trials, figures.Measured{Trial: figures.Trial{ID: fmt.Sprint(id, block), Treatment: id, Block: block, Valid: true, Metrics: map[string]float64{dataCPU: v}}})
				}
				a.Records = make([]result.Record, len(a.Trials))
				a.Plan.Blocks, a.estimator.blocks, a.lastLook = block, block, blocks
				ds := must.Get(a.Decisions())(t)
				outcome = ds[0].Outcome
				if (ds[0].Doubts != nil) != (ds[0].Doubted != "") || ds[0].Doubts != nil && outcome != Undecided {
					t.Fatalf("%+v", ds[0])
				}
			}
			count[outcome] += 1 / float64(rounds)
			if seen && outcome == Holds {
				inSpite += 1 / float64(rounds)
			}
		}
		t.Logf("| %s | %.3f | %.3f | %.3f | (%.3f in spite)", c.name, count[Breached], count[Holds], count[Undecided], inSpite)
		margin := 0.0015 + 4*math.Sqrt(0.1*0.9/float64(rounds))
		if inSpite > 0.05+margin {
			t.Errorf("%s: holds in spite of a rare block in %.3f of runs", c.name, inSpite)
		}
		for i, outcome := range []Outcome{Breached, Holds, Undecided} {
			if d := documented[c.name]; len(d) < 3 || math.Abs(d[i]-count[outcome]) > margin*2 {
				t.Errorf("%s: docs/lab/coverage.md has %v, this is %.3f %s", c.name, d, count[outcome], outcome)
			}
			if outcome != Undecided && c.wrong[i] > 0 && count[outcome] > c.wrong[i]+margin {
				t.Errorf("%s: %s in %.3f of runs", c.name, outcome, count[outcome])
			}
		}
	}
}

// countedRun has blocks of trials of a and b, at each of which a number of requests of b fails with a class. Its trials with
// failures are invalid.
func countedRun(gate string, blocks int, requests int64, failures func(block int, id string) int64) *Run {
	a := &Run{
		Plan: plan.Plan{Blocks: blocks, Treatments: []plan.Treatment{{ID: "a"}, {ID: "b", Baseline: "a"}}}, Planned: 15,
		estimator: estimator{confidence: 0.95, method: Paired, blocks: blocks},
	}
	a.File.Decide.Gates = []string{gate}
	for block := 1; block <= blocks; block++ {
		for _, id := range []string{"a", "b"} {
			failed, trial := failures(block, id), fmt.Sprint(id, block)
			metrics := map[string]float64{"rate": 1000, "error_ratio": float64(failed) / float64(requests), "requests_lost": float64(failed), "memory_mib/data": 50}
			a.Trials = append(a.Trials, figures.Measured{Trial: figures.Trial{ID: trial, Treatment: id, Block: block, Valid: failed == 0, Metrics: metrics}})
			a.Records = append(a.Records, result.Record{ID: trial, Treatment: id, Block: block, Load: &result.Load{
				Loop: "open", AskedRate: 1000, Intended: requests, Completed: requests - failed, Classes: map[string]int64{"2xx": requests - failed, "timeout": failed},
			}})
		}
	}
	return a
}

// Where nothing fails on either side, gates on failures and on the rate are decided by exact bounds over requests: with
// n requests the share that fails is below 1-0.025^(1/n) with probability 97.5 %.
func TestDecisionsWithoutFailures(t *testing.T) {
	for _, c := range []struct {
		gate      string
		requests  int64 // of a trial, of six
		want      Outcome
		low, high float64
	}{
		{"error_ratio < +0.001", 615, Holds, -0.000999194, 0.000999194},
		{"error_ratio < +0.001", 614, Undecided, -0.001000821, 0.001000821},
		{"error_ratio < -0.01", 615, Breached, -0.000999194, 0.000999194},
		{"rate > -1%", 615, Holds, -0.0999194, 0.0999194},
		{"rate > -1%", 40, Undecided, -1.5253039, 1.5253039},
		{"rate > -2", 615, Holds, -0.999194, 0.999194},
		{"requests_lost < +1", 615, Holds, -0.614504, 0.614504},
		{"requests_lost < +5%", 615, Undecided, 0, 0},  // no percentage of zero
		{"memory_mib/data < +1", 615, Undecided, 0, 0}, // equal memory is coarse, and no count of requests
	} {
		run := countedRun(c.gate, 6, c.requests, func(int, string) int64 { return 0 })
		run.Planned = 12 // a gate holds from six on
		ds := must.Get(run.Decisions())(t)
		d := ds[0]
		if d.Outcome != c.want || len(ds) != 1 {
			t.Errorf("%s with %d requests: %+v", c.gate, c.requests, ds)
		}
		if c.high != 0 && (d.Change == nil || !d.Change.Known() || math.Abs(*d.Change.Low/c.low-1) > 1e-4 || math.Abs(*d.Change.High/c.high-1) > 1e-4) {
			t.Errorf("%s with %d requests: %v to %v", c.gate, c.requests, *d.Change.Low, *d.Change.High)
		}
	}
}

// A build that fails requests breaches after the first block, though all of its trials are invalid: 16 of 810 against
// none. The lower bound is 2/81 less the root of the squares of its distance from Clopper and Pearson's, and of theirs of
// 0 of 810.
func TestFailuresDecideAfterOneBlock(t *testing.T) {
	fails := func(n int64) func(int, string) int64 {
		return func(_ int, id string) int64 { return map[string]int64{"b": n}[id] }
	}
	for _, c := range []struct {
		gate     string
		blocks   int
		failures func(int, string) int64
		want     []Outcome
	}{
		{"error_ratio < 0.5%", 1, fails(16), []Outcome{Breached}},
		{"error_ratio < 1.5%", 1, fails(16), []Outcome{Undecided}},
		{"error_ratio < 1.5%", 15, fails(16), []Outcome{Breached}},
		{"error_ratio < 2.1%", 15, fails(16), []Outcome{Undecided}},
		{"error_ratio < 3.5%", 15, fails(16), []Outcome{Holds}},
		{"error_ratio < 3.5%", 3, fails(16), []Outcome{Undecided}}, // no gate holds before the fourth block
		{"timeouts < 5", 1, fails(16), []Outcome{Breached, Breached}},
		{"requests_lost < 5", 1, fails(16), []Outcome{Breached, Breached}},
		{"requests_lost < +50%", 1, fails(16), []Outcome{Breached, Breached}}, // from none
		{"rate > -0.5%", 1, fails(16), []Outcome{Breached, Breached}},         // the gate that every run has is beside it
		{"rate > -5", 1, fails(16), []Outcome{Breached, Breached}},
		{"memory_mib/data < +1", 1, fails(16), []Outcome{Undecided, Breached}},
		{"memory_mib/data < +1", 1, fails(1), []Outcome{Undecided}}, // one may be chance
		{"error_ratio < 0.5%", 15, func(block int, id string) int64 { // one burst in fifteen blocks
			return map[bool]int64{true: 300}[block == 9 && id == "b"]
		}, []Outcome{Undecided}},
		{"memory_mib/data < +1", 6, func(int, string) int64 { return 16 }, []Outcome{Undecided}}, // A fails as many
	} {
		run := countedRun(c.gate, c.blocks, 810, c.failures)
		ds := must.Get(run.Decisions())(t)
		var got []Outcome
		for _, d := range ds {
			got = append(got, d.Outcome)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s, %d blocks: %v, want %v: %+v", c.gate, c.blocks, got, c.want, ds)
		}
	}
	ds := must.Get(countedRun("error_ratio < 0.5%", 1, 810, fails(16)).Decisions())(t)
	if d := ds[0]; math.Abs(*d.B-16.0/810) > 1e-12 || *d.A != 0 || d.Pairs != 1 || !strings.Contains(d.Why, "16 of 810 requests failed, and 0 of 810") {
		t.Errorf("%+v", d)
	}
	// A failing baseline has its own bounds: 16 of 810 against 8 are no breach.
	both := func(_ int, id string) int64 { return map[string]int64{"a": 8, "b": 16}[id] }
	if ds = must.Get(countedRun("error_ratio < 0.5%", 1, 810, both).Decisions())(t); ds[0].Outcome != Undecided {
		t.Errorf("%+v", ds[0])
	}
	// Faults cause failures that are not independent, and a closed loop has no schedule: pairs decide.
	run := countedRun("rate > -1%", 6, 810, fails(16))
	for i := range run.Records {
		run.Records[i].Load.Loop = "closed"
	}
	if ds = must.Get(run.Decisions())(t); ds[0].Pairs != 0 {
		t.Errorf("%+v", ds[0])
	}
}

// Over all looks of a run, a gate on failures is wrong with at most its error, at the limit itself.
func TestErrorOfCountsOverLooks(t *testing.T) {
	rounds := statstest.Rounds(t, 400, 4000)
	r := rand.New(rand.NewPCG(11, 13))
	binomial := func(n int, p float64) (k int64) {
		for range n {
			if r.Float64() < p {
				k++
			}
		}
		return k
	}
	count := map[Outcome]float64{}
	for range rounds {
		var c counts
		w, outcome := gateTest{gate: must.Get(ParseGate("error_ratio < 1%"))(t), breach: decisionError, looks: 15}, Undecided
		for len(c.treatment) < 15 && outcome == Undecided {
			c.treatment = append(c.treatment, stats.Count{K: float64(binomial(300, 0.015)), N: 300, Scale: 1})
			c.baseline = append(c.baseline, stats.Count{K: float64(binomial(300, 0.005)), N: 300, Scale: 1})
			outcome = w.decideCounts(c).Outcome
		}
		count[outcome] += 1 / float64(rounds)
	}
	t.Logf("at the limit: breached %.3f, holds %.3f", count[Breached], count[Holds])
	if margin := 3 * math.Sqrt(0.05*0.95/float64(rounds)); count[Breached] > decisionError+margin || count[Holds] > decisionError+margin {
		t.Errorf("at the limit: %v", count)
	}
}

// A drift leaves a gate open only if a block is on the other side of the limit. The limits are not beyond
// three times the interval.
func TestDriftOnOneSide(t *testing.T) {
	decide := func(limit string, changes ...float64) Decision {
		a := &Run{Plan: plan.Plan{Treatments: []plan.Treatment{{ID: "a"}, {ID: "b", Baseline: "a"}}, Blocks: len(changes)}, Planned: len(changes), lastLook: len(changes), estimator: estimator{confidence: 0.95, method: Paired, blocks: len(changes)}}
		a.File.Decide.Gates = []string{"cpu_us_per_request/data > +" + limit}
		for i, c := range changes {
			for id, v := range map[string]float64{"a": 100, "b": 100 + c} {
				a.Trials = append(a.Trials, figures.Measured{Trial: figures.Trial{ID: fmt.Sprint(id, i), Treatment: id, Block: i + 1, Valid: true, Metrics: map[string]float64{dataCPU: v}}})
			}
		}
		a.Records = make([]result.Record, len(a.Trials))
		return must.Get(a.Decisions())(t)[0]
	}
	d := decide("50", 28, 30, 31, 33, 34, 36, 37)
	if mean := (28 + 30 + 31 + 33 + 34 + 36 + 37) / 7.0; d.Outcome != Breached || d.Far || d.Doubts != nil || math.Abs(d.Change.Estimate-mean) > 1e-9 || !strings.Contains(d.Why, "each of its 7 blocks is beyond the limit") {
		t.Errorf("all below the limit: %+v, %v to %v", d, *d.Change.Low, *d.Change.High)
	}
	if d := decide("45", 24, 32, 26, 34, 28, 36, 30, 38, 32, 40, 34, 42, 36, 44, 38, 51); d.Outcome != Undecided || d.Doubted != Breached || len(d.Doubts) != 1 || !strings.HasPrefix(d.Doubts[0], "effect-drifts: ") {
		t.Errorf("one above it: %+v, %v to %v", d, *d.Change.Low, *d.Change.High)
	}
}

// The sign test shows nothing with four blocks, and with five it has a probability of 1 in 32.
func TestOnOneSide(t *testing.T) {
	for _, c := range []struct {
		changes []float64
		want    bool
	}{{[]float64{1, 2, 3, 4, 5}, true}, {[]float64{-1, -2, -3, -4, -5}, true}, {[]float64{1, 2, 3, 4}, false}, {[]float64{1, 2, 3, 4, -1}, false}, {[]float64{1, 2, 3, 4, 0}, false}, {[]float64{-1, -2, -3, -4, 0}, false}, {nil, false}} {
		if got := onOneSide(c.changes, 0, decisionError); got != c.want {
			t.Errorf("%v: %v, want %v", c.changes, got, c.want)
		}
	}
}

// Outputs of a program are the same in all blocks: the sign test decides, with 5 pairs at 5 % and 6 at 2.5 %. Times that agree
// to the last digit were read too coarsely.
func TestDecisionsOfEqualChanges(t *testing.T) {
	for _, c := range []struct {
		gate   string
		b      float64 // a is 100
		pairs  int
		breach float64
		want   Outcome
	}{
		{"output_size < +1%", 98, 5, 0.05, Holds}, {"output_size < +1%", 100, 5, 0.05, Holds}, {"output_size < +1%", 102, 5, 0.05, Breached},
		{"output_size < +1%", 102, 5, 0.025, Undecided}, {"output_size < +1%", 102, 6, 0.025, Breached}, {"output_size < +1%", 98, 4, 0.05, Undecided},
		{"output_size > -1%", 98, 5, 0.05, Breached}, {"output_size < +2KiB", 102, 5, 0.05, Undecided}, {"output_size < +3KiB", 102, 5, 0.05, Holds},
		{"benchmark_allocs/Read-2 < +1%", 102, 5, 0.05, Breached}, {"wall_time < +1%", 102, 5, 0.05, Undecided},
	} {
		w := gateTest{gate: must.Get(ParseGate(c.gate))(t), looks: 8, breach: c.breach}
		if d, _ := w.decide(slices.Repeat([]float64{c.b}, c.pairs), slices.Repeat([]float64{100}, c.pairs)); d.Outcome != c.want || d.Why == "" && c.pairs > 3 {
			t.Errorf("%+v: %s, %q", c, d.Outcome, d.Why)
		}
	}
}

// Neither the mean nor the past decides alone: the last third of the blocks and the ranks of all must agree.
func TestLooksBesideTheMean(t *testing.T) {
	// pairs of changes in percent, with a limit of 2
	decide := func(last bool, changes ...float64) Decision {
		var a, b []float64
		for _, c := range changes {
			a, b = append(a, 100), append(b, 100*(1+c/100))
		}
		d, _ := gateTest{gate: must.Get(ParseGate("cpu_us_per_request/data < +2%"))(t), looks: 30, breach: decisionError, last: last}.decide(b, a)
		return d
	}
	steady := []float64{0.2, -0.2, 0.1, -0.1, 0.2, -0.2, 0.1, -0.1, 0.2, -0.2, 0.1, -0.1, 0.2, -0.2, 0.1, -0.1}
	if d := decide(false, steady...); d.Outcome != Holds {
		t.Errorf("steady: %+v", d)
	}
	if d := decide(false, steady[:14]...); d.Outcome != Undecided || !strings.Contains(d.Why, "from 15 pairs on") {
		t.Errorf("14 of 30 pairs: %+v", d)
	}
	if d := decide(true, steady[:14]...); d.Outcome != Holds {
		t.Errorf("14 pairs, and the time is over: %+v", d)
	}
	shifted := append(steady[:12:12], 3.5, 0, 3.5, 0)
	if d := decide(false, shifted...); d.Outcome != Undecided || !strings.Contains(d.Why, "the last blocks alone") {
		t.Errorf("a shift in the last quarter: %+v", d)
	}
	// Eight of thirty are far beyond the limit, and the others within it: the mean is beyond, and most blocks are not.
	var few []float64
	for i := range 30 {
		few = append(few, map[bool]float64{true: 12, false: 1}[i%4 == 1])
	}
	if d := decide(true, few...); d.Outcome != Undecided || !strings.Contains(d.Why, "their ranks do not show it") || *d.Change.Low < 2 {
		t.Errorf("a few blocks beyond: %+v, from %v", d, *d.Change.Low)
	}
	if d := decide(true, 3, 4, 3.5, 4.2, 3.1, 3.8); d.Outcome != Breached {
		t.Errorf("all beyond: %+v", d)
	}
}

// The interval of a gate excludes its limit only where the gate is decided, or has a reason: also where several gates share the error of
// a breach.
func TestIntervalsAgreeWithOutcomes(t *testing.T) {
	open := func(g Gate, d Decision) bool {
		return d.Outcome == Undecided && d.Change.Known() && (g.Upper && *d.Change.Low > g.Limit || !g.Upper && *d.Change.High < g.Limit)
	}
	noise := []float64{1, -1.2, 0.3, -0.8, 0.9, 1.1, -0.7, -0.6}
	for _, text := range []string{"cpu_us_per_request/data < +2%", "cpu_us_per_request/data > -2%"} {
		g, shared := must.Get(ParseGate(text))(t), 0
		for step := range 120 {
			var a, b []float64
			for _, x := range noise {
				a, b = append(a, 100), append(b, 100*(1+(x+0.05*float64(step)*map[bool]float64{true: 1, false: -1}[g.Upper])/100))
			}
			alone, _ := gateTest{gate: g, looks: 30, breach: decisionError}.decide(b, a)
			d, _ := gateTest{gate: g, looks: 30, breach: decisionError / 6}.decide(b, a)
			if alone.Outcome == Breached && d.Outcome == Undecided {
				shared++
			}
			if d.Why == "" && open(g, d) {
				t.Errorf("%s: %s with %+v to %+v", text, d.Outcome, *d.Change.Low, *d.Change.High)
			}
		}
		if shared == 0 {
			t.Errorf("%s: no change is breached alone, and undecided beside other gates", text)
		}
	}
	g, shared := must.Get(ParseGate("error_ratio < 1%"))(t), 0
	for failed := range 60 {
		var c counts
		for range 4 {
			c.treatment = append(c.treatment, stats.Count{K: float64(failed), N: 1000, Scale: 1})
			c.baseline = append(c.baseline, stats.Count{K: 1, N: 1000, Scale: 1})
		}
		alone := gateTest{gate: g, looks: 30, breach: decisionError}.decideCounts(c)
		d := gateTest{gate: g, looks: 30, breach: decisionError * countShare / 4}.decideCounts(c)
		if alone.Outcome == Breached && d.Outcome == Undecided {
			shared++
		}
		if open(g, d) {
			t.Errorf("%d of 1000: %s with %+v to %+v", failed, d.Outcome, *d.Change.Low, *d.Change.High)
		}
	}
	if shared == 0 {
		t.Error("no number of failures is breached alone, and undecided beside other gates")
	}
}
