package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tare-mesh/tare/internal/base/condition"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Gate is a bound on the change of one metric from one run to another:
//
//	cpu_us_per_request/data < +3%
//	latency_ms/p99{mesh=envoy, rate=1000} < +0.5ms
//	rate > -1%
//	error_ratio < +0.1%
type Gate struct {
	Text     string
	Metric   string
	Where    map[string]string // levels of factors, empty for every treatment
	Upper    bool              // the change must stay below Limit, else above
	Limit    float64           // in percent, or in the metric's unit
	Relative bool
}

// GateError is a mistake in the text of a gate.
type GateError struct {
	hint.Hinted
	Gate    string
	Column  int // in characters, from 1
	Message string
}

func (e *GateError) Error() string {
	return fmt.Sprintf("gate %q: column %d: %s", e.Gate, e.Column, e.Message)
}

const gateForm = "write a gate as: " + metric.CPUPerRequest + "/data < +3%, or " + metric.Latency + "/p99{mesh=envoy} < +0.5ms, or " + metric.Rate + " > -1%"

// ParseGate reads a gate. Its errors are [*GateError].
func ParseGate(text string) (Gate, error) {
	p := gateParser{Text: condition.New(text), gate: Gate{Text: text, Where: map[string]string{}}}
	for _, step := range []func() error{p.metric, p.where, p.operator, p.limit, p.unit, p.end} {
		p.Space()
		if err := step(); err != nil {
			return Gate{}, err
		}
	}
	return p.gate, nil
}

type gateParser struct {
	condition.Text
	gate  Gate
	known metric.Metric
}

func (p *gateParser) metric() error {
	at := p.Text
	name := p.While(isNameRune)
	if name == "" {
		return p.fail(at, gateForm, "expected the name of a metric, found %s", p.Next())
	}
	if name == "errors" { // as in tare load
		name = metric.ErrorRatio
	}
	m, ok := metric.Lookup(name)
	if !ok {
		return p.fail(at, nearestMetric(name), "there is no metric %q", name)
	}
	p.known, p.gate.Metric = m, name
	return nil
}

// nearestMetric returns a hint: the parts of a known family, or the list of metrics.
func nearestMetric(name string) string {
	var parts []string
	for _, m := range metric.All() {
		if metric.Base(m.Name) == metric.Base(name) {
			parts = append(parts, m.Name)
		}
	}
	if parts == nil {
		return "`tare list metrics` lists them"
	}
	return "there are " + strings.Join(parts, ", ")
}

func (p *gateParser) where() error {
	const form = "write it as {mesh=envoy, rate=1000}"
	if !p.Accept("{") {
		return nil
	}
	for {
		p.Space()
		at := p.Text
		factor := p.While(isNameRune)
		if factor == "" {
			return p.fail(at, form, "expected the name of a factor, found %s", p.Next())
		}
		if _, twice := p.gate.Where[factor]; twice {
			return p.fail(at, "", "factor %s occurs twice", factor)
		}
		if p.Space(); !p.Accept("=") {
			return p.fail(p.Text, form, "expected = after %s, found %s", factor, p.Next())
		}
		p.Space()
		level := p.While(isNameRune)
		if level == "" {
			return p.fail(p.Text, form, "expected a level of %s, found %s", factor, p.Next())
		}
		p.gate.Where[factor] = level
		p.Space()
		switch {
		case p.Accept(","):
		case p.Accept("}"):
			return nil
		default:
			return p.fail(p.Text, "", "expected , or }, found %s", p.Next())
		}
	}
}

func (p *gateParser) operator() error {
	at := p.Text
	c, ok := condition.Compare(p.While(condition.IsSign))
	if !ok || c.Sign == "==" || c.Sign == "!=" {
		return p.fail(at, gateForm, "expected < or >, found %s", at.Next())
	}
	p.gate.Upper = c.Upper()
	return nil
}

func (p *gateParser) limit() error {
	at := p.Text
	number := ""
	if p.Accept("+") {
	} else if p.Accept("-") || p.Accept("−") {
		number = "-"
	}
	p.Space()
	number += p.While(func(r rune) bool { return r == '.' || r >= '0' && r <= '9' })
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return p.fail(at, gateForm, "expected a number such as +3%% or -0.5ms, found %s", at.Rest())
	}
	p.gate.Limit = v
	return nil
}

func (p *gateParser) unit() error {
	if p.Accept("%") {
		// Of a share of requests it is points, as in tare load and in expectations, and of others a change.
		if unit, scale := p.known.Display(); unit == "%" {
			p.gate.Limit /= scale
		} else {
			p.gate.Relative = true
		}
		return nil
	}
	at := p.Text
	unit := p.While(func(r rune) bool { return !unicode.IsSpace(r) })
	if unit == "" {
		return nil // the metric's own
	}
	scale, ok := p.known.Scale(unit)
	if !ok {
		help := "leave the unit out, or write %"
		if units := p.known.Units(); len(units) > 0 {
			help = "its units: %, " + strings.Join(units, ", ")
		}
		return p.fail(at, help, "%q is not a unit of %s", unit, p.known.Name)
	}
	p.gate.Limit *= scale
	return nil
}

func (p *gateParser) end() error {
	if !p.Ended() {
		return p.fail(p.Text, "give every gate a --gate of its own", "expected the end, found %s", p.Rest())
	}
	return nil
}

func isNameRune(r rune) bool {
	return r == '_' || r == '/' || r == '.' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

func (p *gateParser) fail(at condition.Text, help, format string, args ...any) error {
	return &GateError{Gate: p.gate.Text, Column: at.Column(), Message: fmt.Sprintf(format, args...), Hinted: hint.Hinted{Text: help}}
}

// Outcome of a gate.
type Outcome string

const (
	Holds    Outcome = "holds"    // the whole interval keeps the bound
	Breached Outcome = "breached" // the whole interval is beyond the bound
)

// GateCheck is a gate applied to one treatment.
type GateCheck struct {
	Gate      string       `json:"gate"`
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	Metric    string       `json:"metric"`
	Limit     float64      `json:"limit"`
	Unit      string       `json:"unit"` // of Limit and Change: "%", or the metric's
	Upper     bool         `json:"upper"`
	// Change is in Unit, and absent if there is none.
	Change  *stats.Interval `json:"change,omitempty"`
	Outcome Outcome         `json:"outcome"`
	Why     string          `json:"why,omitempty"` // the outcome is undecided, or its basis
	// Growing reports that memory was still growing at the end in one of the runs: a longer phase would have another change.
	Growing bool `json:"growing,omitempty"`
}

// check judges a change by the gate. The trials of two runs are not samples of one distribution: runs of the same thing
// differ by the day, and a gate on them needs the variation from run to run.
func (g Gate) check(c *Comparison) GateCheck {
	out := g.judgeChange(c)
	if c.Difference != nil && c.BaseRuns < stats.MinN {
		out.Outcome, out.Why = Undecided, fmt.Sprintf("compare within one run, see tare ab, or give at least %d base runs", stats.MinN)
	}
	if out.Outcome != Undecided && c.Warm != nil && g.judgeChange(c.Warm).Outcome != out.Outcome {
		out.Outcome, out.Why = Undecided, "trials in which programs were warm do not decide it ("+notWarm+")"
	}
	return out
}

func (g Gate) judgeChange(c *Comparison) GateCheck {
	out := GateCheck{
		Gate: g.Text, Treatment: c.Treatment, Factors: c.Factors, Metric: c.Metric, Limit: g.Limit, Unit: c.Unit, Upper: g.Upper,
		Change: c.Difference, Outcome: Undecided, Growing: c.Runs != nil && (c.BaseGrowth != nil || c.NewGrowth != nil),
	}
	if c.Difference == nil {
		out.Why = "it is unknown in one of the runs"
		return out
	}
	if g.Relative {
		out.Unit = "%"
		if c.Ratio == nil {
			return g.withoutRatio(c, out)
		}
		out.Change = percent(*c.Ratio)
	}
	switch {
	case unvaried(c):
		out.Outcome, out.Why = g.judge(out.Change.Estimate, out.Change.Estimate), "all trials of each run agree to the last digit"
	case !out.Change.Known():
		out.Why = "it has no interval"
	default:
		if out.Outcome = g.judge(*out.Change.Low, *out.Change.High); out.Outcome == Undecided {
			out.Why = "the limit lies inside the interval: more base runs would narrow it"
			if _, bounded := metric.UpperBoundOf(c.Metric); bounded {
				out.Why += ", or more requests per second of each connection"
			}
		}
	}
	return out
}

// unvaried reports whether neither side of a comparison has any spread.
func unvaried(c *Comparison) bool {
	return !c.Difference.Known() && slices.ContainsFunc(c.Warnings, func(w figures.Warning) bool { return w.Code == "no-spread" })
}

// withoutRatio decides a relative gate on a metric with a zero. An increase from
// zero exceeds every percentage. Other cases are undecided.
func (g Gate) withoutRatio(c *Comparison, out GateCheck) GateCheck {
	out.Change, out.Why = nil, "there is no ratio where a value is zero: give an absolute limit"
	zero := func(v *float64) bool { return v != nil && *v == 0 }
	switch {
	case zero(c.Base) && zero(c.New):
		out.Outcome, out.Why = g.judge(0, 0), "zero in both runs"
	case zero(c.Base) && (c.Verdict == Higher || c.Difference.Excludes(0)) && c.Difference.Estimate > 0 && g.Upper:
		out.Outcome, out.Why = Breached, "from zero to more is beyond every percentage"
	}
	return out
}

// percent is a ratio as a change: 1.03 is +3.
func percent(r stats.Interval) *stats.Interval {
	return new(r.Map(func(v float64) float64 { return 100 * (v - 1) }))
}

func (g Gate) judge(low, high float64) Outcome {
	if !g.Upper {
		low, high = -high, -low
	}
	limit := g.Limit
	if !g.Upper {
		limit = -limit
	}
	switch {
	case high <= limit:
		return Holds
	case low > limit:
		return Breached
	}
	return Undecided
}
