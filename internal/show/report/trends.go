package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

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
		if t.view.short && !trendShown(x) {
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

// trendShown reports whether a short text has a trend: the data plane, the total, and what changes.
func trendShown(x answer.Trend) bool {
	changes := x.Verdict == answer.StillGrowing || x.Verdict == answer.StillFalling
	return changes || slices.Contains([]string{answerMemory, answerCost, answerMedian, metric.Of(metric.Latency, "p99")}, x.Metric)
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
