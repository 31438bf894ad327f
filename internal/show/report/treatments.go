package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
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

// soakMemory is the memory of the data planes at the end of a soak with its slope, or the whole memory if there is none.
func soakMemory(v view) (all []row) {
	for _, part := range []string{string(metric.Data), "total"} {
		for _, x := range v.r.Trends {
			tr, q := v.treatment(x.Treatment), quantityOf(x.Metric)
			if x.Metric != metric.Of(metric.Memory, part) || x.Last == 0 || tr.Control {
				continue
			}
			c := Claim{Form: trendMemory, Subject: x.Treatment, Metric: x.Metric, Relation: compare.Verdict(x.Verdict), Amount: &x.PerHour, Unit: x.Unit + " an hour"}
			is, slope := short(x.Last*q.scale, mostDigits)+q.unitText(), signedWithin(x.PerHour, q)
			all = append(all, row{size: x.PerHour.Estimate, short: is + ", " + slope + ", " + string(x.Verdict), name: v.label.describe(tr.Factors),
				Claim: c.fill(sentenceWords{"subject": sidecarsOf(v, tr, v.subject(tr)), "is": is, "time": soakLength(v.r), "amount": slope, "verdict": string(x.Verdict)})})
		}
		if all != nil {
			break
		}
	}
	return all
}

// trendClaims are the trends at the end of a soak: the memory for which it is run, and the other changes, or else the steady ones.
func trendClaims(v view) []Claim {
	var changing, steady []Claim
	memory := soakMemory(v)
	for _, x := range v.r.Trends {
		c := Claim{Subject: x.Treatment, Metric: x.Metric, Relation: compare.Verdict(x.Verdict), Amount: &x.PerHour, Unit: x.Unit + " an hour",
			Sentence: fmt.Sprintf("%s of %s is %s", metricName(x.Metric), v.label.describe(v.treatment(x.Treatment).Factors), x.Verdict)}
		switch x.Verdict {
		case answer.StillGrowing, answer.StillFalling:
			if slices.ContainsFunc(memory, func(m row) bool { return m.Subject == x.Treatment && m.Metric == x.Metric }) {
				continue
			}
			if part, _ := metric.PartOf(metric.Memory, x.Metric); part == "total" && len(changing) > 0 {
				continue // its planes are named
			}
			c.Sentence += " by " + slopeWords(v, x)
			changing = append(changing, c)
		case answer.Steady:
			steady = append(steady, c)
		}
	}
	if len(v.r.Trends) == 0 {
		return nil
	}
	words := sentenceWords{"time": soakLength(v.r), "changing": strings.Join(firstOf(sentencesOf(changing), 3), "; "), "share": rough(100 * compare.VisibleGrowth), "steady": fmt.Sprint(len(steady)), "all": printable.Counted(len(v.r.Trends), "trend")}
	words["other"] = map[bool]string{true: " other"}[memory != nil]
	all := ranking(v, memory, func([]row) Claim { return Claim{Form: rankedMemory}.fill(words) })
	if changing == nil {
		return append(all, Claim{Form: trendNone, Of: steady}.fill(words))
	}
	return append(all, Claim{Form: trendClaim, Of: changing}.fill(words))
}

// trendsSection has the trends of a soak. A short text leaves out the parts of a treatment that do not change.
func trendsSection(t text) {
	if len(t.view.r.Trends) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Trends in the second half of a soak of %s (per hour of load; %s interval)", soakLength(t.view.r), t.view.percent()))
	g := gridOf([]int{0, 1, 6}, "treatment", "quantity", "at first", "at last", "per hour", "interval", "trend")
	within := false
	for _, x := range t.view.r.Trends {
		changes := x.Verdict == answer.StillGrowing || x.Verdict == answer.StillFalling
		if t.view.short && !changes && !slices.Contains([]string{answerMemory, answerCost, answerMedian, metric.Of(metric.Latency, "p99")}, x.Metric) {
			continue
		}
		q := quantityOf(x.Metric)
		verdict := string(x.Verdict)
		if per := perRequest(t.view.treatment(x.Treatment), x); per != "" {
			verdict += ", " + per
		}
		within = within || x.Within
		digits := max(0, 2-magnitude(x.Last*q.scale))
		g.row(t.view.label.describe(t.view.treatment(x.Treatment).Factors), q.name, fixed(x.First*q.scale, digits), fixed(x.Last*q.scale, digits)+q.unitText(),
			difference(x.PerHour, q.scale), bounds(x.PerHour, q.scale, signed), verdict)
	}
	t.page.table(g, 2)
	if within {
		t.page.line("")
		t.page.prose("Fewer than three deployments: an interval is about their time series, widened where neighbours depend on each other. Other deployments may differ.")
	}
}

// slopeWords is a slope in a sentence. Memory grows by the minute, as in its mark.
func slopeWords(v view, x answer.Trend) string {
	if metric.Base(x.Metric) != metric.Memory {
		return amountWithin(x.PerHour, quantityOf(x.Metric)) + " an hour"
	}
	words := strings.TrimLeft(growthMark(new(v.treatment(x.Treatment).Metrics[compare.GrowthOf(x.Metric)].Interval)), upward+downward)
	if per := perRequest(v.treatment(x.Treatment), x); per != "" {
		words += ", " + per
	}
	return words
}

// perRequest is the growth of memory for each request, of memory that changes: "16.1 ±0.9 KiB a request".
func perRequest(tr compare.Treatment, x answer.Trend) string {
	part, ok := metric.PartOf(metric.Memory, x.Metric)
	if !ok || x.Verdict != answer.StillGrowing {
		return ""
	}
	e := tr.Metrics[metric.Of(metric.MemoryGrowthPerRequest, part)].Interval
	return amountWithin(e, quantity{unit: "KiB a request", scale: 0.001})
}

func metricName(name string) string { return quantityOf(name).name }

// soakStep is the unit of a soak's length. The last reading is a little before its end.
const soakStep = 5 * time.Second

// soakLength is the time that a treatment had the load: "1h0m0s" without zeros.
func soakLength(r *answer.Report) string {
	seconds := 0.0
	for _, t := range r.Trials {
		for _, x := range t.Trends {
			if n := len(x.Points); n > 1 && metric.Base(x.Metric) == metric.Memory {
				seconds = max(seconds, x.Points[n-1][0])
			}
		}
	}
	words := (time.Duration(math.Ceil(seconds/soakStep.Seconds())) * soakStep).String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(words, zeros) {
			words = words[:len(words)-2]
		}
	}
	return words
}

// upward and downward begin the mark of a memory figure that was still changing at the end.
const upward, downward = "↑", "↓"

// grownWords are the meaning of the mark.
const grownWords = " ↑: memory was still growing at the end of the measure phase."

// growing is the mark of a treatment's memory that was still growing at the end: "↑192 MiB/min". It is "" for other figures.
func growing(tr compare.Treatment, name string) string {
	growth, _, ok := tr.Growing(name)
	if !ok {
		return ""
	}
	return growthMark(&growth)
}

// growingApart is the mark of a difference in memory of which a side was still growing: the difference of both growths.
func growingApart(r *answer.Report, c compare.Comparison) string {
	return growthMark(r.GrowingApart(c))
}

// growthMark is the mark of a growth in MiB a minute, "" for nil.
func growthMark(of *stats.Interval) string {
	if of == nil {
		return ""
	}
	arrow := upward
	if of.Estimate < 0 {
		arrow = downward
	}
	return arrow + rough(math.Abs(of.Estimate)) + " MiB/min"
}

// spaced joins a figure and its mark, which may be empty.
func spaced(figure, mark string) string {
	if mark == "" {
		return figure
	}
	return figure + " " + mark
}

// sided is the mark of the growth in one of two runs.
func sided(run string, of *stats.Interval) string {
	if of == nil {
		return ""
	}
	return growthMark(of) + " in the " + run + " run"
}
