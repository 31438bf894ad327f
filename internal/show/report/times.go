package report

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/metric"
)

// answerTimes are the times of a request. The first known one is the result of a run without CPU times.
var answerTimes = []struct{ metric, name string }{
	{answerMedian, "median response time"}, {metric.Of(metric.ServiceTime, "p50"), "median service time"},
	{metric.Of(metric.Latency, "mean"), "mean response time"}, {metric.Of(metric.ServiceTime, "mean"), "mean service time"},
}

// outcomes are the failures and the rate, which follow the time.
var outcomes = []struct {
	metric, name string
	forms        compared
}{{metric.ErrorRatio, "Failed requests go", compared{shown: outcomeMove, none: outcomeMove}}, {metric.Rate, "Answers per second go", compared{shown: outcomeMove}}}

// timeClaims are the results of runs without CPU times, as other load generators leave them: the time of a request, and the
// failures and the rate that differ.
func timeClaims(v view) (claims []Claim) {
	var all []row
	for _, tr := range v.r.Treatments {
		for _, t := range answerTimes {
			if c, ok := v.r.Find(tr.ID, t.metric); ok && !tr.Control && !tr.Reference && tr.Baseline != "" {
				x, _ := v.result(tr, c, t.name, compared{timeClaim, timeOpen, timeNone})
				all = append(all, x)
				break
			}
		}
	}
	if len(all) == 0 && v.imported() {
		return plain(knownClaim, knownAnswers(v)...)
	}
	if len(all) == 1 {
		tr := v.treatment(all[0].Subject)
		for _, o := range outcomes {
			if c, ok := v.r.Find(tr.ID, o.metric); ok && tr.Metrics[o.metric].Estimate != v.treatment(tr.Baseline).Metrics[o.metric].Estimate {
				if x, ok := v.result(tr, c, o.name, o.forms); ok {
					claims = append(claims, x.Claim)
				}
			}
		}
	}
	return append(ranking(v, all, func(all []row) string {
		return fmt.Sprintf("Response times against %s, least first:", all[0].base)
	}), claims...)
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
