package report

import (
	"cmp"
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

// changeMetrics are the columns of the table of changes, for each kind.
var changeMetrics = []string{metric.ChangeFirstNew, metric.ChangeFirstNewMost, metric.ChangeLastOld, metric.ChangeLastOldMost, metric.ChangeFailed, metric.ChangeFailing, metric.ChangeDropped, metric.ChangeCut, metric.ChangeFlaps, metric.ChangeUnchanged, metric.ChangeCPU}

// changesSection is the table of each kind of change.
func changesSection(t text) {
	for _, kind := range metric.ChangeKinds() {
		if !t.view.known(metric.Of(metric.ChangesMade, kind.Name)) {
			continue
		}
		t.page.heading("Changes: " + kind.Name)
		shown := rows(t.view)
		columns := t.view.label.columns(shown)
		labels := len(columns)
		for _, base := range changeMetrics {
			for _, end := range []string{"", metric.ChangeP99, "-control", "-data", "-proxy", "-app"} {
				if full := metric.Of(base, kind.Name+end); t.view.known(full) {
					columns = append(columns, withoutKind(t.view.treatmentColumn(full, shown), kind.Name))
				}
			}
		}
		t.page.table(columns, labels)
		for _, tr := range t.view.r.Treatments {
			if t.view.unrestarted(kind.Name, tr.ID) && !tr.Control {
				t.page.prose("Nothing restarts " + with(t.view.label.describe(tr.Factors)) + ": a failure there has another cause.")
			}
		}
	}
}

// changePartsSection is where the time of changes went, as the parts of the mesh count it.
func changePartsSection(t text) {
	all := t.view.r.ChangeParts
	if len(all) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Where the time of changes went: diagnosis by what control plane and proxies count (ms, means, %s interval)", t.view.percent()))
	var parts []string // of all rows, in the order of time
	left, unsure := 0, 0.0
	for _, p := range all {
		left, unsure = left+p.LeftOut, max(unsure, p.ResolutionMS)
		for _, part := range p.Parts {
			if !slices.Contains(parts, part.Name) {
				parts = append(parts, part.Name)
			}
		}
	}
	g := gridOf([]int{0, 1}, append(append([]string{"treatment", "change"}, parts...), "whole", "changes")...)
	for _, p := range all {
		row := []string{t.view.label.describe(t.view.treatment(p.Treatment).Factors), p.Kind}
		for _, name := range parts {
			cell := "-"
			if i := slices.IndexFunc(p.Parts, func(part answer.ChangePart) bool { return part.Name == name }); i >= 0 {
				cell = meanWithin(p.Parts[i].MS)
			}
			row = append(row, cell)
		}
		whole := "-"
		if p.Changes > 0 {
			whole = meanWithin(p.Whole)
		}
		g.row(append(row, whole, fmt.Sprint(p.Changes))...)
	}
	t.page.table(g, 2)
	t.page.line("")
	note := fmt.Sprintf("Of every fifth change. The whole is the last answer by the old configuration, and may be up to %s ms longer; the last part is the rest. These changes have no CPU figure.", rough(unsure))
	if left > 0 {
		note += fmt.Sprintf(" Left out: %s whose parts are longer than the whole.", printable.Counted(left, "change"))
	}
	t.page.prose(note)
}

// meanWithin is an estimate in ms with half of its interval.
func meanWithin(i stats.Interval) string {
	half, known := i.HalfWidth()
	if !known {
		return fixed(i.Estimate, max(0, 1-magnitude(i.Estimate)))
	}
	d := max(0, 1-magnitude(half))
	return fixed(i.Estimate, min(d, 2)) + " ±" + fixed(half, min(d, 2))
}

// withoutKind leaves the kind out of a column's heads: the table is of that kind.
func withoutKind(c column, kind string) column {
	heads := []string{c.heads[0], strings.TrimLeft(strings.TrimPrefix(c.heads[1], kind), "-, ")}
	if heads[1] == "" {
		heads[0] = strings.TrimSuffix(heads[0], ",")
	}
	c.heads = heads
	return c
}

// changeAnswers are the times of changes and the requests that they cost, a sentence each for a kind. The kinds by which requests
// fail come first, by the number of failures. Failures precede times.
func changeAnswers(v view) (lines []string) {
	kinds := slices.Clone(metric.ChangeKinds())
	worst := map[string]float64{}
	for _, kind := range kinds {
		for _, tr := range v.r.Treatments {
			if e := tr.Metrics[metric.Of(metric.ChangeFailed, kind.Name)]; !tr.Control && e.N > 0 && !v.unrestarted(kind.Name, tr.ID) {
				worst[kind.Name] = max(worst[kind.Name], e.Estimate)
			}
		}
	}
	slices.SortStableFunc(kinds, func(a, b metric.ChangeKind) int { return cmp.Compare(worst[b.Name], worst[a.Name]) })
	for _, kind := range kinds {
		said := []string{changeDropped(v, kind), changeFailures(v, kind.Name, kind.One), changeUnchanged(v, kind.Name, kind.One)}
		if worst[kind.Name] > 0 {
			said[0], said[1] = said[1], said[0]
		}
		for _, s := range said {
			if s != "" {
				lines = append(lines, s)
			}
		}
		for _, q := range metric.ChangeQuantiles {
			if times := changeBounds(v, kind, q.Q, q.End); times != "" {
				share := map[bool]string{true: "Half", false: fmt.Sprintf("%g %%", 100*q.Q)}[q.Q == 0.5]
				lines = append(lines, fmt.Sprintf("%s of the %s %s after %s.", share, kind.Many, kind.Reached, times))
			}
		}
		if s := fewChanges(v, kind); s != "" {
			lines = append(lines, s)
		}
		if kind.Name == metric.VersionChanged {
			lines = append(lines, versionMoves(v)...)
		}
		if s := changeCPU(v, kind.Name); s != "" {
			lines = append(lines, fmt.Sprintf("%s costs %s.", strings.ToUpper(kind.One[:1])+kind.One[1:], s))
		}
	}
	return lines
}

// changeBounds are the bounds of a quantile for each treatment: "at least 40.0, at most 44.1 ms (39.7 to 45.2) with envoy". The
// interval over trials is of the lower bound below, and of the upper bound above.
func changeBounds(v view, kind metric.ChangeKind, q float64, end string) string {
	most := map[string]string{metric.ChangeFirstNew: metric.ChangeFirstNewMost, metric.ChangeLastOld: metric.ChangeLastOldMost}[kind.Time]
	var all []string
	for _, seen := range v.r.ChangeTimes {
		if seen.Kind != kind.Name || seen.Quantile != q {
			continue
		}
		tr := v.treatment(seen.Treatment)
		over := compare.Estimate{}
		over.Low, over.High = tr.Metrics[metric.Of(kind.Time, kind.Name+end)].Low, tr.Metrics[metric.Of(most, kind.Name+end)].High
		words := boundWords(seen.FromMS, *seen.ToMS)
		if over.Known() {
			words += rangeWords(over)
		}
		all = append(all, words+" "+with(v.label.describe(tr.Factors)))
	}
	return strings.Join(firstOf(all, mostAnswers), ", ")
}

// boundWords are bounds in ms, rounded outwards: "at least 39.9, at most 44.1 ms".
func boundWords(low, high float64) string {
	decimals := max(0, 1-magnitude(high-low))
	if high <= low {
		decimals = max(0, 2-magnitude(high))
	}
	step := math.Pow(10, float64(min(decimals, 2)))
	return fmt.Sprintf("at least %s, at most %s ms", fixed(math.Floor(low*step)/step, min(decimals, 2)), fixed(math.Ceil(high*step)/step, min(decimals, 2)))
}

// versionMoves are the versions before and after version changes, and the changes that are not complete.
func versionMoves(v view) (lines []string) {
	for _, m := range v.r.VersionMoves {
		to := "to " + m.To
		if m.To == m.From {
			to = "to another revision of it"
		}
		mesh := with(v.label.describe(v.treatment(m.Treatment).Factors))
		lines = append(lines, fmt.Sprintf("%s %s: %s %s, by the images of the control plane and %s.",
			printable.Counted(m.Changes, "version change"), mesh, m.From, to, printable.Counted(m.Proxies, "new proxy")))
		if m.Incomplete > 0 {
			lines = append(lines, fmt.Sprintf("Not complete %s: after %d of %s a new proxy does not run the new version (changes[].moved.left of the trials).",
				mesh, m.Incomplete, printable.Counted(m.Changes, "version change")))
		}
	}
	return lines
}

// changeMedians prints the settings for medians of all kinds: "30 of each kind in a trial: changes.count: 60 and phases.measure: 2m2s".
func changeMedians(need answer.ChangeMedians) string {
	return fmt.Sprintf("%d of each kind in a trial: changes.count: %d and phases.measure: %v", need.Each, need.Count,
		time.Duration(math.Ceil(need.MeasureSeconds))*time.Second)
}

// unrestarted reports whether restarts of a kind ended no process with a treatment.
func (v view) unrestarted(kind, treatment string) bool {
	return slices.Contains(v.r.Unrestarted, answer.Unrestarted{Treatment: treatment, Kind: kind})
}

// fewChanges are the times of changes that are too few for a median: "Too few proxy restarts for a median: 2 within 3100 to
// 3600 ms with istio."
func fewChanges(v view, kind metric.ChangeKind) string {
	var all []string
	for _, seen := range v.r.ChangeTimes {
		if seen.Kind != kind.Name || seen.Quantile > 0 || seen.ToMS == nil && seen.Changes >= metric.ChangeQuantiles[0].From { // never changed
			continue
		}
		within := "after more than " + rough(seen.FromMS) + " ms"
		if seen.ToMS != nil {
			within = "within " + rough(seen.FromMS) + " to " + rough(*seen.ToMS) + " ms"
		}
		all = append(all, fmt.Sprintf("%d %s %s", seen.Changes, within, with(v.label.describe(v.treatment(seen.Treatment).Factors))))
	}
	if all == nil {
		return ""
	}
	few := fmt.Sprintf("Too few %s for a median: %s.", kind.Many, strings.Join(firstOf(all, mostAnswers), ", "))
	if need := v.r.ChangeMedians; need != nil {
		few += fmt.Sprintf(" It needs %s.", changeMedians(*need))
	}
	return few
}

// changeUnchanged are the connections that never follow a change, where at least one does not on average.
func changeUnchanged(v view, kind, one string) string {
	name := metric.Of(metric.ChangeUnchanged, kind)
	var all []string
	for _, tr := range v.r.Treatments {
		if e, known := tr.Metrics[name]; known && e.N > 0 && !tr.Control && e.Estimate >= 1 {
			all = append(all, rough(e.Estimate)+" "+with(v.label.describe(tr.Factors)))
		}
	}
	if all == nil {
		return ""
	}
	return fmt.Sprintf("Connections that %s never reaches: %s.", one, strings.Join(firstOf(all, mostAnswers), ", "))
}

// changeFailures are the failed requests per change. Of a share with none in n, the upper bound is 3/n at 95 %.
func changeFailures(v view, kind, one string) string {
	made, failed := metric.Of(metric.ChangesMade, kind), metric.Of(metric.ChangeFailed, kind)
	fewest, any := math.MaxInt, false
	for _, tr := range v.r.Treatments {
		if e, known := tr.Metrics[failed]; known && e.N > 0 && !tr.Control {
			fewest, any = min(fewest, changesOf(tr, made)), any || e.Estimate > 0
		}
	}
	switch {
	case fewest == math.MaxInt:
		return ""
	case any:
		return fmt.Sprintf("Failed requests during %s: %s.", one, eachTreatment(v, failed, func(tr compare.Treatment, e compare.Estimate) string {
			words := rough(e.Estimate) + rangeWords(e)
			if e.Estimate == 0 {
				words = fmt.Sprintf("none in %d", changesOf(tr, made))
			}
			if v.unrestarted(kind, tr.ID) {
				words += " (nothing restarts)"
			}
			return words
		}))
	}
	return fmt.Sprintf("No request failed during %s. With none in %d for each treatment, at most %s %% of them have failures (95 %%).",
		one, fewest, rough(100*min(1, 3/float64(max(1, fewest)))))
}

// changeDropped are the connections that the server ended after a change, and the requests that were cut with them: "Connections
// that a route change drops: 8 (0.2 requests cut) with nginx, none with envoy."
func changeDropped(v view, kind metric.ChangeKind) string {
	name, any := metric.Of(metric.ChangeDropped, kind.Name), false
	for _, tr := range v.r.Treatments {
		any = any || !tr.Control && tr.Metrics[name].N > 0 && tr.Metrics[name].Estimate > 0
	}
	if !any {
		return ""
	}
	return fmt.Sprintf("Connections that %s drops: %s.", kind.One, eachTreatment(v, name, func(tr compare.Treatment, e compare.Estimate) string {
		if e.Estimate == 0 {
			return "none"
		}
		cut := tr.Metrics[metric.Of(metric.ChangeCut, kind.Name)]
		return fmt.Sprintf("%s (%s requests cut)", rough(e.Estimate)+rangeWords(e), rough(cut.Estimate))
	}))
}

// changeCPU is the CPU of a change for each treatment, by the planes that the change is for: "the control plane 14 ms of CPU
// (12 to 17), each proxy 0.9 ms (0.8 to 1.0) with envoy-xds". Without a mesh it is the CPU of the application.
func changeCPU(v view, kind string) string {
	var all []string
	for _, tr := range v.r.Treatments {
		var parts []string
		for _, plane := range []struct{ part, words string }{{"control", "the control plane"}, {"proxy", "each proxy"}, {"app", "the application"}} {
			e, known := tr.Metrics[metric.Of(metric.ChangeCPU, kind+"-"+plane.part)]
			if !known || e.N == 0 || tr.Control || plane.part == "app" && parts != nil || v.unrestarted(kind, tr.ID) {
				continue
			}
			of := ""
			if all == nil && parts == nil {
				of = " of CPU"
			}
			parts = append(parts, fmt.Sprintf("%s %s ms%s%s", plane.words, rough(e.Estimate), of, rangeWords(e)))
		}
		if parts != nil {
			all = append(all, strings.Join(parts, " and ")+" "+with(v.label.describe(tr.Factors)))
		}
	}
	return strings.Join(firstOf(all, mostAnswers), "; ")
}

// eachTreatment is a metric of all treatments but controls: "3.1 ms (2.9 to 3.3) with envoy, 2.1 ms without a mesh".
func eachTreatment(v view, name string, words func(compare.Treatment, compare.Estimate) string) string {
	var all []string
	for _, tr := range v.r.Treatments {
		if e, known := tr.Metrics[name]; known && e.N > 0 && !tr.Control {
			all = append(all, words(tr, e)+" "+with(v.label.describe(tr.Factors)))
		}
	}
	return strings.Join(firstOf(all, mostAnswers), ", ")
}

func timeWords(_ compare.Treatment, e compare.Estimate) string {
	return rough(e.Estimate) + " ms" + rangeWords(e)
}

func rangeWords(e compare.Estimate) string {
	if !e.Known() {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", rough(max(0, *e.Low)), rough(*e.High))
}

// changesOf is the number of changes in all trials of a treatment.
func changesOf(tr compare.Treatment, made string) int {
	e := tr.Metrics[made]
	return int(math.Round(e.Estimate * float64(e.N)))
}
