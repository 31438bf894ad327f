package report

import (
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
)

// answerTimes are the times of a request. The first known one is the result of a run without CPU times.
var answerTimes = []struct{ metric, name string }{
	{answerMedian, "median response time"}, {metric.Of(metric.ServiceTime, "p50"), "median service time"},
	{metric.Of(metric.Latency, "mean"), "mean response time"}, {metric.Of(metric.ServiceTime, "mean"), "mean service time"},
}

// timeClaims are the results of runs without CPU times, as other load generators leave them: the time of a request, and the
// failures and the rate that differ.
func timeClaims(v view) []Claim {
	var all []row
	var compared []compare.Treatment
	for _, tr := range v.r.Treatments {
		if tr.Control || tr.Reference || tr.Baseline == "" {
			continue
		}
		for _, t := range answerTimes {
			if c, ok := v.compared(tr.ID, t.metric); ok {
				all, compared = append(all, timeRow(v, tr, c.Judged(v.r.Confidence), t.name)), append(compared, tr)
				break
			}
		}
	}
	if len(all) == 0 && v.imported() {
		return plain(knownClaim, knownAnswers(v)...)
	}
	claims := ranking(v, all, func(all []row) string {
		return fmt.Sprintf("Response times against %s, least first:", all[0].base)
	})
	if len(compared) == 1 {
		claims = append(claims, plain(outcomeClaim, outcomeAnswer(v, compared[0]))...)
	}
	return claims
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
	return lines[:min(len(lines), 2)]
}

// timeRow is the time of a treatment's request against its baseline.
func timeRow(v view, tr compare.Treatment, c compare.Comparison, name string) row {
	q := quantityOf(c.Metric)
	x := row{Claim: Claim{Form: timeNone, Subject: tr.ID, Baseline: tr.Baseline, Metric: c.Metric, Relation: c.Verdict, Amount: c.Difference}, name: v.subject(tr), base: v.label.against(tr, v.r), short: "no verdict"}
	before, after := apart(v.value(tr.Baseline, c.Metric)*q.scale, v.value(tr.ID, c.Metric)*q.scale)
	words := sentenceWords{"subject": x.name, "name": name, "both": fmt.Sprintf("%s%s %s, %s%s %s", before, q.unitText(), with(x.base), after, q.unitText(), with(x.name))}
	switch {
	case c.Difference == nil || c.Verdict == compare.Insufficient:
		x.Reason = strings.TrimPrefix(insufficientWords(v.r, c, ""), "no verdict: ")
		words["reason"] = x.Reason
	case isShown(c.Verdict):
		x.Form = map[compare.Verdict]ClaimForm{compare.Higher: timeAdded, compare.Lower: timeSaved}[c.Verdict]
		words["amount"] = amountWithin(*c.Difference, q)
		x.size, x.short = c.Difference.Estimate, signedWithin(*c.Difference, q)
	default:
		x.Form, x.Amount, x.OfRatio, x.short = timeOpen, c.Ratio, true, "no difference shown"+ratioText(c.Ratio)
		words["ratio"], words["settle"] = ratioText(c.Ratio), v.settle(c)
	}
	x.Claim = x.fill(words)
	return x
}

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
