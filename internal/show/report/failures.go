package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// failureMetrics are the columns of the table of failures.
var failureMetrics = []string{
	metric.ErrorRatio, metric.RequestsLost, metric.LongestOutage, metric.Recovery, metric.Timeouts, metric.MeshRetries, metric.MeshTimeouts,
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
				return printable.Texts(rows(t.view), func(tr compare.Treatment) string { return rangeOf(t.view.r, tr, name, scale) })
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
