package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tare-mesh/tare/internal/base/condition"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
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
	case !c.Difference.Known() && slices.ContainsFunc(c.Warnings, func(w figures.Warning) bool { return w.Code == "no-spread" }):
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
	limit := g.Limit
	if !g.Upper {
		low, high, limit = -high, -low, -limit
	}
	switch {
	case high <= limit:
		return Holds
	case low > limit:
		return Breached
	}
	return Undecided
}

// eventsOf are the events that a metric counts among the requests of a trial. They are not ok if the metric is not a
// count of this trial: its load has no schedule, or faults or changes cause failures, which then are not independent.
func eventsOf(name string, r *result.Record) (c stats.Count, ok bool) {
	if n := len(r.Executions); n > 0 && r.Error == "" && name == metric.ErrorRatio && countable(r) {
		return stats.Count{K: float64(len(r.FailedExecutions())), N: float64(n), Scale: 1}, true
	}
	if r.Error != "" || r.Load == nil || len(r.FaultTimes()) > 0 || len(r.Changes) > 0 || !countable(r) {
		return c, false
	}
	l := r.Load
	ended, lost := figures.CountEnded(l)
	c = stats.Count{K: float64(lost), N: float64(ended), Scale: 1}
	switch name {
	case metric.ErrorRatio:
	case metric.RequestsLost:
		c.Scale = c.N
	case metric.Timeouts:
		c.K, c.Scale = float64(l.Classes[string(load.Timeout)]), c.N
	case metric.Rate: // K are the requests without an answer
		if l.Loop != "open" || l.AskedRate <= 0 {
			return c, false
		}
		c = stats.Count{K: math.Max(0, float64(l.Intended-l.Completed)), N: float64(l.Intended), Scale: l.AskedRate}
	default:
		return c, false
	}
	return c, c.N > 0
}

// ofRequests are the codes that invalidate a trial because of its requests.
var ofRequests = []string{"errors", "rate-missed", "requests-not-conserved"}

// countable reports whether the requests of a trial count: it is valid, or invalid because of them alone.
func countable(r *result.Record) bool {
	return !slices.ContainsFunc(r.Warnings, func(w result.Warning) bool { return w.Invalidates && !slices.Contains(ofRequests, w.Code) })
}

// counts are the events of two treatments, by trial.
type counts struct {
	treatment, baseline []stats.Count
	// Of executions, absent for requests: the failures of either side, the last one in words.
	failures []string
	executed bool
}

// countsOf are the counts of a metric in the blocks in which both treatments have one, whether their trials are valid or not:
// a trial is invalid because requests failed. Nil means that pairs decide.
func countsOf(run *Run, name, treatment, baseline string) *counts {
	by, failures := map[string]map[int]stats.Count{treatment: {}, baseline: {}}, map[string]string{}
	var all counts
	for i := range run.Records {
		r := &run.Records[i]
		if of := by[r.Treatment]; of != nil {
			if c, ok := eventsOf(name, r); ok {
				of[r.Block] = c
			}
			all.executed = all.executed || len(r.Executions) > 0
			if failed := r.FailedExecutions(); len(failed) > 0 {
				failures[r.Treatment] = r.Treatment + ": " + failed[len(failed)-1].Failure()
			}
		}
	}
	for _, side := range []string{treatment, baseline} {
		if text := failures[side]; text != "" {
			all.failures = append(all.failures, text)
		}
	}
	for block := 1; block <= run.Plan.Blocks; block++ {
		t, ok1 := by[treatment][block]
		b, ok2 := by[baseline][block]
		if !ok1 || !ok2 {
			continue
		}
		if name == metric.Rate && t.Scale != b.Scale {
			return nil
		}
		all.treatment, all.baseline = append(all.treatment, t), append(all.baseline, b)
	}
	if len(all.treatment) == 0 {
		return nil
	}
	return &all
}

// Errors of gates on counts. A gate that is tested after block n may err with the share 1/(n·(n+1)) of its error, whose sum
// over all n is 1. Breaches found by counts need few requests, so they have the smaller part of the error of breaches.
const (
	countShare = 0.1
	// unfailedShare is the part of the error of holds for requests of which none failed. The first look at which this bound
	// holds a gate is the only one that can be wrong, so that looks share no error.
	unfailedShare = 0.5
)

// decideCounts judges the events of all blocks so far.
func (w gateTest) decideCounts(c counts) (d Decision) {
	g, n := w.gate, len(c.treatment)
	d = w.open(n)
	t, b := stats.Dispersed(c.treatment), stats.Dispersed(c.baseline)
	look := 1 / float64(n*(n+1))
	holds := decisionError * (1 - unfailedShare) * look
	if t.K+b.K == 0 {
		holds = decisionError * unfailedShare
	}
	value := func(of stats.Count) *float64 {
		v := of.Value()
		if g.Metric == metric.Rate {
			v = of.Scale - v
		}
		return &v
	}
	d.A, d.B, d.Why = value(b), value(t), c.words(g.Metric)
	change := g.changeOfCounts(t, b, holds)
	if !math.IsNaN(change.Estimate) && !math.IsInf(change.Estimate, 0) {
		d.Change = &change
	} else if t.K == 0 {
		d.Why = "there is no ratio where nothing failed: give an absolute limit"
	}
	if w.holdsAfter(n) && g.widened(d.Detect).judgeBounds(change) == Holds {
		d.Outcome = Holds
	}
	breach := g.changeOfCounts(t, b, w.breach*look)
	if g.judgeBounds(breach) == Breached {
		d.Outcome = Breached
	}
	d.Change = g.agreeing(d.Change, breach)
	return d
}

// agreeing is the interval of a change whose end beside the limit agrees with the test of a breach. That test shares its error with other
// gates, so that it may not reject a limit which the interval excludes.
func (g Gate) agreeing(change *stats.Interval, breach stats.Interval) *stats.Interval {
	if change == nil || (g.judgeBounds(*change) == Breached) == (g.judgeBounds(breach) == Breached) {
		return change
	}
	i := *change
	if g.Upper {
		i.Low = breach.Low
	} else {
		i.High = breach.High
	}
	return &i
}

func (c counts) words(name string) string {
	events := cmp.Or(map[string]string{metric.Timeouts: "timed out", metric.Rate: "had no answer"}[name], "failed")
	sum := func(trials []stats.Count) (k, n float64) {
		for _, t := range trials {
			k, n = k+t.K, n+t.N
		}
		return k, n
	}
	b, of := sum(c.baseline)
	t, among := sum(c.treatment)
	if c.executed {
		return strings.Join(append([]string{fmt.Sprintf("%.0f of %.0f executions failed, and %.0f of %.0f of the baseline", t, among, b, of)}, c.failures...), "; ")
	}
	return fmt.Sprintf("%.0f of %.0f requests %s, and %.0f of %.0f of the baseline, in valid and invalid trials: the interval is over requests, with the spread between blocks",
		t, among, events, b, of)
}

// changeOfCounts is the change in the unit of the gate, with bounds that are each wrong with probability alpha at most.
func (g Gate) changeOfCounts(treatment, baseline stats.Count, alpha float64) stats.Interval {
	switch {
	case g.Metric == metric.Rate: // the events are what the rate lacks
		d := stats.CountDifference(baseline, treatment, alpha)
		if !g.Relative {
			return d
		}
		return d.Times(100 / (baseline.Scale - baseline.Value()))
	case g.Relative:
		return stats.CountRatio(treatment, baseline, alpha).Map(func(ratio float64) float64 { return -100 + 100*ratio })
	}
	return stats.CountDifference(treatment, baseline, alpha)
}

// judgeBounds judges an interval. An absent bound is infinite.
func (g Gate) judgeBounds(i stats.Interval) Outcome {
	low, high := math.Inf(-1), math.Inf(1)
	if i.Low != nil {
		low = *i.Low
	}
	if i.High != nil {
		high = *i.High
	}
	return g.judge(low, high)
}

// widened is the gate with a limit that is further away by detect.
func (g Gate) widened(detect float64) Gate {
	if !g.Upper {
		detect = -detect
	}
	g.Limit += detect
	return g
}

// failureGate is the gate on failures that every run with gates has. A trial with a larger share of failed requests is
// invalid. Without this gate a build that fails requests would be undecided to the end. It can be breached only.
func failureGate(run *Run) Gate {
	limit := cmp.Or(run.File.Validity.ErrorRatio, experiment.DefaultErrorRatio)
	return Gate{Text: fmt.Sprintf("%s < +%g%%", metric.ErrorRatio, 100*limit), Metric: metric.ErrorRatio, Upper: true, Limit: limit}
}
