package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// failureClaims are the failed requests of each treatment in one claim, with the range over the trials, and the expectations that did not
// hold in another, of runs with faults or expectations.
func failureClaims(v view) (all []Claim) {
	shares := v.each(func(tr compare.Treatment) (c Claim) {
		if tr.Metrics[metric.ErrorRatio].N == 0 || !hasFailures(v.r, tr) {
			return c
		}
		c = part(tr, metric.ErrorRatio, rangeOver(v.r, tr, metric.ErrorRatio), "none")
		if c.Amount.Estimate > 0 {
			mean, between, _ := strings.Cut(rangeOf(v.r, tr, metric.ErrorRatio, 100), " (")
			c.Sentence = strings.TrimSuffix(mean+" % ("+between, " (")
		}
		return c
	})
	if shares != nil {
		form := map[bool]ClaimForm{true: failureClaim, false: failureNone}[some(shares)]
		all = append(all, Claim{Form: form, Of: shares}.fill(sentenceWords{"requests": whileFaults(v, "Requests that failed", "requests failed"), "none": whileFaults(v, "No request failed", "no request failed"),
			"measured": map[bool]string{true: "treatment", false: "measured treatment"}[unmeasured(v) == nil]}))
	}
	return append(all, targetClaims(v)...)
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
	_, faults := tr.Metrics[metric.Recovery]
	return faults || slices.ContainsFunc(r.Expectations, func(e answer.Expectation) bool { return e.Treatment == tr.ID && e.N > 0 })
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
