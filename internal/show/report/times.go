package report

import (
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// answerTimes are the times of a request. The first known one is the result of a run without CPU times.
var answerTimes = []struct{ metric, name string }{
	{answerMedian, "median response time"}, {metric.Of(metric.ServiceTime, "p50"), "median service time"},
	{metric.Of(metric.Latency, "mean"), "mean response time"}, {metric.Of(metric.ServiceTime, "mean"), "mean service time"},
}

// timeAnswers are the results of runs without CPU times, as other load generators leave them: the time of a request, and the
// failures and the rate that differ.
func timeAnswers(v view) []string {
	var all []ranked
	var compared []compare.Treatment
	for _, tr := range v.r.Treatments {
		if tr.Control || tr.Reference || tr.Baseline == "" {
			continue
		}
		for _, t := range answerTimes {
			if c, ok := v.compared(tr.ID, t.metric); ok {
				all, compared = append(all, timeAnswer(v, tr, c, t.name)), append(compared, tr)
				break
			}
		}
	}
	lines := inOrder(all)
	if len(all) == 0 && v.imported() {
		return knownAnswers(v)
	}
	if len(compared) == 1 {
		if s := outcomeAnswer(v, compared[0]); s != "" {
			lines = append(lines, s)
		}
	}
	return lines
}

// knownAnswers are the figures of treatments without a baseline: "hey: the median service time is 1.10 ms, 25000 answers per
// second, 0 % of the requests failed."
func knownAnswers(v view) (lines []string) {
	for _, tr := range v.r.Treatments {
		for _, t := range answerTimes {
			if _, ok := tr.Metrics[t.metric]; !ok || tr.Baseline != "" || tr.Control {
				continue
			}
			text := func(name string) string {
				known := tr.Metrics[name].Estimate * quantityOf(name).scale
				if known == 0 {
					return "0"
				}
				return fixed(known, max(0, 2-magnitude(known)))
			}
			line := fmt.Sprintf("%s: the %s is %s", v.label.describe(tr.Factors), t.name, text(t.metric)+quantityOf(t.metric).unitText())
			if _, ok := tr.Metrics[metric.Rate]; ok {
				line += fmt.Sprintf(", with %s answers per second", text(metric.Rate))
			}
			if _, ok := tr.Metrics[metric.ErrorRatio]; ok {
				line += fmt.Sprintf(", and %s %% of the requests fail", text(metric.ErrorRatio))
			}
			lines = append(lines, line+".")
			break
		}
	}
	return lines[:min(len(lines), mostResults)]
}

// timeAnswer is the time of a treatment's request against its baseline.
func timeAnswer(v view, tr compare.Treatment, c compare.Comparison, name string) ranked {
	subject, base, q := v.subject(tr), v.label.against(tr, v.r), quantityOf(c.Metric)
	x := rankedCost(v, subject, base, c.Verdict, nil)
	before, after := apart(v.value(tr.Baseline, c.Metric)*q.scale, v.value(tr.ID, c.Metric)*q.scale)
	both := fmt.Sprintf("%s%s %s, %s%s %s", before, q.unitText(), with(base), after, q.unitText(), with(subject))
	switch {
	case c.Difference == nil || c.Verdict == compare.Insufficient:
		x.line = fmt.Sprintf("%s: the %s is %s. %s.", subject, name, both, capital(insufficientWords(v.r, c, "")))
	case isShown(c.Verdict):
		verb, preposition, amount := "adds", "to", amountWithin(*c.Difference, q)
		if c.Verdict == compare.Lower {
			verb, preposition = "saves", "of"
		}
		x.size, x.short = abs(*c.Difference), subject+" "+difference(*c.Difference, q.scale)+q.unitText()
		x.line = fmt.Sprintf("%s %s %s %s the %s: %s.", subject, verb, amount, preposition, name, both)
	default:
		x.line = fmt.Sprintf("%s: no difference in the %s is shown: %s.", subject, name, both)
	}
	return x
}

func abs(i stats.Interval) float64 { return max(i.Estimate, -i.Estimate) }

// outcomeAnswer is the change of failures and of the rate, "" where no difference is shown.
func outcomeAnswer(v view, tr compare.Treatment) string {
	var parts []string
	for _, o := range []struct{ metric, words string }{{metric.ErrorRatio, "failed requests go"}, {metric.Rate, "answers per second go"}} {
		before, after := v.value(tr.Baseline, o.metric), v.value(tr.ID, o.metric)
		c, ok := v.compared(tr.ID, o.metric)
		if !ok || before == after || !isShown(c.Verdict) && (c.Verdict != compare.Insufficient || o.metric == metric.Rate) {
			continue
		}
		q := quantityOf(o.metric)
		from, to := apart(before*q.scale, after*q.scale)
		parts = append(parts, fmt.Sprintf("%s from %s%s to %s%s", o.words, from, q.unitText(), to, q.unitText()))
	}
	if parts == nil {
		return ""
	}
	return capital(strings.Join(parts, "; ")) + "."
}
