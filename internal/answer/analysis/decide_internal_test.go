package analysis

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The errors of decisions over all looks are at most 5 %: false breaches at the limit, false holds at the limit and
// detect. The other cases are about power.
func TestDecisionErrors(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		t.Attr("short", "500 rounds")
		rounds = 500
	}
	gate, err := ParseGate("cpu_us_per_request/data < +2%")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name            string
		change, detect  float64 // true change; share
		noise           float64 // of a pair
		breached, holds [2]float64
		ends            int // pairs after which the time is over; 0: all
	}{
		{"at the limit", 0.02, 0, 0.02, [2]float64{0, 0.05}, [2]float64{0, 0.05}, 0},
		{"at the limit, time over", 0.02, 0, 0.02, [2]float64{0.04, 0.05}, [2]float64{0.04, 0.05}, 10},
		{"at the limit and detect", 0.04, 0.02, 0.02, [2]float64{0.9, 1}, [2]float64{0, 0.05}, 0},
		{"at the limit with detect", 0.02, 0.02, 0.02, [2]float64{0, 0.05}, [2]float64{0.9, 1}, 0},
		{"no difference", 0, 0, 0.02, [2]float64{0, 0.01}, [2]float64{0.9, 1}, 0},
		{"twice the limit", 0.04, 0, 0.02, [2]float64{0.9, 1}, [2]float64{0, 0.01}, 0},
		{"no difference, much noise", 0, 0, 0.1, [2]float64{0, 0.05}, [2]float64{0, 0.5}, 0},
	} {
		r := rand.New(rand.NewPCG(3, 5))
		w := gateTest{gate: gate, detect: c.detect, looks: 30, tests: 1}
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
				outcome = w.decide(b, a).Outcome
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
	gate, err := ParseGate("rate > -1%")
	if err != nil {
		t.Fatal(err)
	}
	w := gateTest{gate: gate, looks: 10, tests: 1}
	a, b := []float64{100, 100, 100, 100, 100, 100}, []float64{90, 91, 89.5, 90.2, 90.7, 90.1}
	if d := w.decide(b, a); d.Outcome != Breached {
		t.Errorf("ten percent less: %+v", d)
	}
	if d := w.decide(a, b); d.Outcome != Holds {
		t.Errorf("ten percent more: %+v", d)
	}
	if d := w.decide([]float64{0, 1, 1, 1}, []float64{1, 1, 1, 1}); d.Outcome != Undecided || d.Why == "" {
		t.Errorf("a zero: %+v", d)
	}
}
