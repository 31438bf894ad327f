package report

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// treatmentMetrics are the columns of the table of treatments.
var treatmentMetrics = []string{
	metric.Capacity, metric.CPUPerRequest + "/total", metric.CPUPerRequest + "/data", nodeColumn, metric.CPUPer1000 + "/total", metric.Memory + "/data",
	metric.Latency + "/p50", metric.Latency + "/p99", metric.Rate, metric.ErrorRatio,
}

// nodeColumn is the CPU of the nodes outside pods, which only trials on a cluster have.
const nodeColumn = metric.CPUPerRequest + "/node"

func treatmentsSection(t text) {
	if t.view.r.Method == compare.AsPublished {
		publishedTable(t)
		return
	}
	t.page.heading(fmt.Sprintf("Cost of each treatment (mean of n trials ± half of the %s interval)", t.view.percent()))
	shown := rows(t.view)
	columns := append(t.view.label.columns(shown), countColumn(shown))
	labels := len(columns)
	for _, name := range t.view.treatmentColumns() {
		columns = append(columns, t.view.treatmentColumn(name, shown))
	}
	t.page.table(columns, labels)
}

// serviceTimes follow the response times if a generator measures no other.
var serviceTimes = []string{metric.ServiceTime + "/p50", metric.ServiceTime + "/p99"}

// treatmentColumns are the metrics of this report's table of treatments. Of an import they are the known ones.
func (v view) treatmentColumns() []string {
	columns := slices.Clone(treatmentMetrics)
	if serviceOnly(v) {
		columns = slices.Insert(columns, slices.Index(columns, metric.Rate), serviceTimes...)
	}
	return slices.DeleteFunc(columns, func(name string) bool {
		optional := name == nodeColumn || name == metric.Capacity
		return !v.known(name) && (v.imported() || optional && !v.missed(name))
	})
}

// serviceOnly reports whether a treatment has service times and no response times.
func serviceOnly(v view) bool {
	return slices.ContainsFunc(v.r.Treatments, func(tr compare.Treatment) bool {
		_, response := tr.Metrics[answerMedian]
		_, service := tr.Metrics[serviceTimes[0]]
		return service && !response
	})
}

// rows are the treatments that a table lists: a short text has no controls.
func rows(v view) []compare.Treatment {
	if !v.short {
		return v.r.Treatments
	}
	return slices.DeleteFunc(slices.Clone(v.r.Treatments), func(tr compare.Treatment) bool { return tr.Control })
}

// byTreatment is a table with the labels of the treatments that a text has, and columns.
func (t text) byTreatment(columns []column) {
	labels := t.view.label.columns(rows(t.view))
	t.page.table(append(labels, columns...), len(labels))
}

// missed reports whether a warning names the metric, which is then unknown for a reason.
func (v view) missed(name string) bool {
	return slices.ContainsFunc(v.r.Warnings, func(w figures.Warning) bool { return slices.Contains(w.Metrics, name) })
}

// published are the columns of figures that were reduced as their source did.
var published = []string{
	metric.CPUCores + "/data", metric.Memory + "/data", metric.CPUCores + "/control", metric.CPUCores + "/app",
	metric.CPUCores + "/load", metric.CPUCores + "/cluster", metric.Latency + "/p50", metric.Latency + "/p90",
	metric.Latency + "/p98.9", metric.Latency + "/p99", metric.Rate,
}

// publishedTable has one line a treatment: means over runs, as plotted, without an interval.
func publishedTable(t text) {
	t.page.heading("As published (the source's filter in each run, then the mean of n runs; latencies are the mean of the generators' quantiles; the source gives no intervals)")
	columns := append(t.view.label.columns(t.view.r.Treatments), countColumn(t.view.r.Treatments))
	labels := len(columns)
	for _, name := range published {
		if !t.view.known(name) {
			continue
		}
		columns = append(columns, metricColumn(name, func(scale float64) []string {
			return lists.Map(t.view.r.Treatments, func(tr compare.Treatment) string { return t.view.estimate(tr.Metrics[name], scale) })
		}))
	}
	t.page.table(columns, labels)
}

// allMetricsSection lists every metric of every treatment.
func allMetricsSection(t text) {
	if !t.view.o.All && t.view.o.Metric == "" {
		return
	}
	t.page.heading(map[bool]string{true: "Every metric", false: "Metrics"}[t.view.o.Metric == ""])
	names, units := column{heads: []string{"metric"}, left: true}, column{heads: []string{"unit"}, left: true}
	ms := slices.DeleteFunc(slices.Clone(t.view.r.Metrics()), func(m metric.Metric) bool { return t.view.o.Metric != "" && !metric.Matches(t.view.o.Metric, m.Name) })
	for _, m := range ms {
		names.cells, units.cells = append(names.cells, m.Name), append(units.cells, m.Unit)
	}
	columns := []column{names, units}
	for _, tr := range t.view.r.Treatments {
		c := column{heads: []string{t.view.label.withControl(tr)}}
		for _, m := range ms {
			c.cells = append(c.cells, spaced(cell(tr, m.Name, 1), growing(tr, m.Name)))
		}
		columns = append(columns, c)
	}
	t.page.table(columns, 2)
}

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
