package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// changesSection is the table of changes, the kind by which most requests fail first.
func changesSection(t text) {
	if g := changeTable(t.view, slices.Concat(changeColumns, changeDetails)); g != nil {
		t.page.heading(changesTitle)
		t.page.table(g, 1)
		for _, note := range changeNotes(t.view, g) {
			t.page.prose(note)
		}
	}
	for _, m := range t.view.r.VersionMoves {
		line := fmt.Sprintf("From version %s to %s %s: %s, %s", m.From, m.To, with(t.view.label.describe(t.view.treatment(m.Treatment).Factors)), printable.Counted(m.Changes, "change"), printable.Counted(m.Proxies, "new proxy"))
		if m.Incomplete > 0 {
			line += fmt.Sprintf("; after %d of them a new proxy did not run %s", m.Incomplete, m.To)
		}
		t.page.prose(line + ".")
	}
}

// changePartsSection is where the time of changes went, as the parts of the mesh count it.
func changePartsSection(t text) {
	all := t.view.r.ChangeParts
	if len(all) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Where the time of changes went: diagnosis by what control plane and proxies count (means in ms, %s interval)", t.view.percent()))
	var parts []string // of all rows, in the order of time
	left, unsure := 0, 0.0
	for _, p := range all {
		left, unsure = left+p.LeftOut, max(unsure, p.ResolutionMS)
		for _, part := range p.Parts {
			parts = lists.Add(parts, part.Name)
		}
	}
	g := gridOf([]int{0, 1}, append(append([]string{"treatment", "change"}, parts...), "whole", "changes")...)
	for _, p := range all {
		row := []string{t.view.label.describe(t.view.treatment(p.Treatment).Factors), p.Kind}
		for _, name := range parts {
			cell := "-"
			if i := slices.IndexFunc(p.Parts, func(part answer.ChangePart) bool { return part.Name == name }); i >= 0 {
				cell = figure(p.Parts[i].MS, 1, false)
			}
			row = append(row, cell)
		}
		whole := "-"
		if p.Changes > 0 {
			whole = figure(p.Whole, 1, false)
		}
		g.row(append(row, whole, fmt.Sprint(p.Changes))...)
	}
	t.page.table(g, 2)
	t.page.line("")
	note := fmt.Sprintf("A diagnosis of every fifth change. The whole ends with the last answer by the old configuration, and may be up to %s ms longer. The last part is the remainder. These changes have no CPU figure.", rough(unsure))
	if left > 0 {
		note += fmt.Sprintf(" Left out: %s whose parts are longer than the whole.", printable.Counted(left, "change"))
	}
	t.page.prose(note)
}

// changesTitle is the title of the table of changes.
const changesTitle = "Changes, the worst kind first (mean of failed requests with its interval; times as bounds of the median)"

// ChangesOf is the table of changes for formats that draw the report, without what they have figures of. It is nil for runs without
// changes.
func ChangesOf(r *answer.Report) *TextTable {
	v := newView(r)
	v.short = true
	g := changeTable(v, changeColumns)
	if g == nil {
		return nil
	}
	all := &TextTable{Title: changesTitle, Notes: changeNotes(v, g)}
	for _, c := range g {
		all.Heads = append(all.Heads, strings.TrimSpace(strings.Join(c.heads, " ")))
	}
	for i := range g[0].cells {
		row := lists.Map(g, func(c column) string { return c.cells[i] })
		if g[0].title[i] {
			row = row[:1]
		}
		all.Rows = append(all.Rows, row)
	}
	return all
}

// changeRow is a kind of change with a treatment. Without a treatment it is the title of the rows below it.
type changeRow struct {
	kind metric.ChangeKind
	of   *compare.Treatment
}

// changeTable has a row for each kind of change and treatment. It is nil for runs without changes.
func changeTable(v view, columns []changeColumn) grid {
	treatments := rows(v)
	var all []changeRow
	for _, kind := range worstFirst(v) {
		titled := len(treatments) < 2
		for i := range treatments {
			if _, made := treatments[i].Metrics[metric.Of(metric.ChangesMade, kind.Name)]; !made {
				continue
			}
			if !titled {
				all = append(all, changeRow{kind: kind})
			}
			all, titled = append(all, changeRow{kind, &treatments[i]}), true
		}
	}
	if all == nil {
		return nil
	}
	g := grid{{heads: []string{""}, left: true, title: map[int]bool{}}}
	for i, x := range all {
		g[0].title[i] = x.of == nil
		switch {
		case x.of == nil || len(treatments) < 2:
			g[0].cells = append(g[0].cells, x.kind.Many)
		default:
			g[0].cells = append(g[0].cells, "  "+v.label.withControl(*x.of))
		}
	}
	for _, head := range columns {
		c := column{heads: strings.Split(head.head, "\n")}
		for _, x := range all {
			cell := ""
			if x.of != nil {
				cell = head.cell(v, x.kind, *x.of)
			}
			c.cells = append(c.cells, cell)
		}
		if head.always || slices.ContainsFunc(c.cells, func(cell string) bool { return !slices.Contains([]string{"", unmade, "0"}, cell) }) {
			g = append(g, c)
		}
	}
	return g
}

// unmade is a figure that a kind of change does not have, or of which nothing was seen.
const unmade = "-"

// changeCell is a cell of the table of changes.
type changeCell func(view, metric.ChangeKind, compare.Treatment) string

// changeColumn is a column of the table of changes. One that is not in every table needs a figure other than zero.
type changeColumn struct {
	head   string
	always bool
	cell   changeCell
}

// changeColumns are the columns of the table of changes, the most important first.
var changeColumns = []changeColumn{
	{"failed requests\na change", true, meanOf(metric.ChangeFailed, 1, "")},
	{"first effect,\nms", false, timeOf(metric.ChangeFirstNew, 0)},
	{"last old\nanswer, ms", false, timeOf(metric.ChangeLastOld, 0)},
	{"\nchanges", true, func(_ view, kind metric.ChangeKind, tr compare.Treatment) string {
		return fmt.Sprint(changesOf(tr, kind))
	}},
	{"dropped\nconnections", false, meanOf(metric.ChangeDropped, 1, "")},
	{"with\nfailures", false, meanOf(metric.ChangeFailing, 100, " %")},
	{"cut\nrequests", false, meanOf(metric.ChangeCut, 1, "")},
	{"unchanged\nconnections", false, meanOf(metric.ChangeUnchanged, 1, "")},
	{"\nflaps", false, meanOf(metric.ChangeFlaps, 1, "")},
}

// changeDetails are the columns after them, of which a page has figures.
var changeDetails = []changeColumn{
	{"CPU, ms:\ncontrol plane", false, changeCPU("-control")}, {"CPU, ms:\ndata plane", false, changeCPU("-data")}, {"CPU, ms:\na proxy", false, changeCPU("-proxy")}, {"CPU, ms:\napplication", false, changeCPU("-app")},
	{"first effect,\np99, ms", false, timeOf(metric.ChangeFirstNew, 1)}, {"last old\nanswer, p99, ms", false, timeOf(metric.ChangeLastOld, 1)},
}

// meanOf is a column of the mean of a metric over changes with its interval: "7.5 (6.2 to 8.8)". A share has none.
func meanOf(base string, scale float64, unit string) changeCell {
	return func(_ view, kind metric.ChangeKind, tr compare.Treatment) string {
		switch e := tr.Metrics[metric.Of(base, kind.Name)]; {
		case e.N == 0:
			return unmade
		case e.Estimate == 0:
			return "0"
		case unit != "":
			return rough(e.Estimate*scale) + unit
		default:
			return rough(e.Estimate) + rangeWords(e.Interval)
		}
	}
}

// changeCPU is a column of the CPU of a change.
func changeCPU(end string) changeCell {
	return func(_ view, kind metric.ChangeKind, tr compare.Treatment) string {
		e := tr.Metrics[metric.Of(metric.ChangeCPU, kind.Name+end)]
		if e.N == 0 {
			return unmade
		}
		return strings.TrimSuffix(figure(e.Interval, 1, false), " ±"+unknown)
	}
}

// timeOf is a column of bounds of a time of changes. Of too few changes for a median it is in brackets, from the shortest to the longest.
func timeOf(base string, quantile int) changeCell {
	q := metric.ChangeQuantiles[quantile]
	return func(v view, kind metric.ChangeKind, tr compare.Treatment) string {
		if base == metric.ChangeFirstNew && !kind.First || base == metric.ChangeLastOld && !kind.Last {
			return unmade
		}
		if seen, known := changeTimes(v, kind, tr, q.Q); known && base == kind.Time {
			return endsWords(seen.FromMS, *seen.ToMS)
		}
		if seen, known := changeTimes(v, kind, tr, 0); known && base == kind.Time && quantile == 0 && (seen.FromMS > 0 || seen.ToMS != nil) {
			return "(" + withinBounds(&answer.Bounds{FromMS: seen.FromMS, ToMS: seen.ToMS}) + ")"
		}
		name := metric.Of(base, kind.Name+q.End)
		most, _ := metric.UpperBoundOf(name)
		low, high := tr.Metrics[name], tr.Metrics[most]
		switch {
		case low.N == 0:
			return unmade
		case high.N == 0:
			return "over " + rough(low.Estimate)
		}
		return endsWords(low.Estimate, high.Estimate)
	}
}

// changeNotes explain what a table of changes has.
func changeNotes(v view, g grid) (notes []string) {
	has := func(sign string) bool {
		return slices.ContainsFunc(g, func(c column) bool {
			return slices.ContainsFunc(c.cells, func(cell string) bool { return strings.HasPrefix(cell, sign) })
		})
	}
	if has("(") {
		notes = append(notes, "In brackets: from the shortest to the longest, where changes are too few for a median.")
	}
	made := func(kind metric.ChangeKind) bool { return v.known(metric.Of(metric.ChangesMade, kind.Name)) }
	if slices.ContainsFunc(metric.ChangeKinds(), func(kind metric.ChangeKind) bool { return kind.Shown == metric.Outage && made(kind) }) {
		notes = append(notes, "Of a restart: the first answer after failures, and the last failure.")
	}
	for _, kind := range worstFirst(v) {
		for _, tr := range v.r.Treatments {
			if v.unrestarted(kind.Name, tr.ID) && !tr.Control {
				notes = append(notes, fmt.Sprintf("%s end no process %s: a failure there has another cause.", capital(kind.Many), with(v.label.describe(tr.Factors))))
			}
		}
	}
	return notes
}

// worstFirst are the kinds of changes, those by which most requests fail first.
func worstFirst(v view) []metric.ChangeKind {
	return slices.SortedStableFunc(slices.Values(metric.ChangeKinds()), func(a, b metric.ChangeKind) int { return cmp.Compare(mostFailed(v, b), mostFailed(v, a)) })
}

// changeForms are the claims about a kind of change in their order: failures before times. none is the form where no treatment has
// some of it, without words for no claim. of are the words about a treatment.
var changeForms = []struct {
	some, none ClaimForm
	of         func(view, metric.ChangeKind, compare.Treatment) Claim
}{
	{changeFailed, changeNone, failedWords}, {changeDropped, ClaimForm{}, droppedWords}, {changeMedian, changeMedian, medianWords}, {changeFew, changeFew, tooFewWords}, {changeUnlearned, changeUnlearned, unreachedWords},
}

// changeClaims are about the changes of a run. The kinds by which most requests fail come first.
func changeClaims(v view) (all []Claim) {
	for _, kind := range worstFirst(v) {
		fewest := fewestChanges(v, kind)
		words := sentenceWords{"blocks": map[bool]string{true: " One block: no intervals."}[v.r.Count.Blocks == 1], "one": kind.One, "many": kind.Many, "reached": kind.Reached, "fewest": fmt.Sprint(fewest), "bound": rough(100 * min(1, 3/float64(max(1, fewest))))}
		if need := v.r.ChangeMedians; need != nil {
			set := []string{fmt.Sprintf("changes.count=%d", need.Count), fmt.Sprintf("phases.measure=%.0fs", math.Ceil(need.MeasureSeconds))}
			words["needs"] = fmt.Sprintf(" It needs %d of each kind in a trial: `%s`.", need.Each, RunCommand(v.r.Directory, set))
		}
		for _, f := range changeForms {
			c := Claim{Form: f.none, Of: v.each(func(tr compare.Treatment) Claim { return f.of(v, kind, tr) })}
			if some(c.Of) {
				c.Form = f.some
			}
			if c.Of != nil && c.Form.words != "" {
				all = append(all, c.fill(words))
			}
		}
	}
	return all
}

// each are the parts of a claim about every treatment but controls: "3.1 ms (2.9 to 3.3) with envoy", "none without a mesh". A
// treatment without words is left out.
func (v view) each(words func(compare.Treatment) Claim) (all []Claim) {
	for _, tr := range v.r.Treatments {
		if of := words(tr); of.Sentence != "" && !tr.Control {
			of.Sentence += " " + with(v.label.describe(tr.Factors))
			all = append(all, of)
		}
	}
	return all
}

// some reports whether a part has an amount.
func some(all []Claim) bool {
	return slices.ContainsFunc(all, func(c Claim) bool { return c.Amount.Estimate > 0 })
}

// mostFailed is the largest number of failed requests of a change with any treatment.
func mostFailed(v view, kind metric.ChangeKind) (most float64) {
	for _, tr := range v.r.Treatments {
		if !tr.Control && !v.unrestarted(kind.Name, tr.ID) {
			most = max(most, tr.Metrics[metric.Of(metric.ChangeFailed, kind.Name)].Estimate)
		}
	}
	return most
}

// fewestChanges is the smallest number of changes of a treatment.
func fewestChanges(v view, kind metric.ChangeKind) int {
	fewest := math.MaxInt
	for _, tr := range v.r.Treatments {
		if n := changesOf(tr, kind); !tr.Control && n > 0 {
			fewest = min(fewest, n)
		}
	}
	return fewest
}

// changesOf is the number of changes in all trials of a treatment.
func changesOf(tr compare.Treatment, kind metric.ChangeKind) int {
	e := tr.Metrics[metric.Of(metric.ChangesMade, kind.Name)]
	return int(math.Round(e.Estimate * float64(e.N)))
}

// failedWords are the failed requests per change. Of a share with none in n, the upper bound is 3/n at 95 %.
func failedWords(v view, kind metric.ChangeKind, tr compare.Treatment) (c Claim) {
	failed := metric.Of(metric.ChangeFailed, kind.Name)
	e := tr.Metrics[failed]
	if e.N == 0 {
		return c
	}
	c = part(tr, failed, e.Interval, fmt.Sprintf("none in %d", changesOf(tr, kind)))
	if made, lost := byBlock(v, tr.ID, figureOf(metric.Of(metric.ChangesMade, kind.Name))), 0.0; e.Estimate > 0 {
		for block, mean := range byBlock(v, tr.ID, figureOf(failed)) {
			lost += mean * made[block]
		}
		c.Sentence = rough(e.Estimate) + " a change" + rangeWords(e.Interval)
		if lost > 0 {
			c.Sentence = fmt.Sprintf("%.0f in %s (%s)", lost, printable.Counted(changesOf(tr, kind), "change"), strings.NewReplacer(" (", ", ", ")", "").Replace(c.Sentence))
		}
	}
	if v.unrestarted(kind.Name, tr.ID) {
		c.Reason = "nothing restarts"
		c.Sentence += " (nothing restarts)"
	}
	return c
}

// droppedWords are the connections that the server ended, mean per change.
func droppedWords(_ view, kind metric.ChangeKind, tr compare.Treatment) (c Claim) {
	name := metric.Of(metric.ChangeDropped, kind.Name)
	if e := tr.Metrics[name]; e.N > 0 {
		c = part(tr, name, e.Interval, map[bool]string{true: "none", false: rough(e.Estimate) + rangeWords(e.Interval)}[e.Estimate == 0])
	}
	return c
}

// unreachedWords are the connections that never follow a change, where at least one does not on average.
func unreachedWords(_ view, kind metric.ChangeKind, tr compare.Treatment) (c Claim) {
	name := metric.Of(metric.ChangeUnchanged, kind.Name)
	if e := tr.Metrics[name]; e.N > 0 && e.Estimate >= 1 {
		c = part(tr, name, e.Interval, rough(e.Estimate))
	}
	return c
}

// changeTimes are the times of a treatment's changes: of a quantile, or of too few changes for one if it is 0.
func changeTimes(v view, kind metric.ChangeKind, tr compare.Treatment, quantile float64) (answer.ChangeTimes, bool) {
	return lists.First(v.r.ChangeTimes, func(t answer.ChangeTimes) bool {
		return t.Treatment == tr.ID && t.Kind == kind.Name && t.Quantile == quantile
	})
}

// mostBounds is the largest number of treatments whose bounds are in words.
const mostBounds = 3

// medianWords are the bounds of the median: "at least 40.0, at most 44.1 ms (39.7 to 45.2)". The interval over trials is of the lower
// bound below, and of the upper bound above.
func medianWords(v view, kind metric.ChangeKind, tr compare.Treatment) (c Claim) {
	q := metric.ChangeQuantiles[0]
	seen, known := changeTimes(v, kind, tr, q.Q)
	if !known {
		return c
	}
	least := metric.Of(kind.Time, kind.Name+q.End)
	most, _ := metric.UpperBoundOf(least)
	over := stats.Interval{Estimate: seen.FromMS, Low: tr.Metrics[least].Low, High: tr.Metrics[most].High}
	c = part(tr, least, over, boundWords(seen.FromMS, *seen.ToMS)+rangeWords(over))
	if len(v.r.Treatments) > mostBounds { // the table below has the intervals
		c.Sentence = endsWords(seen.FromMS, *seen.ToMS) + " ms"
	}
	c.AtMost = seen.ToMS
	return c
}

// tooFewWords are the times of changes that are too few for a median: "2 took 3100 to 3600 ms".
func tooFewWords(v view, kind metric.ChangeKind, tr compare.Treatment) (c Claim) {
	seen, known := changeTimes(v, kind, tr, 0)
	if !known || seen.ToMS == nil && (seen.FromMS == 0 || seen.Changes >= metric.ChangeQuantiles[0].From) { // unknown, or they never take effect
		return c
	}
	c = part(tr, metric.Of(kind.Time, kind.Name), stats.Interval{Estimate: seen.FromMS}, fmt.Sprintf("%d took %s ms", seen.Changes, withinBounds(&answer.Bounds{FromMS: seen.FromMS, ToMS: seen.ToMS})))
	c.AtMost = seen.ToMS
	return c
}

// boundWords are bounds in ms, rounded outwards: "at least 39.9, at most 44.1 ms".
func boundWords(low, high float64) string {
	least, most := ends(low, high)
	return fmt.Sprintf("at least %s, at most %s ms", least, most)
}

// endsWords are bounds in a table: "39.9 to 44.1".
func endsWords(low, high float64) string {
	least, most := ends(low, high)
	if least == most {
		return least
	}
	return least + " to " + most
}

// ends are bounds rounded outwards.
func ends(low, high float64) (least, most string) {
	decimals := max(0, 1-magnitude(high-low))
	if high <= low {
		decimals = max(0, 2-magnitude(high))
	}
	decimals = min(decimals, 2)
	step := math.Pow10(decimals)
	return fixed(math.Floor(low*step)/step, decimals), fixed(math.Ceil(high*step)/step, decimals)
}

// unrestarted reports whether restarts of a kind ended no process with a treatment.
func (v view) unrestarted(kind, treatment string) bool {
	return slices.Contains(v.r.Unrestarted, answer.Unrestarted{Treatment: treatment, Kind: kind})
}

func rangeWords(i stats.Interval) string {
	if !i.Known() {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", rough(max(0, *i.Low)), rough(*i.High))
}

// controlTimesSection is how long the stages of the control plane took, as it counts them.
func controlTimesSection(t text) {
	all := t.view.r.ControlTimes
	if len(all) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Stages of the control plane: diagnosis by what it counts itself (ms, means with the %s interval)", t.view.percent()))
	g := gridOf([]int{0, 1}, "treatment", "stage", "mean", "half within", "99 % within", "times")
	for _, c := range all {
		g.row(t.view.label.describe(t.view.treatment(c.Treatment).Factors), c.Stage, figure(c.Mean, 1, false), withinBounds(c.P50), withinBounds(c.P99), fmt.Sprint(c.Count))
	}
	t.page.table(g, 2)
	t.page.line("")
	t.page.prose("Of all of its work in the measure phase, whatever caused it. The ranges are buckets of its histograms. " +
		"Stages can contain one another, so that they have no sum. The time until proxies follow is not in them.")
}

// withinBounds prints the bucket of a quantile.
func withinBounds(b *answer.Bounds) string {
	switch {
	case b == nil:
		return "-"
	case b.ToMS == nil:
		return "over " + rough(b.FromMS)
	case b.FromMS == 0:
		return "up to " + rough(*b.ToMS)
	}
	return rough(b.FromMS) + " to " + rough(*b.ToMS)
}

// startMetrics are the metrics of the table of starts, without their parts.
var startMetrics = []string{metric.StartTime, metric.StopTime, metric.StopLost}

// startParts are the claims about parts of a start.
var startParts = []struct {
	part string
	form ClaimForm
}{{"app", startApp}, {"through", startThrough}}

// startsSection is the table of starts and stops of a pod.
func startsSection(t text) {
	var columns []column
	for _, m := range t.view.r.Metrics() {
		if slices.Contains(startMetrics, metric.Base(m.Name)) {
			columns = append(columns, t.view.treatmentColumn(m.Name, rows(t.view)))
		}
	}
	if columns != nil {
		t.page.heading("Starts and stops of a pod")
		t.byTreatment(columns)
	}
}

func startClaims(v view) (all []Claim) {
	for _, of := range startParts {
		each := v.each(func(tr compare.Treatment) (c Claim) {
			name, bound := metric.Of(metric.StartTime, of.part), metric.Of(metric.StartLeast, of.part)
			e, least := tr.Metrics[name], tr.Metrics[bound]
			switch {
			case e.N == 0:
				return c
			case least.N == e.N:
				within := stats.Interval{Estimate: least.Estimate, Low: least.Low, High: e.High}
				c = part(tr, bound, within, boundWords(least.Estimate, e.Estimate)+rangeWords(within))
				c.AtMost = &e.Estimate
				return c
			}
			return part(tr, name, e.Interval, rough(e.Estimate)+" ms"+rangeWords(e.Interval))
		})
		if each != nil {
			all = append(all, Claim{Form: of.form, Of: each}.fill(sentenceWords{}))
		}
	}
	return all
}

// handMetrics are the columns of a trial that hands changed.
var handMetrics = []string{metric.Rate, metric.ErrorRatio, metric.Latency + "/p50", metric.Latency + "/p99",
	metric.CPUPerRequest + "/app", metric.CPUPerRequest + "/data", metric.CPUCores + "/total"}

// byHandSection has the trials whose services were changed by hand, with the file that would repeat it. No verdict rests on them.
func byHandSection(t text) {
	for _, trial := range t.view.r.Trials {
		if len(trial.HandPhases) == 0 {
			continue
		}
		t.page.heading(fmt.Sprintf("Changed by hand: trial %s (of one trial, without intervals)", trial.ID))
		g := gridOf([]int{1}, "from", "change")
		for _, p := range trial.HandPhases {
			g.row(fixed(p.From, 1)+" s", changeByHand(p.Changes))
		}
		for _, name := range handMetrics {
			if slices.ContainsFunc(trial.HandPhases, func(p figures.HandPhase) bool { _, known := p.Metrics[name]; return known }) {
				g = append(g, metricColumn(name, func(scale float64) []string {
					return lists.Map(trial.HandPhases, func(p figures.HandPhase) string {
						v, known := p.Metrics[name]
						if !known {
							return unknown
						}
						return short(v*scale, 3)
					})
				}))
			}
		}
		t.page.table(g, 2)
		faults, left := repeated(trial.HandPhases)
		if faults != nil {
			t.page.line("")
			t.page.prose("The same by file, valid in each trial:")
			t.page.code(append([]string{"faults:"}, faults...))
		}
		if left != nil {
			t.page.prose("No fault repeats " + printable.Listed(left, 3) + ".")
		}
	}
}

// changeByHand is a change in a table.
func changeByHand(all []result.ByHand) string {
	if len(all) == 0 {
		return none
	}
	words := all[0].Target + " " + printable.Clip(printable.Line(all[0].Patch), 40)
	if len(all) > 1 {
		words += fmt.Sprintf(" and %d more", len(all)-1)
	}
	return words
}

// handFaults are kinds of faults by the field of a service that they change, with the parameter of its value. Fields without
// a parameter have values of several.
var handFaults = map[string]struct{ kind, parameter string }{
	"delay": {"latency", "delay"}, "errors": {"errors", ""}, "rateLimit": {"rate-limit", "rate"}, "cpu": {"cpu-burn", "cpu"}, "memory": {"memory", "memory"},
}

// handSpan is the time for which a field of a replica has a value.
type handSpan struct {
	target, field string
	value         any
	at, to        time.Duration // to is 0 until the end of the trial
}

const (
	handStep = 10 * time.Millisecond
	// handHeal is the time for the heal of a fault before the next one of the same replica.
	handHeal = 50 * time.Millisecond
)

// repeated are the faults of a file that repeat changes by hand, one a line, and the changes that no fault repeats.
func repeated(phases []figures.HandPhase) (faults, left []string) {
	spans := handSpans(phases)
	for i, s := range spans {
		service, replica := s.target, ""
		if dash := strings.LastIndex(s.target, "-"); dash > 0 {
			service, replica = s.target[:dash], s.target[dash+1:]
		}
		of, known := handFaults[s.field]
		parameters, ok := handParameters(of.parameter, s.value)
		beside := slices.ContainsFunc(spans[:i], func(o handSpan) bool {
			return o.target == s.target && o.field != s.field && (o.to == 0 || o.to > s.at)
		})
		if _, err := strconv.Atoi(replica); !known || !ok || beside || err != nil {
			left = append(left, fmt.Sprintf("%s of %s", s.field, s.target))
			continue
		}
		length := ""
		if s.to > 0 {
			length = fmt.Sprintf(", for: %v", max(handStep, s.to-s.at-handHeal))
		}
		faults = append(faults, fmt.Sprintf("  - {kind: %s, %s, at: %v%s, target: {service: %s, replica: %s}}", of.kind, parameters, s.at, length, service, replica))
	}
	return faults, left
}

// handSpans are the values of all fields that hands changed, in the order of their times.
func handSpans(phases []figures.HandPhase) (spans []handSpan) {
	for _, p := range phases {
		for _, h := range p.Changes {
			at := time.Duration(p.From * float64(time.Second))
			if p.From > 0 {
				at += h.At.Sub(p.Changes[0].At)
			}
			at = at.Round(handStep)
			var patch map[string]any
			if json.Unmarshal([]byte(h.Patch), &patch) != nil {
				continue // the change was accepted, so that it is an object
			}
			for _, field := range slices.Sorted(maps.Keys(patch)) {
				ended := false
				for i := range spans {
					if o := &spans[i]; o.target == h.Target && o.field == field && o.to == 0 {
						o.to, ended = at, true
					}
				}
				if !ended || !isNothing(patch[field]) {
					spans = append(spans, handSpan{target: h.Target, field: field, value: patch[field], at: at})
				}
			}
		}
	}
	slices.SortStableFunc(spans, func(a, b handSpan) int { return cmp.Compare(a.at, b.at) })
	return spans
}

// isNothing reports whether a value takes back what a field did.
func isNothing(value any) bool {
	if all, ok := value.(map[string]any); ok {
		value = all["ratio"]
	}
	return value == nil || value == 0.0 || value == "0s" || value == "0"
}

// handParameters are the parameters of a fault from the value of a field. A distribution is none.
func handParameters(name string, value any) (string, bool) {
	switch v := value.(type) {
	case float64:
		return fmt.Sprintf("%s: %v", name, v), name != ""
	case string:
		return fmt.Sprintf("%s: %s", name, v), name != "" && !strings.ContainsAny(v, "(){}:, ")
	case map[string]any:
		all := []string{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if number, ok := v[key].(float64); ok {
				all = append(all, fmt.Sprintf("%s: %v", key, number))
			}
		}
		return strings.Join(all, ", "), name == "" && len(all) == len(v) && len(all) > 0
	}
	return "", false
}
