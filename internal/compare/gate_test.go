package compare

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestParseGate(t *testing.T) {
	for _, c := range []struct {
		text, metric string
		upper        bool
		limit        float64
		relative     bool
	}{
		{"cpu_us_per_request/data < +3%", "cpu_us_per_request/data", true, 3, true},
		{"cpu_us_per_request/data<3%", "cpu_us_per_request/data", true, 3, true},
		{"latency_ms/p99 < +0.5ms", "latency_ms/p99", true, 0.5, false},
		{"latency_ms/p99.9 <= 250 µs", "latency_ms/p99.9", true, 0.25, false},
		{"rate > -1%", "rate", false, -1, true},
		{"rate >= -10", "rate", false, -10, false},
		{"  memory_mib/data  <  +0.5GiB ", "memory_mib/data", true, 512, false},
		{"error_ratio < 0.001", "error_ratio", true, 0.001, false},
		{"error_ratio < +0.1%", "error_ratio", true, 0.001, false},
		{"errors < 0.1%", "error_ratio", true, 0.001, false},
		{"cpu_cores/data < 50m", "cpu_cores/data", true, 0.05, false},
	} {
		g, err := ParseGate(c.text)
		if err != nil {
			t.Errorf("%q: %+v, %v", c.text, g, err)
		} else if d := difftest.Of("g.Metric", g.Metric, c.metric, "g.Upper", g.Upper, c.upper, "g.Limit", g.Limit, c.limit, "g.Relative", g.Relative, c.relative); d != "" {
			t.Errorf("%s: %q: %+v, %v", d, c.text, g, err)
		}
	}
	g, err := ParseGate("rate{mesh=envoy, rate = 1000} > -1%")
	if err != nil || len(g.Where) != 2 || !levelsAre(plan.Factors{"mesh": "envoy", "rate": 1000.0}, g.Where) ||
		levelsAre(plan.Factors{"mesh": "none", "rate": 1000.0}, g.Where) || levelsAre(plan.Factors{"mesh": "envoy"}, g.Where) {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestParseGateMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "column 1: expected the name of a metric, found the end",
		"cpu < 3%":               `column 1: there is no metric "cpu"`,
		"rate":                   "column 5: expected < or >, found the end",
		"rate = 3":               "column 6: expected < or >, found '='",
		"rate < much":            `column 8: expected a number such as +3% or -0.5ms, found "much"`,
		"rate < 1.2.3":           `column 8: expected a number`,
		"rate < 3 ms":            `column 10: "ms" is not a unit of rate`,
		"error_ratio < 3s":       `column 16: "s" is not a unit of error_ratio`,
		"rate < 3% 4":            `column 11: expected the end, found "4"`,
		"rate{mesh} < 3%":        "column 10: expected = after mesh, found '}'",
		"rate{mesh=} < 3%":       "column 11: expected a level of mesh",
		"rate{mesh=a mesh=b} <1": "column 13: expected , or }, found 'm'",
		"rate{mesh=a,mesh=b} <1": "column 13: factor mesh occurs twice",
		"rate{mesh=a":            "column 12: expected , or }, found the end",
		"µ < 3%":                 `column 1: there is no metric "µ"`,
	} {
		_, err := ParseGate(text)
		var g *GateError
		if !errors.As(err, &g) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseGate(f *testing.F) {
	f.Add("latency_ms/p99{mesh=envoy, rate=1000} < +0.5ms")
	f.Add("rate >= −1%")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := ParseGate(text)
		var g *GateError
		if errors.As(err, &g) && (g.Column < 1 || g.Column > utf8.RuneCountInString(text)+1) {
			t.Errorf("%q: column %d", text, g.Column)
		}
	})
}

func interval(low, high float64) *stats.Interval {
	return &stats.Interval{Estimate: (low + high) / 2, Low: &low, High: &high}
}

func TestGateOutcome(t *testing.T) {
	zero, one := 0.0, 1.0
	bare := &stats.Interval{Estimate: 1}
	equal := []figures.Warning{{Code: "no-spread"}}
	for _, c := range []struct {
		gate string
		c    Comparison
		want Outcome
	}{
		{"rate < +3%", Comparison{Ratio: interval(0.99, 1.02), Difference: interval(-1, 2)}, Holds},
		{"rate < +3%", Comparison{Ratio: interval(1.01, 1.05), Difference: interval(1, 5)}, Undecided},
		{"rate < +3%", Comparison{Ratio: interval(1.04, 1.05), Difference: interval(4, 5)}, Breached},
		{"rate > -1%", Comparison{Ratio: interval(0.995, 1.2), Difference: interval(-1, 5)}, Holds},
		{"rate > -1%", Comparison{Ratio: interval(0.97, 0.98), Difference: interval(-4, -3)}, Breached},
		{"rate > -1%", Comparison{Ratio: interval(0.97, 1.01), Difference: interval(-4, 1)}, Undecided},
		{"rate < +2", Comparison{Difference: interval(3, 4)}, Breached},
		{"rate < +2", Comparison{}, Undecided},
		{"rate < +2", Comparison{Difference: bare}, Undecided},                                                       // too few trials
		{"rate < +2", Comparison{Difference: bare, Warnings: equal}, Holds},                                          // every trial the same
		{"rate < +0.5", Comparison{Difference: bare, Warnings: equal}, Breached},                                     // the same, and beyond
		{"rate < +3%", Comparison{Difference: &stats.Interval{}, Runs: &Runs{Base: &zero, New: &zero}}, Holds},       // zero in both
		{"rate < +3%", Comparison{Difference: interval(0.5, 1.5), Runs: &Runs{Base: &zero, New: &one}}, Breached},    // from nothing to something
		{"rate < +3%", Comparison{Difference: interval(-0.5, 2.5), Runs: &Runs{Base: &zero, New: &one}}, Undecided},  // perhaps
		{"rate < +3%", Comparison{Difference: interval(-1.5, -0.5), Runs: &Runs{Base: &one, New: &zero}}, Undecided}, // to nothing: no ratio
		{"rate < +1%", Comparison{Ratio: bare, Difference: &stats.Interval{Estimate: 0}}, Undecided},                 // ratio without interval
		{"rate < +1%", Comparison{Ratio: bare, Difference: &stats.Interval{Estimate: 0}, Warnings: equal}, Holds},    // and exact
	} {
		g := must.Get(ParseGate(c.gate))(t)
		if c.c.Runs == nil {
			c.c.Runs = &Runs{}
		}
		c.c.BaseRuns = stats.MinN
		if got := g.check(&c.c); got.Outcome != c.want {
			t.Errorf("%s of %+v: %s (%s), want %s", c.gate, c.c, got.Outcome, got.Why, c.want)
		} else if got.Outcome == Undecided && got.Why == "" {
			t.Errorf("%s of %+v: no reason", c.gate, c.c)
		}
		c.c.BaseRuns = stats.MinN - 1
		if got := g.check(&c.c); got.Outcome != Undecided || c.c.Difference != nil && !strings.Contains(got.Why, "see tare ab") {
			t.Errorf("%s of %+v with two base runs: %s (%s)", c.gate, c.c, got.Outcome, got.Why)
		}
	}
}
