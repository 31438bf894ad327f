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
		return knownClaims(v)
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
	return append(ranking(all, func(all []row) Claim {
		return Claim{Form: rankedTimes, Subject: all[0].Baseline}.fill(sentenceWords{"base": all[0].base})
	}), claims...)
}

// knownClaims are the figures of treatments without a baseline: "hey: the median service time is 1.10 ms, with 25000 answers per
// second, and 0 % of the requests fail."
func knownClaims(v view) (all []Claim) {
	for _, tr := range v.r.Treatments {
		if tr.Baseline != "" || tr.Control || len(all) == 2 {
			continue
		}
		c := Claim{Form: knownClaim, Subject: tr.ID}
		add := func(name, form string) bool {
			e, known := tr.Metrics[name]
			if q := quantityOf(name); known {
				c.Of = append(c.Of, part(tr, name, e.Interval, fmt.Sprintf(form, short(e.Estimate*q.scale, mostDigits))))
			}
			return known
		}
		for _, t := range answerTimes {
			if add(t.metric, "%s"+quantityOf(t.metric).unitText()) {
				add(metric.Rate, "with %s answers per second")
				add(metric.ErrorRatio, "and %s %% of the requests fail")
				all = append(all, c.fill(sentenceWords{"subject": v.label.describe(tr.Factors), "name": t.name}))
				break
			}
		}
	}
	return all
}
