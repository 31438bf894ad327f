package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
)

// latencyMeaningsSection defines the latencies of other generators than tare's own.
func latencyMeaningsSection(t text) {
	if len(t.view.r.Latencies) == 0 {
		return
	}
	t.page.heading("Meaning of the generators' latencies")
	for _, l := range t.view.r.Latencies {
		t.page.item(fmt.Sprintf("%s, %s time: %s", l.Generator, l.Of, l.Meaning))
	}
}

// warningsSection lists the warnings about the metrics shown, each with its hint.
func warningsSection(t text) {
	var shown []figures.Warning
	hidden := 0
	for _, w := range Warnings(t.view.r) {
		if t.view.concerns(w) {
			shown = append(shown, w)
		} else {
			hidden++
		}
	}
	if len(shown) > 0 {
		t.page.heading("Warnings")
	}
	for _, w := range shown {
		count := ""
		if w.Trials > 0 {
			count = fmt.Sprintf(" (%d of %s)", w.Trials, printable.Counted(t.view.r.Count.Planned, "trial"))
		}
		words := fmt.Sprintf("%s%s: %s", w.Code, count, w.Message)
		if t.view.short {
			words, _, _ = strings.Cut(w.Message, " (trial ")
			if count != "" {
				words = strings.Trim(count, " ()") + ": " + words
			}
		}
		t.page.warning(words, w.Hint)
	}
	if hidden > 0 {
		t.page.line("")
		t.page.prose(fmt.Sprintf("%s about metrics not shown here: see --all.", printable.Counted(hidden, "more warning")))
	}
}

// legendSection explains the verdicts, the sums and the signs of the text so far.
func legendSection(t text) {
	t.page.line("")
	if n := t.view.r.Families[compare.Headline]; n > 0 {
		of := fmt.Sprintf("the %d headline comparisons of this run", n)
		if len(t.view.r.Questions) > 1 {
			of = "the headline comparisons of each question by itself"
		}
		if slices.ContainsFunc(t.view.r.Questions, func(q compare.Question) bool { return len(q.Pooled) > 0 }) {
			of += ", the mean over the levels first"
		}
		t.page.prose(fmt.Sprintf("Verdicts: %s confidence for %s together (Holm's method). Each interval is for one comparison alone. Where it excludes zero and no difference is shown, it is widened to hold for all of them. Response times are judged by their ratio.",
			t.view.percent(), of))
	}
	response := "Response time: from the intended start of each request."
	if len(t.view.r.Latencies) > 0 {
		response = "Response time: from the intended start of each request, as far as its generator records it."
	}
	total := "total: application, data and control plane, platform; without the load generator. "
	if t.view.known(nodeColumn) || t.view.missed(nodeColumn) {
		total = "total: pods of application, data and control plane, platform; without the load generator. node: kubelet, container runtime and kernel of the nodes, in no total but cluster. "
	}
	t.page.prose(total + response + signsOf(t.page.text()))
}

// signsOf explains the signs that occur in s.
func signsOf(s string) string {
	var out string
	for _, sign := range []struct{ sign, means string }{
		{"±" + unknown, " ±?: too few trials for an interval."},
		{" " + unknown, " ?: unknown, see the warnings."},
		{mark, " !: a warning concerns the figure."},
		{upward, grownWords},
		{" " + none, " –: no ratio, the baseline is zero."},
	} {
		if strings.Contains(s, sign.sign) {
			out += sign.means
		}
	}
	return out
}
