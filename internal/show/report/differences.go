package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// differencesSection has a block of lines for every treatment with a baseline.
func differencesSection(t text) {
	if t.view.r.Method == compare.AsPublished {
		return
	}
	if !t.view.compares() {
		t.page.heading("Differences: none. No treatment has a baseline with valid trials.")
		return
	}
	if byLevel := LevelsOf(t.view.r); t.view.short && byLevel != nil {
		t.page.heading(byLevel.Title)
		g := gridOf([]int{0}, byLevel.Heads...)
		for _, row := range byLevel.Rows {
			g.row(row...)
		}
		t.page.table(g, 1)
		return
	}
	t.page.heading(differencesTitle(t.view))
	table, hidden := differencesOf(t.view)
	_, uniform := t.view.pairs()
	t.page.tableAt(differenceColumns(table, t.view.o, uniform), 1, "")
	if hidden > 0 {
		t.page.line("")
		t.page.prose(fmt.Sprintf("%s not shown here: see --all.", printable.Counted(hidden, "more comparison")))
	}
	if !t.view.short {
		adjustedSentences(t)
	}
}

// compares reports whether a treatment is compared with a baseline of its own.
func (v view) compares() bool {
	return slices.ContainsFunc(v.r.Comparisons, func(c compare.Comparison) bool { return !c.Control })
}

// differencesTitle is the title of the table of differences.
func differencesTitle(v view) string {
	if v.imported() {
		return fmt.Sprintf("Differences (unpaired, since the runs were not interleaved; %s intervals)", v.percent())
	}
	each := ""
	if n, uniform := v.pairs(); uniform {
		each = ", " + printable.Counted(n, "pair") + " each"
	}
	paired := "paired within blocks" + each
	if v.short {
		paired = cmp.Or(strings.TrimPrefix(each, ", "), "paired")
	}
	return fmt.Sprintf("Difference to the baseline (%s; %s intervals)", paired, v.percent())
}

// differencesOf are the differences of every treatment with a baseline. hidden is the number of treatments left out.
func differencesOf(v view) (table grid, hidden int) {
	table = gridOf([]int{0, 6}, "", "difference", "interval", "ratio", "interval", "pairs", "verdict")
	shown := v.shownGroups()
	pooledDone := map[string]bool{}
	for _, tr := range v.r.Treatments {
		if tr.Baseline == "" || tr.Control {
			continue
		}
		if q := v.questionOf(tr.ID); q != nil && len(q.Pooled) > 0 && !pooledDone[q.ID] {
			pooledDone[q.ID] = true
			addPooled(table, v, *q)
		}
		if !slices.Contains(shown, tr.ID) {
			hidden++
			continue
		}
		table.row(v.pairWords(tr))
		cs := v.comparisons(tr.ID)
		for _, c := range cs {
			name, w := "  "+quantityOf(c.Metric).name, cellsOf(v, c)
			if flagged(c.Warnings) {
				name += " " + mark
			}
			table.row(name, w.Difference, w.Interval, w.Ratio, w.RatioInterval, fmt.Sprint(c.N), w.Verdict)
		}
		for _, name := range shownMetrics {
			if _, known := v.r.Find(tr.ID, name); !known && v.missed(name) {
				table.row("  "+quantityOf(name).name, unknown, "", none, "", "0", unknownWords(v.r, name))
			}
		}
		if len(cs) == 0 {
			table.row("  nothing to compare")
		}
	}
	return table, hidden
}

// adjustedSentences name the intervals that were adjusted for positions in the block, and those at the machine's mean speed.
func adjustedSentences(t text) {
	var positions, speeds []string
	for _, c := range t.view.r.Comparisons {
		q := quantityOf(c.Metric)
		name := fmt.Sprintf("%s of %s", q.name, t.view.label.describe(c.Factors))
		switch {
		case c.Control || !t.view.shows(c):
			continue
		case c.Position != nil:
			positions = append(positions, name)
		}
		if c.Speed != nil {
			speeds = append(speeds, name+" ("+speedWords(c.Speed, q)+")")
		}
	}
	for _, of := range t.view.r.Questions {
		for _, p := range of.Pooled {
			if q := quantityOf(p.Metric); p.Speed != nil && !nothing(p.Difference) {
				speeds = append(speeds, fmt.Sprintf("%s of %s, mean over %s (%s)", q.name, t.view.questionWords(of), printable.Counted(p.Levels, "level"), speedWords(p.Speed, q)))
			}
		}
	}
	for _, x := range []struct {
		of, means string
		all       []string
	}{
		{"the position in the block", "JSON has the figures without it.", positions},
		{"the machine's speed in each block", "These intervals are about the mean over such deployments at the mean speed of this run. The CPU per request of application and load generator shows the speed. At most 0.15 of a deployment's own deviation may be in it. Ratios are not adjusted.", speeds},
	} {
		if x.all != nil {
			if t.page.markdown {
				t.page.line("")
			}
			t.page.prose(fmt.Sprintf("Adjusted for %s, which narrows the interval: %s. %s", x.of, strings.Join(x.all, "; "), x.means))
		}
	}
}

// speedWords are the unadjusted interval, and the slope if there is one.
func speedWords(s *compare.SpeedAdjusted, q quantity) string {
	words := "unadjusted " + bounds(s.Unadjusted, q.scale, signed) + q.differenceUnit()
	if s.Slope != nil {
		words += fmt.Sprintf(", slope %s %s", fixed(s.Slope.Estimate, 2), bounds(*s.Slope, 1, fixed2))
	}
	return words
}

// longReport is the number of compared treatments above which a report folds.
const longReport = 8

// shownGroups are the treatments whose comparisons are listed. A long report, and a short text, list the
// means over the levels of each question, and of the others the first ones.
func (v view) shownGroups() []string {
	var all, single []string
	for _, tr := range v.r.Treatments {
		if tr.Baseline == "" || tr.Control {
			continue
		}
		all = append(all, tr.ID)
		if q := v.questionOf(tr.ID); q == nil || len(q.Pooled) == 0 {
			single = append(single, tr.ID)
		}
	}
	folds := len(all) > longReport || v.short && len(single) < len(all)
	if !folds || v.o.All || v.r.Method != compare.Paired {
		return all
	}
	return single[:min(len(single), longReport)]
}

// questionOf is the question of a treatment, or nil if there is none.
func (v view) questionOf(treatment string) *compare.Question {
	for i := range v.r.Questions {
		if slices.Contains(v.r.Questions[i].Treatments, treatment) {
			return &v.r.Questions[i]
		}
	}
	return nil
}

// addPooled adds the means over the levels of a question.
func addPooled(g grid, v view, q compare.Question) {
	g.row(fmt.Sprintf("%s, mean over %s", v.questionWords(q), printable.Counted(len(q.Treatments), "level")))
	names := headlines
	if v.short && sweeps(v.r) > 1 {
		names = []string{answerCost} // a line for each
	}
	for _, name := range names {
		i := slices.IndexFunc(q.Pooled, func(p compare.Pooled) bool { return p.Metric == name })
		if i < 0 {
			continue
		}
		p := q.Pooled[i].Judged(v.r.Confidence)
		if nothing(p.Difference) {
			continue
		}
		w := comparisonWords(compare.Comparison{Metric: name, Difference: p.Difference, Ratio: p.Ratio})
		words := string(p.Verdict)
		if p.Verdict == compare.Insufficient {
			words = "too few trials"
		}
		if h := p.Heterogeneity; h != nil && *h < 1-v.r.Confidence {
			words += fmt.Sprintf("; differs between levels (p %s)", pValue(*h))
		}
		g.row("  "+quantityOf(name).name, w.Difference, w.Interval, w.Ratio, w.RatioInterval, fmt.Sprint(p.N), words)
	}
}

// sweeps counts the questions with means over levels.
func sweeps(r *answer.Report) (n int) {
	return lists.Count(r.Questions, func(q compare.Question) bool { return len(q.Pooled) > 0 })
}

// questionWords name a question: "envoy against no mesh".
func (v view) questionWords(q compare.Question) string {
	factors := slices.SortedFunc(maps.Keys(q.Factors), byRank)
	return v.label.phrase(q.Factors, factors) + " against " + v.label.phrase(q.Against, factors)
}

// differenceColumns are the columns that are shown. On a narrow terminal only --all and JSON have the ratio's interval.
func differenceColumns(g grid, o Options, uniform bool) []column {
	columns := slices.Clone(g)
	if uniform {
		columns = slices.Delete(columns, 5, 6)
	}
	if !o.All && fitting(columns[:1], columns[1:], o.Width) < len(columns)-1 {
		columns = slices.Delete(columns, 4, 5)
	}
	return columns
}

// reasonOrVerdict is the verdict of a comparison. Without one it is the reason: "11 of 13 blocks withheld: the generator sent late".
func reasonOrVerdict(r *answer.Report, c compare.Comparison) string {
	if c.Verdict == compare.Insufficient && r.Method == compare.Paired {
		if reason := lostWords(r, c, 1); reason != "" {
			return reason
		}
	}
	return verdictWords(c)
}

// lostWords counts the blocks without a pair of the metric by reason, the n most frequent ones: "2 of 4 blocks failed, 1
// invalid: fewer answers than the rate". It is "" if every block has a pair.
func lostWords(r *answer.Report, c compare.Comparison, n int) string {
	blocks := map[string]int{}
	for block := 1; block <= r.Count.Blocks; block++ {
		for _, treatment := range []string{c.Treatment, c.Baseline} {
			if reason := lossOf(r, treatment, block, c.Metric); reason != "" {
				blocks[reason]++
				break
			}
		}
	}
	reasons := printable.MostFirst(blocks)
	if len(reasons) == 0 {
		return ""
	}
	s := fmt.Sprintf("%d of %s %s", blocks[reasons[0]], printable.Counted(r.Count.Blocks, "block"), reasons[0])
	for _, reason := range reasons[1:min(n, len(reasons))] {
		s += fmt.Sprintf(", %d %s", blocks[reason], reason)
	}
	return s
}

// lossOf is the reason why a treatment has no value of the metric in a block: "withheld: the generator sent late". It is "" if it has.
func lossOf(r *answer.Report, treatment string, block int, name string) string {
	i := slices.IndexFunc(r.Trials, func(t figures.Trial) bool { return t.Treatment == treatment && t.Block == block })
	if i < 0 { // not recorded yet
		return ""
	}
	t := r.Trials[i]
	because := func(what string, is func(figures.Warning) bool) string {
		if i := slices.IndexFunc(t.Warnings, is); i >= 0 {
			what += ": " + figures.Cause(t.Warnings[i].Code)
		}
		return what
	}
	switch _, known := t.Metrics[name]; {
	case t.Error != "":
		return "failed"
	case !t.Valid:
		return because("invalid", func(w figures.Warning) bool { return w.Invalidates })
	case known:
		return ""
	}
	return because("withheld", func(w figures.Warning) bool { return w.Withholds && concernsMetric(w, name) })
}

// unknownWords is the reason why no treatment has the metric: the warnings about it.
func unknownWords(r *answer.Report, name string) string {
	for _, w := range r.Warnings {
		if len(w.Metrics) > 0 && concernsMetric(w, name) {
			return "unknown: " + figures.Cause(w.Code)
		}
	}
	return "unknown, see the warnings"
}

func concernsMetric(w figures.Warning, name string) bool {
	return len(w.Metrics) == 0 || slices.Contains(w.Metrics, name) || slices.Contains(w.Metrics, metric.Base(name))
}

func verdictWords(c compare.Comparison) string {
	if c.Verdict == compare.Insufficient {
		return "too few trials"
	}
	if e := c.Equivalence; e != nil && e.Within {
		margin := rough(100*e.Margin) + " %"
		if c.Verdict == compare.Same {
			return "same to within " + margin
		}
		return string(c.Verdict) + ", by less than " + margin
	}
	byRatio := c.OnRatio && c.Ratio != nil && c.Ratio.Known() // the interval of the difference may contradict the verdict, and is left out
	if c.N >= stats.MinN && c.Difference != nil && !c.Difference.Known() && !byRatio {
		return string(c.Verdict) + ", the same each time"
	}
	if c.BlocksNeeded > 0 {
		return fmt.Sprintf("%s (too few blocks: about %d needed)", c.Verdict, c.BlocksNeeded)
	}
	return string(c.Verdict)
}
