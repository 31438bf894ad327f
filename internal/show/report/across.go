package report

import (
	"cmp"
	"fmt"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"io"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// AcrossForms lists every form of a comparison of two runs. The first is the default.
func AcrossForms(o Options) []Form[*compare.Across] {
	return Safe(
		Form[*compare.Across]{"text", "tables for the terminal", func(w io.Writer, a *compare.Across) error { return writeAcross(w, a, o, newPage(o, false, "")) }},
		Form[*compare.Across]{"json", "everything, schema " + compare.AcrossSchema, func(w io.Writer, a *compare.Across) error {
			return WriteAnswered(w, briefOfClaim(acrossClaims(a)[0], o.ExitCode), a)
		}},
		Form[*compare.Across]{"markdown", "for a pull request's comment or a job's summary", func(w io.Writer, a *compare.Across) error { return writeAcross(w, a, o, newPage(o, true, "###")) }},
	)
}

// across is the state of writing one comparison of two runs.
type across struct {
	*page
	a *compare.Across
	o Options
	l labels
}

func writeAcross(w io.Writer, a *compare.Across, o Options, p *page) error {
	x := across{p, a, o, acrossLabels(a)}
	sentences := AcrossAnswer(a)
	x.styled(bold, func() { x.prose(sentences[0]) })
	for _, sentence := range sentences[1:] {
		x.prose(sentence)
	}
	x.head()
	x.gates()
	x.differing()
	x.changes()
	if x.a.History != nil {
		writeHistory(x.a.History, x.page)
	}
	x.warnings()
	x.foot()
	return p.writeTo(w, "comparison")
}

func acrossLabels(a *compare.Across) labels {
	return labelsOf(nil, lists.Map(a.Changes, func(c compare.Comparison) plan.Factors { return c.Factors }))
}

func (x across) head() {
	if n := len(x.a.BaseRuns); n > 1 {
		x.heading(fmt.Sprintf("Changes from %d base runs to %s", n, x.a.New.Dir))
		for _, s := range x.a.BaseRuns {
			x.side("base "+s.Dir, s)
		}
	} else {
		x.heading("Changes from " + x.a.Base.Dir + " to " + x.a.New.Dir)
		x.side("base", x.a.Base)
	}
	x.side("new", x.a.New)
}

func (x across) side(name string, s compare.Side) {
	line := fmt.Sprintf("%s: %s, %d of %s used", name, s.Experiment, s.Count.Used, printable.Counted(s.Count.Planned, "trial"))
	if at := s.Setup.FirstStart; at != nil {
		line += ", started " + at.UTC().Format(time.DateTime) + " UTC"
	}
	x.item(line)
}

func (x across) differing() {
	if len(x.a.Obstacles) > 0 {
		x.heading("Different conditions (compared because of --anyway)")
		x.distinctions(x.a.Obstacles)
	}
	if len(x.a.Distinctions) > 0 {
		x.heading("Differences between the runs")
		x.distinctions(x.a.Distinctions)
	}
}

func (x across) distinctions(ds []compare.Distinction) {
	g := gridOf([]int{0, 1, 2}, "", "base", "new")
	for _, d := range ds {
		g.row(d.What, cmp.Or(d.Base, unknown), cmp.Or(d.New, unknown))
	}
	x.table(g, 1)
}

// gates come first: a pipeline reads them.
func (x across) gates() {
	if len(x.a.Gates) == 0 {
		return
	}
	x.heading("Gates")
	table := gridOf([]int{0, 1, 4}, "gate", "treatment", "change", "interval", "outcome")
	for _, g := range x.a.Gates {
		change, interval := unknown, ""
		if g.Change != nil {
			scale, unit := 1.0, " "+g.Unit
			if g.Unit != "%" {
				unit = quantityOf(g.Metric).differenceUnit()
				scale = quantityOf(g.Metric).scale
			}
			change, interval = difference(*g.Change, scale)+unit, bounds(*g.Change, scale, signed)
			if g.Growing {
				change += " " + upward
			}
		}
		outcome := string(g.Outcome)
		if g.Why != "" {
			outcome += ": " + g.Why
		}
		table.row(g.Gate, x.l.withControl(compare.Treatment{ID: g.Treatment, Factors: g.Factors}), change, interval, outcome)
	}
	x.table(table, 2)
}

func (x across) changes() {
	method := "Changes (Welch's %s %% intervals over the trials of both runs, not paired)"
	if len(x.a.BaseRuns) > 1 {
		method = "Changes (Student's %s %% intervals over runs: one new run against the base runs)"
	}
	x.heading(fmt.Sprintf(method, fixed(100*x.a.Confidence, decimalsOf(100*x.a.Confidence))))
	g := gridOf([]int{0, 7}, "", "base", "new", "change", "interval", "ratio", "interval", "verdict")
	treatment := ""
	for _, c := range x.shown() {
		if c.Treatment != treatment {
			treatment = c.Treatment
			g.row(x.l.withControl(compare.Treatment{ID: c.Treatment, Factors: c.Factors, Control: c.Control}))
		}
		g.row(x.cells(c)...)
	}
	x.table(g, 1)
}

// shown keeps the order of treatments and puts headline metrics first in each.
func (x across) shown() []compare.Comparison {
	rank := map[string]int{}
	var list []compare.Comparison
	for _, c := range x.a.Changes {
		if x.shows(c) {
			if _, ok := rank[c.Treatment]; !ok {
				rank[c.Treatment] = len(rank)
			}
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b compare.Comparison) int {
		if d := rank[a.Treatment] - rank[b.Treatment]; d != 0 {
			return d
		}
		return place(a.Metric) - place(b.Metric)
	})
	return list
}

func (x across) shows(c compare.Comparison) bool {
	zero := func(v *float64) bool { return v != nil && *v == 0 }
	if zero(c.Base) && zero(c.New) {
		return false
	}
	return x.o.All || slices.Contains(headlines, c.Metric) ||
		slices.ContainsFunc(slices.Concat(acrossResults...), func(x struct{ metric, name string }) bool { return x.metric == c.Metric })
}

func (x across) cells(c compare.Comparison) []string {
	q := quantityOf(c.Metric)
	mean := func(v *float64) string {
		if v == nil {
			return unknown
		}
		d := decimals(*v*q.scale, 0, false)
		if c.Difference != nil {
			if half, ok := c.Difference.HalfWidth(); ok {
				d = decimals(*v*q.scale, half*q.scale, true)
			}
		}
		return nonzero(*v*q.scale, d)
	}
	w := comparisonWords(c)
	name := "  " + q.name
	if flagged(c.Warnings) {
		name += " " + mark
	}
	words := string(c.Verdict)
	if c.Verdict == compare.Insufficient {
		words = fmt.Sprintf("too few trials (%d and %d, each needs %d)", c.NBase, c.NNew, stats.MinN)
		if len(x.a.BaseRuns) > 1 {
			words = fmt.Sprintf("too few base runs (%d, needs %d)", c.BaseRuns, stats.MinN)
		}
	}
	return []string{name, spaced(mean(c.Base), growthMark(c.BaseGrowth)), spaced(mean(c.New), growthMark(c.NewGrowth)), w.Difference, w.Interval, w.Ratio, w.RatioInterval, words}
}

func (x across) warnings() {
	rest := slices.DeleteFunc(slices.Clone(x.a.Warnings), func(w figures.Warning) bool { return w.Code == "not-comparable" }) // it is a table
	if len(rest) == 0 {
		return
	}
	x.heading("Warnings")
	for _, w := range rest {
		x.warning(w.Code+": "+w.Message, w.Hint)
	}
}

func (x across) foot() {
	words := "The trials of two runs share no block and are not paired: intervals cover the variation within the runs. Any other change between " +
		"them (another day, other neighbours) is part of the difference, and shows in the treatment without a mesh. " +
		"So gates need at least 3 base runs. Verdicts are adjusted by Holm's method."
	if len(x.a.BaseRuns) > 1 {
		words = "The run is the unit: intervals cover the variation from run to run, as the base runs have it, and that within runs. " +
			"Verdicts are adjusted by Holm's method; gates use the interval alone."
	}
	x.note(words + signsOf(x.text()))
}

// AcrossWords are the words of two runs compared. Comparisons are in the order of the changes.
func AcrossWords(a *compare.Across) Words {
	l := acrossLabels(a)
	w := Words{Names: map[string]string{}, Shown: shownMetrics, Comparisons: []ComparisonWords{}}
	seen := map[string]bool{}
	for _, c := range a.Changes {
		w.Names[c.Treatment] = l.withControl(compare.Treatment{ID: c.Treatment, Factors: c.Factors, Control: c.Control})
		w.Comparisons = append(w.Comparisons, comparisonWords(compare.Comparison{Metric: c.Metric, Difference: c.Difference, Ratio: c.Ratio, Verdict: c.Verdict}))
		if last := &w.Comparisons[len(w.Comparisons)-1]; c.NewGrowth != nil || c.BaseGrowth != nil {
			last.Difference = spaced(spaced(last.Difference, sided("base", c.BaseGrowth)), sided("new", c.NewGrowth))
		}
		if !seen[c.Metric] {
			seen[c.Metric] = true
			q := quantityOf(c.Metric)
			w.Metrics = append(w.Metrics, MetricWords{c.Metric, q.name, q.unit, q.scale})
		}
	}
	return w
}

// acrossResults are the metrics of the result of compared runs: of each line the first known one. Lines after the first are of runs of
// requests without CPU times.
var acrossResults = [][]struct{ metric, name string }{
	append([]struct{ metric, name string }{{answerCost, "CPU per request"}, {metric.WallTime, "wall time"}}, answerTimes...),
	{{metric.Rate, "rate of answers"}},
	{{metric.ErrorRatio, "share of failed requests"}},
}

// AcrossAnswer is the result of comparing runs, a sentence a claim.
func AcrossAnswer(a *compare.Across) []string {
	return firstOf(sentencesOf(acrossClaims(a)), mostAnswers)
}

// acrossClaims are the gate that matters most, and what changed with each treatment, shown changes first and baselines last.
func acrossClaims(a *compare.Across) (all []Claim) {
	l, before := acrossLabels(a), a.Base.Dir
	if n := len(a.BaseRuns); n > 1 {
		before = printable.Counted(n, "base run")
	}
	found, treatments := map[string]compare.Comparison{}, []compare.Comparison{}
	for _, c := range a.Changes {
		if c.Runs == nil || c.Control || c.Difference == nil {
			continue
		}
		if !slices.ContainsFunc(treatments, func(t compare.Comparison) bool { return t.Treatment == c.Treatment }) {
			treatments = append(treatments, c)
		}
		found[c.Treatment+"\x00"+c.Metric] = c.Judged(a.Confidence)
	}
	ranks := map[string]int{}
	for _, t := range treatments {
		name := l.withControl(compare.Treatment{ID: t.Treatment, Factors: t.Factors})
		for i, line := range acrossResults {
			at := slices.IndexFunc(line, func(x struct{ metric, name string }) bool { _, ok := found[t.Treatment+"\x00"+x.metric]; return ok })
			if at < 0 {
				continue
			}
			c := found[t.Treatment+"\x00"+line[at].metric]
			if _, seen := ranks[t.Treatment]; !seen {
				ranks[t.Treatment] = verdictRank(c.Verdict) + map[bool]int{true: 3}[c.Reference]
			}
			if i == 0 || *c.Base != 0 || *c.New != 0 {
				all = append(all, acrossClaim(a, c, name, line[at].name, before))
			}
			if c.Metric == answerCost || c.Metric == metric.WallTime {
				break
			}
		}
	}
	slices.SortStableFunc(all, func(x, y Claim) int { return ranks[x.Subject] - ranks[y.Subject] })
	if all = append(acrossGate(a, l, before), all...); all == nil {
		all = []Claim{{Form: acrossNone, Relation: compare.Insufficient, Baseline: before, Reason: acrossNone.words, Sentence: acrossNone.words}}
	}
	return all
}

// acrossClaim is a change of a metric: "istio: the median response time is higher: 3.3 ms, before 2.0 ms (+1.30 ±0.02 ms)."
func acrossClaim(a *compare.Across, c compare.Comparison, subject, name, before string) Claim {
	q := quantityOf(c.Metric)
	was, is := apart(*c.Base*q.scale, *c.New*q.scale)
	words := sentenceWords{"subject": subject, "name": name, "was": was, "is": is, "unit": q.unitText(), "verdict": string(c.Verdict), "change": comparisonWords(c).Both()}
	if c.OnRatio && !c.Difference.Known() {
		words["change"] += ratioText(c.Ratio)
	}
	x := Claim{Form: acrossMoved, Subject: c.Treatment, Baseline: before, Metric: c.Metric, Relation: c.Verdict, Amount: c.Difference}
	switch {
	case c.Verdict == compare.Insufficient:
		x.Form, x.Reason = acrossFew, "too few trials for a verdict"
		switch {
		case len(a.BaseRuns) > 1:
			x.Reason = fmt.Sprintf("%s, and an interval needs %d", printable.Counted(c.BaseRuns, "base run"), stats.MinN)
		case c.NBase == 1 && c.NNew == 1:
			x.Reason = "one run each, and an interval needs " + numberWord(stats.MinN)
		case c.NBase > 0 && c.NNew > 0 && min(c.NBase, c.NNew) < stats.MinN:
			x.Reason = fmt.Sprintf("%d and %s, and an interval needs %s of each", c.NBase, printable.Counted(c.NNew, "trial"), numberWord(stats.MinN))
		}
		words["reason"] = x.Reason
	case !isShown(c.Verdict):
		x.Form = acrossOpen
	}
	return x.fill(words)
}

// acrossGate has the claim about the gate that matters most.
func acrossGate(a *compare.Across, l labels, before string) []Claim {
	if len(a.Gates) == 0 {
		return nil
	}
	size := func(g compare.GateCheck) float64 {
		if g.Change == nil {
			return 0
		}
		return math.Abs(g.Change.Estimate)
	}
	g := slices.SortedStableFunc(slices.Values(a.Gates), func(x, y compare.GateCheck) int {
		return cmp.Or(outcomeRank[x.Outcome]-outcomeRank[y.Outcome], cmp.Compare(size(y), size(x)))
	})[0]
	c := Claim{Form: gateClaim, Subject: g.Treatment, Baseline: before, Metric: g.Metric, Relation: compare.Verdict(g.Outcome), Amount: g.Change, Unit: g.Unit}
	words := sentenceWords{"gate": g.Gate, "outcome": outcomeVerbs[g.Outcome], "sides": l.withControl(compare.Treatment{ID: g.Treatment, Factors: g.Factors})}
	if g.Outcome == compare.Undecided {
		c.Reason, words["settle"] = g.Why, " "+capital(g.Why)+"."
	}
	if g.Change != nil {
		words["change"] = ChangeWords(compare.Decision{Change: g.Change, Unit: g.Unit, Metric: g.Metric}) + ", "
	}
	return []Claim{c.fill(words)}
}

// SeriesWords are a followed series with its name and unit as reports print them.
type SeriesWords struct {
	compare.Series
	Title string  `json:"title"`
	Unit  string  `json:"unit"`
	Scale float64 `json:"scale"`
}

// HistoryWords are the series that show changes of treatments, those with a change first.
func HistoryWords(h *compare.History) []SeriesWords {
	var changed, quiet []SeriesWords
	for _, s := range h.Series {
		if !s.Followed {
			continue
		}
		q := seriesQuantity(s)
		w := SeriesWords{s, s.Treatment + ", " + q.name, q.unit, q.scale}
		if len(s.Changes) > 0 {
			changed = append(changed, w)
		} else {
			quiet = append(quiet, w)
		}
	}
	return append(changed, quiet...)
}

func writeHistory(h *compare.History, p *page) {
	first, last := h.Runs[0], h.Runs[len(h.Runs)-1]
	p.heading(fmt.Sprintf("%s from %s to %s", printable.Counted(len(h.Runs), "run"), first.Began.UTC().Format(time.DateOnly), last.Began.UTC().Format(time.DateOnly)))
	g := gridOf([]int{0, 1, 2}, "treatment", "metric", "from run", "before", "after", "change", "p")
	l := labelsOf(nil, lists.Map(h.Series, func(s compare.Series) plan.Factors { return s.Factors }))
	quiet, followed := 0, 0
	var dependent []string
	for _, s := range h.Series {
		if !s.Followed {
			continue
		}
		followed++
		if len(s.Changes) == 0 {
			quiet++
		}
		q := seriesQuantity(s)
		if s.Autocorrelation != nil {
			dependent = append(dependent, fmt.Sprintf("%s of %s (%.2f)", q.name, l.withControl(compare.Treatment{ID: s.Treatment, Factors: s.Factors}), *s.Autocorrelation))
		}
		for _, c := range s.Changes {
			share := none
			if c.Before > 0 {
				share = signed(100*(c.After/c.Before-1), 1) + " %"
			}
			value := func(v float64) string { return fixed(v*q.scale, decimals(v*q.scale, 0, false)) + q.unitText() }
			g.row(l.withControl(compare.Treatment{ID: s.Treatment, Factors: s.Factors}), q.name, h.Runs[c.Run].Dir, value(c.Before), value(c.After), share, pValue(c.P))
		}
	}
	if g.empty() {
		p.item("no change")
	} else {
		p.table(g, 2)
	}
	if len(h.Obstacles) > 0 {
		p.heading("Conditions that changed between the runs, a possible cause of a change above")
		for _, d := range h.Obstacles {
			p.item(h.Runs[d.Run].Dir + ": " + d.What + " changed from " + d.Base + " to " + d.New)
		}
	}
	if len(h.Warnings) > 0 {
		p.heading("Warnings about the series")
		for _, w := range h.Warnings {
			p.warning(fmt.Sprintf("%s (%s): %s", w.Code, h.Runs[w.Run].Dir, w.Message), w.Hint)
		}
	}
	if len(dependent) > 0 {
		p.heading("Neighbouring runs depend on one another: their changes are more frequent than the significance level")
		for _, s := range dependent {
			p.item(s)
		}
	}
	p.note(fmt.Sprintf("The run is the unit. %d of %d series show no change. CPU and times of a treatment are relative to its baseline in the same run, so that a faster machine is no change; JSON has the values themselves. "+
		"Each series is tested by itself (E-divisive, 999 permutations) at %g: about %.3g %% of the series of independent runs without a change show one.",
		quiet, followed, h.Alpha, 100*h.Alpha))
}

// seriesQuantity is the metric of a series. A relative one has no unit.
func seriesQuantity(s compare.Series) quantity {
	q := quantityOf(s.Metric)
	switch s.RelativeTo {
	case "":
		return q
	case s.Metric:
		return quantity{name: q.name + " over the baseline's", scale: 1}
	}
	return quantity{name: q.name + " over the baseline's " + quantityOf(s.RelativeTo).name, scale: 1}
}
