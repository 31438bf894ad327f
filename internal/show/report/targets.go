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
)

// failureAnswers are the shares of failed requests in one sentence, each with the range over the trials, and the expectations that did
// not hold in another, of runs with faults or expectations.
func failureAnswers(v view) (lines []string) {
	shares, some := v.each(func(tr compare.Treatment) (string, bool) {
		switch failed := tr.Metrics[metric.ErrorRatio]; {
		case failed.N == 0 || !hasFailures(v.r, tr):
			return "", false
		case failed.Estimate == 0:
			return "none", false
		}
		mean, between, _ := strings.Cut(rangeOf(v.r, tr, metric.ErrorRatio, 100), " (")
		return strings.TrimSuffix(mean+" % ("+between, " ("), true
	})
	switch {
	case some:
		lines = append(lines, whileFaults(v, "Requests that failed", "requests failed")+": "+shares+".")
	case shares != "":
		lines = append(lines, whileFaults(v, "No request failed", "no request failed")+", with any treatment.")
	}
	if s := expectationsAnswer(v); s != "" {
		lines = append(lines, s)
	}
	return lines
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

// expectationsAnswer lists the expectations that did not hold in every trial, each with its treatments. It is "" without
// expectations.
func expectationsAnswer(v view) string {
	total, order := 0, []string{}
	open := map[bool]map[string][]string{false: {}, true: {}} // treatments by target, of those missed and those undecided
	for _, e := range v.r.Expectations {
		tr := v.treatment(e.Treatment)
		if e.N == 0 || tr.Control {
			continue
		}
		if !slices.Contains(order, e.Expect) {
			order = append(order, e.Expect)
		}
		if total++; e.Held < e.N {
			of := open[e.Held+e.Undecided == e.N]
			of[e.Expect] = append(of[e.Expect], with(v.label.describe(tr.Factors)))
		}
	}
	var sentences []string
	for _, undecided := range []bool{false, true} {
		n, parts := 0, []string{}
		for _, expect := range order {
			if treatments := open[undecided][expect]; treatments != nil {
				n += len(treatments)
				parts = append(parts, fmt.Sprintf("“%s” %s", targetWords(expect), printable.And(firstOf(treatments, mostAnswers))))
			}
		}
		if n > 0 {
			words := map[bool]string{false: "missed", true: "undecided, because what was observed does not exclude either"}[undecided]
			sentences = append(sentences, fmt.Sprintf("%d of %s %s: %s.", n, printable.Counted(total, "target"), words, strings.Join(parts, "; ")))
		}
	}
	if sentences == nil && total > 0 {
		return "Every target was met in every trial."
	}
	return strings.Join(sentences, " ")
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
