package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// failureMetrics are the columns of the table of failures.
var failureMetrics = []string{
	metric.ErrorRatio, metric.RequestsLost, metric.LongestOutage, metric.Recovery, metric.Timeouts, metric.Arrived, metric.MeshRetries, metric.MeshTimeouts,
}

// failuresSection is the table of failures of a run with faults or an outage.
func failuresSection(t text) {
	worth := func(tr compare.Treatment) bool {
		_, faults := tr.Metrics[metric.Recovery]
		outage := tr.Metrics[metric.LongestOutage]
		return faults || outage.Estimate > 0
	}
	if !slices.ContainsFunc(t.view.r.Treatments, worth) {
		return
	}
	t.page.heading("Failures (mean, and the range over the trials)")
	var columns []column
	for _, name := range failureMetrics {
		if t.view.known(name) {
			columns = append(columns, metricColumn(name, func(scale float64) []string {
				return lists.Map(rows(t.view), func(tr compare.Treatment) string { return rangeOf(t.view.r, tr, name, scale) })
			}))
		}
	}
	t.byTreatment(columns)
}

// rangeOver is the mean of a metric over the trials of a treatment, with their range: an interval of a few trials would reach beyond
// 100 %. One trial has no range.
func rangeOver(r *answer.Report, tr compare.Treatment, name string) stats.Interval {
	mean := stats.Interval{Estimate: tr.Metrics[name].Estimate}
	var all []float64
	for _, t := range r.Trials {
		if x, known := t.Metrics[name]; known && t.Valid && t.Treatment == tr.ID {
			all = append(all, x)
		}
	}
	if len(all) > 1 {
		mean.Low, mean.High = new(slices.Min(all)), new(slices.Max(all))
	}
	return mean
}

// rangeOf is the mean of a metric with its range over the trials: "74 (28 to 99)".
func rangeOf(r *answer.Report, tr compare.Treatment, name string, scale float64) string {
	if _, known := tr.Metrics[name]; !known {
		return none
	}
	i := rangeOver(r, tr, name)
	digits := max(0, 2-magnitude(i.Estimate*scale))
	number := func(x float64) string { return short(x*scale, digits) }
	if !i.Known() || number(*i.Low) == number(*i.High) {
		return number(i.Estimate)
	}
	return fmt.Sprintf("%s (%s to %s)", number(i.Estimate), number(*i.Low), number(*i.High))
}

// short writes a number with three digits, and as many decimals as given, or a whole number as it is.
func short(v float64, decimals int) string {
	if v == math.Trunc(v) {
		return fixed(v, 0)
	}
	return fixed(v, min(decimals, max(0, 2-magnitude(v))))
}

// expectationsSection is the table of the experiment's expectations.
func expectationsSection(t text) {
	if len(t.view.r.Expectations) == 0 {
		return
	}
	t.page.heading("Targets of each trial")
	treatments := map[string]compare.Treatment{}
	for _, tr := range t.view.r.Treatments {
		treatments[tr.ID] = tr
	}
	g := gridOf([]int{0, 1}, "", "met in trials", "measured")
	targets := map[string][]answer.Expectation{}
	for _, e := range t.view.r.Expectations {
		if !t.view.short || !treatments[e.Treatment].Control {
			targets[e.Expect] = append(targets[e.Expect], e)
		}
	}
	for _, first := range t.view.r.Expectations {
		if targets[first.Expect] != nil {
			g.row(targetWords(first.Expect))
		}
		for _, e := range targets[first.Expect] {
			g.row("  "+t.view.label.withControl(treatments[e.Treatment]), holdsWords(e), span(e))
		}
		delete(targets, first.Expect)
	}
	t.page.table(g, 1)
	for _, e := range t.view.r.Expectations {
		if e.Held < e.N && (len(e.Values) < e.N || e.Undecided > 0) {
			t.page.warning(fmt.Sprintf("%s: %s: %s", nameOf(t.view, e.Treatment), e.Expect, e.Detail), "")
		}
	}
}

func holdsWords(e answer.Expectation) string {
	holds := "not always"
	switch {
	case e.Held == e.N:
		holds = "yes"
	case e.Held+e.Undecided == e.N:
		holds = "undecided"
	case e.Held == 0:
		holds = "NO"
	}
	return fmt.Sprintf("%s, %d of %d", holds, e.Held, e.N)
}

// span is the smallest and the largest measured value over the trials.
func span(e answer.Expectation) string {
	if len(e.Values) == 0 {
		return unknown
	}
	scale, unit := 1.0, e.Unit
	if unit == "" && (strings.Contains(e.Expect, "_ratio") || strings.HasPrefix(e.Expect, "change.failed_share")) {
		scale, unit = 100, "%"
	}
	s, high := short(slices.Min(e.Values)*scale, mostDigits), short(slices.Max(e.Values)*scale, mostDigits)
	if s != high {
		s += " to " + high
	}
	return strings.TrimSpace(s + " " + unit)
}

// failureClaims are the failed requests of each treatment in one claim, with those that arrived, and the expectations that did not hold
// in another, of runs with faults or expectations.
func failureClaims(v view) (all []Claim) {
	shares := v.each(func(tr compare.Treatment) (c Claim) {
		if tr.Metrics[metric.ErrorRatio].N == 0 || !hasFailures(v.r, tr) {
			return c
		}
		e := tr.Metrics[metric.ErrorRatio].Interval
		if e.Known() {
			e.Low, e.High = new(max(0, *e.Low)), new(min(1, *e.High))
		}
		c = part(tr, metric.ErrorRatio, e, "none")
		if e.Estimate > 0 {
			d := max(0, 2-magnitude(100*e.Estimate))
			c.Sentence = short(100*e.Estimate, d) + " %"
			if e.Known() {
				c.Sentence += fmt.Sprintf(" (%s to %s)", short(100**e.Low, d), short(100**e.High, d))
			}
		}
		return c
	})
	if shares != nil {
		form := map[bool]ClaimForm{true: failureClaim, false: failureNone}[some(shares)]
		failed := Claim{Form: form, Of: shares}.fill(sentenceWords{"requests": whileFaults(v, "Requests that failed", "requests failed"), "none": whileFaults(v, "No request failed", "no request failed"),
			"measured": map[bool]string{true: "treatment", false: "measured treatment"}[unmeasured(v) == nil]})
		all = together(failuresClaim, append([]Claim{failed}, arrivedClaims(v)...)...)
	}
	return append(all, targetClaims(v)...)
}

// arrivedClaims has the claim about retries: more requests arrive than were sent.
func arrivedClaims(v view) []Claim {
	each := v.each(func(tr compare.Treatment) (c Claim) {
		e := tr.Metrics[metric.Arrived]
		if e.N == 0 {
			return c
		}
		c = part(tr, metric.Arrived, e.Interval, fixed(e.Estimate, 3))
		if e.Known() && *e.Low < *e.High {
			c.Sentence += fmt.Sprintf(" (%s to %s)", fixed(*e.Low, 3), fixed(*e.High, 3))
		}
		return c
	})
	if each == nil {
		return nil
	}
	return []Claim{Claim{Form: arrivedClaim, Of: each}.fill(sentenceWords{})}
}

// whileFaults puts what the faults did before a sentence: "While 9 of 10 replicas of server were removed, requests failed". Without
// a fault the sentence is alone.
func whileFaults(v view, alone, after string) string {
	all := v.r.Setup.Faults
	if len(all) == 0 || len(all) > mostFaults {
		return alone
	}
	return "While " + strings.Join(all, " and ") + ", " + after
}

// mostFaults is the largest number of faults that a sentence has.
const mostFaults = 3

// hasFailures reports whether a treatment has faults or expectations.
func hasFailures(r *answer.Report, tr compare.Treatment) bool {
	_, recovered := tr.Metrics[metric.Recovery] // unknown if requests failed until the end
	return recovered || len(r.Setup.Faults) > 0 || slices.ContainsFunc(r.Expectations, func(e answer.Expectation) bool { return e.Treatment == tr.ID && e.N > 0 })
}

// targetClaims are the expectations that did not hold in every trial in one claim, each with its treatments. There is none without
// expectations.
func targetClaims(v view) []Claim {
	all := map[ClaimForm][]Claim{targetMissed: nil, targetOpen: nil}
	total := 0
	for _, e := range v.r.Expectations {
		tr := v.treatment(e.Treatment)
		if e.N == 0 || tr.Control {
			continue
		}
		if total++; e.Held < e.N {
			c := Claim{Subject: tr.ID, Metric: e.Expect, Relation: "missed", Amount: &stats.Interval{Estimate: float64(e.Held)}, Unit: fmt.Sprintf("of %d trials", e.N), Sentence: with(v.label.describe(tr.Factors))}
			form := targetMissed
			if e.Held+e.Undecided == e.N {
				form, c.Relation = targetOpen, compare.Verdict(compare.Undecided)
			}
			all[form] = append(all[form], c)
		}
	}
	var claims []Claim
	for _, form := range []ClaimForm{targetMissed, targetOpen} {
		treatments := map[string][]string{}
		var targets, parts []string
		for _, c := range all[form] {
			if treatments[c.Metric] == nil {
				targets = append(targets, c.Metric)
			}
			treatments[c.Metric] = append(treatments[c.Metric], c.Sentence)
		}
		for _, expect := range targets {
			parts = append(parts, fmt.Sprintf("“%s” %s", targetWords(expect), printable.And(firstOf(treatments[expect], mostAnswers))))
		}
		if n := len(all[form]); n > 0 {
			claims = append(claims, Claim{Form: form, Of: all[form]}.fill(sentenceWords{"open": fmt.Sprint(n), "all": printable.Counted(total, "target"), "targets": strings.Join(parts, "; ")}))
		}
	}
	if claims == nil && total > 0 {
		claims = []Claim{Claim{Form: targetsMet}.fill(sentenceWords{"valid": map[bool]string{true: "trial", false: "valid trial"}[v.r.Count.Used >= v.r.Count.Planned]})}
	}
	return together(targetClaim, claims...)
}

// target is a comparison of an expectation: a metric, a sign, a value, and a window.
var target = regexp.MustCompile(`^(\S+) (>=|<=|==|!=|<|>) ([0-9.]+)([a-z%]*)(.*)$`)

// signWords are signs of comparison in words.
var signWords = map[string]string{">=": "at least", "<=": "at most", "==": "exactly", "!=": "other than", "<": "below", ">": "above"}

// targetWords is an expectation in words: "success_ratio >= 0.999" is "at least 99.9 % successful requests".
func targetWords(expect string) string {
	m := target.FindStringSubmatch(expect)
	if m == nil {
		return expect
	}
	of, sign, value, unit, window := m[1], signWords[m[2]], m[3], m[4], m[5]
	names := map[string]string{"success_ratio": "successful requests", "error_ratio": "failed requests", "lost": "failed requests", "rate": "answers per second",
		"mean": "mean response time", "max": "longest response time"}
	name := names[of]
	if class, ok := strings.CutPrefix(of, "status("); ok {
		name = strings.TrimSuffix(class, ")") + " responses"
	}
	if share, err := strconv.ParseFloat(value, 64); err == nil && strings.HasSuffix(of, "_ratio") && unit == "" && share > 0 {
		value, unit = strconv.FormatFloat(100*share, 'g', 6, 64), "%"
	}
	amount := strings.TrimSpace(value + " " + unit)
	switch {
	case name == "" && quantile.MatchString(of):
		return fmt.Sprintf("response time %s %s %s%s", of, sign, amount, window)
	case name == "":
		return expect
	case of == "mean", of == "max":
		return fmt.Sprintf("%s %s %s%s", name, sign, amount, window)
	case value == "0" && m[2] == "==":
		return "no " + name + window
	}
	return fmt.Sprintf("%s %s %s%s", sign, amount, name, window)
}

// quantile is the name of a percentile.
var quantile = regexp.MustCompile(`^p[0-9.]+$`)

// executedVerbs begin what a program that ends has more or less of.
var executedVerbs = map[string]string{metric.WallTime: "takes", metric.CPUTime: "uses", metric.PeakOfExecution: "has", metric.BenchmarkTime: "takes"}

// executedSection is a sentence and a few rows about programs that end.
func executedSection(t text) {
	for _, c := range append(executedClaims(t.view, metric.WallTime), emptyClaims(t.view.r)...) {
		t.page.prose(c.Sentence)
	}
	if len(t.view.r.Executed) > 0 {
		executedTable(t)
		t.page.line("")
	}
}

// executedClaims are a claim for each program that ends and metric: "new takes more wall time than old: +3.1 % (+2.2 to +4.0),
// 103 ms instead of 100 ms."
func executedClaims(v view, metrics ...string) (all []Claim) {
	for _, name := range metrics {
		for _, d := range v.r.Executed {
			if _, gated := gateOn(v.r, d); d.Metric != name || d.A == nil || d.B == nil || gated {
				continue // the sentence of the gate has it
			}
			q := quantityOf(d.Metric)
			was, is := apart(*d.A*q.scale, *d.B*q.scale)
			c := Claim{Form: executedMoved, Subject: d.Treatment, Baseline: d.Baseline, Metric: d.Metric, Relation: executedVerdict(v.r, d), Amount: d.Change, Unit: d.Unit}
			words := inWords(nameOf(v, d.Treatment), c.Relation, sentenceWords{"base": nameOf(v, d.Baseline), "does": executedVerbs[metric.Base(name)], "name": strings.Replace(q.name, ", ", " for ", 1), "change": ChangeWords(d), "was": was, "is": is, "unit": q.unitText()})
			switch c.Relation {
			case compare.Higher, compare.Lower:
			case compare.Insufficient:
				of, _ := v.r.Find(d.Treatment, d.Metric)
				c.Form, c.Reason = executedFew, insufficientWords(v.r, of, "")
				if words["reason"] = c.Reason; all == nil { // once is enough
					words["settle"] = cureOf(v, of)
				}
			default:
				if c.Form = executedOpen; len(v.r.Decisions) == 0 && all == nil {
					of, _ := v.r.Find(d.Treatment, d.Metric)
					words["settle"] = v.settle(of)
				}
			}
			all = append(all, c.fill(words))
		}
	}
	return all
}

// executedVerdict is the verdict on a figure of programs that end. In a run that ends by its gates it is by the interval over all looks,
// as the sentence has it, and otherwise by all comparisons.
func executedVerdict(r *answer.Report, d compare.Decision) compare.Verdict {
	switch c, _ := r.Find(d.Treatment, d.Metric); {
	case len(r.Decisions) == 0 || d.Pairs >= experiment.DecideFrom() && !d.Change.Known(): // all pairs agree
		return c.Verdict
	case !d.Change.Known():
		return compare.Insufficient
	case !d.Change.Excludes(0):
		return compare.NotShown
	case d.Change.Estimate < 0:
		return compare.Lower
	}
	return compare.Higher
}

// gateOn is the gate on a figure of programs that end. Its interval is the only one of the figure.
func gateOn(r *answer.Report, of compare.Decision) (compare.Decision, bool) {
	i := slices.IndexFunc(r.Decisions, func(d compare.Decision) bool {
		return d.Metric == of.Metric && d.Treatment == of.Treatment && d.Baseline == of.Baseline && d.Change != nil && d.Unit == of.Unit
	})
	if i < 0 {
		return of, false
	}
	return r.Decisions[i], true
}

// emptyClaims has the claim about the time that is subtracted from executions, none without such a time.
func emptyClaims(r *answer.Report) []Claim {
	e := r.Setup.Empty
	if e == nil {
		return nil
	}
	amount := func(i stats.Interval) string { return amountWithin(i, quantityOf(metric.WallTime)) }
	return []Claim{Claim{Form: executedEmpty, Metric: metric.WallTime, Amount: &e.Wall, Unit: "ms"}.fill(sentenceWords{"wall": amount(e.Wall), "cpu": amount(e.CPU)})}
}

// executedTable has a row for each figure of programs that end.
func executedTable(t text) {
	r := t.view.r
	g := gridOf([]int{0}, "", "A", "B", "change")
	for _, d := range r.Executed {
		q := quantityOf(d.Metric)
		name := q.name
		if len(lists.Set(r.Executed, func(d compare.Decision) string { return d.Treatment })) > 1 {
			name += ", " + nameOf(t.view, d.Treatment)
		}
		a, b := apart(*d.A*q.scale, *d.B*q.scale)
		shown, _ := gateOn(r, d)
		g.row(name, a+q.unitText(), b+q.unitText(), ChangeWords(shown))
	}
	t.page.table(g, 1)
}
