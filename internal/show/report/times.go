package report

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/compare"
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
	return append(ranking(v, all, func(all []row) Claim {
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

// requestMetrics are the columns of the table of requests.
var requestMetrics = []string{metric.RequestP50, metric.RequestP90, metric.RequestP99, metric.RequestErrors}

// requestsSection has one line for each request and treatment, with the ratio of the median to
// the baseline's median.
func requestsSection(t text) {
	var rows []compare.Treatment
	names, ratios := column{heads: []string{"", "request"}, left: true}, column{heads: []string{"p50 over", "baseline"}}
	figures := make([]column, len(requestMetrics))
	for _, name := range t.view.requests() {
		for i, tr := range t.view.r.Treatments {
			rows = append(rows, tr)
			names.cells = append(names.cells, map[bool]string{true: name}[i == 0])
			for j, base := range requestMetrics {
				one := metricColumn(metric.Of(base, name), func(scale float64) []string { return []string{cell(tr, metric.Of(base, name), scale)} })
				figures[j] = column{heads: one.heads, cells: append(figures[j].cells, one.cells...)}
			}
			words := none
			if c, ok := t.view.r.Find(tr.ID, metric.Of(metric.RequestP50, name)); ok && c.Ratio != nil {
				words = ratioWithin(*c.Ratio)
			}
			ratios.cells = append(ratios.cells, words)
		}
	}
	if len(rows) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Response times by request (mean of n trials ± half of the %s interval)", t.view.percent()))
	columns := append([]column{names}, t.view.label.columns(rows)...)
	labels := len(columns)
	t.page.table(append(append(columns, figures...), ratios), labels)
}

// requests are the names of the requests with figures, sorted.
func (v view) requests() []string {
	var all []string
	for _, m := range v.r.Metrics() {
		for _, base := range requestMetrics {
			if name, ok := metric.PartOf(base, m.Name); ok {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
