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
