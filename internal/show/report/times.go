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

// knownAnswers are the figures of treatments without a baseline: "hey: the median service time is 1.10 ms, with 25000 answers per
// second, and 0 % of the requests fail."
func knownAnswers(v view) (lines []string) {
	for _, tr := range v.r.Treatments {
		value := func(name, form string) string {
			if _, known := tr.Metrics[name]; !known {
				return ""
			}
			q := quantityOf(name)
			return fmt.Sprintf(form, short(tr.Metrics[name].Estimate*q.scale, mostDigits))
		}
		for _, t := range answerTimes {
			if time := value(t.metric, "%s"); time != "" && tr.Baseline == "" && !tr.Control && len(lines) < 2 {
				lines = append(lines, fmt.Sprintf("%s: the %s is %s%s%s%s.", v.label.describe(tr.Factors), t.name, time, quantityOf(t.metric).unitText(),
					value(metric.Rate, ", with %s answers per second"), value(metric.ErrorRatio, ", and %s %% of the requests fail")))
				break
			}
		}
	}
	return lines
}
