package report

import (
	"cmp"
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

// failureAnswers are the shares of failed requests in one sentence, and the expectations that did not hold in another, of
// runs with faults or expectations.
func failureAnswers(v view) (lines []string) {
	var shares []string
	none := true
	for _, tr := range rows(v) {
		failed, known := tr.Metrics[metric.ErrorRatio]
		if tr.Control || !known || failed.N == 0 || !hasFailures(v.r, tr) {
			continue
		}
		none = none && failed.Estimate == 0
		share := "none"
		if failed.Estimate > 0 {
			share = cmp.Or(sharesOf(v.r, tr.ID, failed.Interval), rough(failed.Estimate*100)+" %")
		}
		shares = append(shares, share+" "+with(v.label.describe(tr.Factors)))
	}
	switch n := len(shares); {
	case none && n > 0:
		lines = append(lines, whileFaults(v, "No request failed", "no request failed")+", with any treatment.")
	case n > 0:
		lines = append(lines, whileFaults(v, "Requests that failed", "requests failed")+": "+strings.Join(firstOf(shares, mostAnswers), ", ")+".")
	}
	if s := expectationsAnswer(v); s != "" {
		lines = append(lines, s)
	}
	return lines
}

// sharesOf is the range of the failed shares over the trials of a treatment, where the interval of the mean is wide: "28 to
// 99 %". Otherwise it is "".
func sharesOf(r *answer.Report, treatment string, mean stats.Interval) string {
	if half, known := mean.HalfWidth(); known && half < mean.Estimate/4 {
		return ""
	}
	var shares []float64
	for _, t := range r.Trials {
		if share, known := t.Metrics[metric.ErrorRatio]; known && t.Valid && t.Treatment == treatment {
			shares = append(shares, share*100)
		}
	}
	if len(shares) < 2 {
		return ""
	}
	return fmt.Sprintf("%s to %s %%", rough(slices.Min(shares)), rough(slices.Max(shares)))
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
	var order []string
	missed, total, held := map[string][]string{}, 0, 0
	var undecided []string
	sometimes := map[string]bool{} // missed in some trials only
	for _, tr := range rows(v) {
		for _, e := range v.r.Expectations {
			if e.Treatment != tr.ID || e.N == 0 || tr.Control {
				continue
			}
			total++
			if e.Held == e.N {
				held++
				continue
			}
			if e.Held+e.Undecided == e.N {
				undecided = append(undecided, fmt.Sprintf("“%s” %s", targetWords(e.Expect), with(v.label.describe(tr.Factors))))
				continue
			}
			if missed[e.Expect] == nil {
				order = append(order, e.Expect)
			}
			sometimes[e.Expect] = sometimes[e.Expect] || e.Held > 0
			missed[e.Expect] = append(missed[e.Expect], with(v.label.describe(tr.Factors)))
		}
	}
	switch {
	case total == 0:
		return ""
	case held == total:
		return "Every target was met in every trial."
	}
	var parts []string
	for _, expect := range order {
		where := printable.And(missed[expect])
		if 2*len(missed[expect]) > len(v.r.Treatments) && len(missed[expect]) == expecting(v, expect) {
			where = "in every trial"
			if sometimes[expect] {
				where = "in at least one trial of every treatment"
			}
		}
		parts = append(parts, fmt.Sprintf("“%s” %s", targetWords(expect), where))
	}
	var sentences []string
	if parts != nil {
		sentences = append(sentences, fmt.Sprintf("%d of %s missed: %s.", total-held-len(undecided), printable.Counted(total, "target"), strings.Join(parts, "; ")))
	}
	if undecided != nil {
		sentences = append(sentences, fmt.Sprintf("%d of %s undecided, because what was observed does not exclude either: %s.", len(undecided), printable.Counted(total, "target"), strings.Join(undecided, "; ")))
	}
	return strings.Join(sentences, " ")
}

// expecting is the number of treatments with an expectation, controls excluded.
func expecting(v view, expect string) (n int) {
	for _, tr := range rows(v) {
		if !tr.Control && slices.ContainsFunc(v.r.Expectations, func(e answer.Expectation) bool {
			return e.Treatment == tr.ID && e.Expect == expect && e.N > 0
		}) {
			n++
		}
	}
	return n
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
