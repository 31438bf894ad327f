package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
)

// crossingClaims are one claim where the cheapest of several treatments depends on the level: at each level those that no other is
// shown to be cheaper than.
func crossingClaims(v view) []Claim {
	t := levelTableOf(v)
	var least []string
	c := Claim{Form: levelClaim, Metric: answerCost}
	everywhere := lists.Map(t.rows, func(r levelRow) string { return r.name })
	for at, level := range t.levels {
		for _, r := range t.rows {
			of := r.costs[at]
			if of.Difference == nil || of.Verdict != compare.Higher {
				return nil
			}
			c.Of = append(c.Of, partOf(of, r.name+" "+amountWithin(*of.Difference, quantityOf(answerCost))))
		}
		names, from, to := t.cheapest(at)
		words := fmt.Sprintf("%s (%s)", strings.Join(names, " or "), betweenWords(from, to))
		if len(names) == len(t.rows) {
			words = "no clear winner"
		}
		least = append(least, fmt.Sprintf("at %s %s", levelIn(t.factor, level, false), words))
		everywhere = slices.DeleteFunc(everywhere, func(name string) bool { return !slices.Contains(names, name) })
	}
	if least == nil || len(everywhere) > 0 {
		return nil
	}
	return []Claim{c.fill(sentenceWords{"least": strings.Join(least, "; ")})}
}

// betweenWords are two CPU times in a sentence: "253 to 304 µs".
func betweenWords(from, to float64) string {
	unit := quantityOf(answerCost).unitText()
	if first, last := strings.TrimSuffix(threeDigits(from), unit), threeDigits(to); first+unit != last {
		return first + " to " + last
	}
	return threeDigits(to)
}

// below reports whether a difference is shown to be smaller than another: the intervals are apart.
func below(a, b compare.Comparison) bool {
	return a.Difference.Known() && b.Difference.Known() && *a.Difference.High < *b.Difference.Low
}

// levelTable has the differences in CPU of several questions with one baseline, over the levels of one factor.
type levelTable struct {
	factor, base string
	levels       []any
	rows         []levelRow
}

// levelRow is a question, with a comparison for each level.
type levelRow struct {
	name  string
	costs []compare.Comparison
}

// cheapest are the rows that no other row is shown to be below at a level, and their smallest and largest difference in µs.
func (t levelTable) cheapest(at int) (names []string, from, to float64) {
	scale := quantityOf(answerCost).scale
	for _, r := range t.rows {
		if slices.ContainsFunc(t.rows, func(other levelRow) bool { return below(other.costs[at], r.costs[at]) }) {
			continue
		}
		us := r.costs[at].Difference.Estimate * scale
		if names = append(names, r.name); len(names) == 1 {
			from, to = us, us
		}
		from, to = min(from, us), max(to, us)
	}
	return names, from, to
}

// levelTableOf is empty for reports without two such questions.
func levelTableOf(v view) (all levelTable) {
	if sweeps(v.r) < 2 || sweeps(v.r) < len(v.r.Questions) {
		return levelTable{}
	}
	for i, q := range v.r.Questions {
		f, one := varying(v, q)
		name, base, _ := strings.Cut(v.questionWords(q), " against ")
		row := levelRow{name: name}
		var levels []any
		for _, id := range q.Treatments {
			c, _ := v.r.Find(id, answerCost)
			levels, row.costs = append(levels, v.treatment(id).Factors[f]), append(row.costs, c)
		}
		if i == 0 {
			all = levelTable{factor: f, base: base, levels: levels}
		}
		if !one || f != all.factor || base != all.base || !slices.Equal(levels, all.levels) {
			return levelTable{}
		}
		all.rows = append(all.rows, row)
	}
	return all
}

// TextTable is a table of texts with its title. The first column names the rows. A row of one cell is the title of those below it.
type TextTable struct {
	Title string
	Heads []string
	Rows  [][]string
	Notes []string // below the table
}

// LevelsOf are the differences in CPU: a row for each question and a column for each level. It is nil for reports without levels.
func LevelsOf(r *answer.Report) *TextTable {
	v := newView(r)
	t := levelTableOf(v)
	if t.rows == nil {
		return nil
	}
	all := &TextTable{Title: fmt.Sprintf("CPU added to a request, in µs, by %s (mean ± half of the %s interval)", factorWords(t.factor), v.percent()), Heads: []string{""}}
	for _, level := range t.levels {
		all.Heads = append(all.Heads, spacedLevel(t.factor, level)+map[bool]string{true: "/s"}[t.factor == experiment.RateFactor])
	}
	for _, r := range t.rows {
		row := []string{r.name}
		for _, c := range r.costs {
			row = append(row, strings.TrimSuffix(increment(c.Difference, quantityOf(answerCost).scale), " ±"+unknown))
		}
		all.Rows = append(all.Rows, row)
	}
	return all
}

// ImportedOf are the differences of an import as the text has them, or nil for other reports and without differences.
func ImportedOf(r *answer.Report) *TextTable {
	v := newView(r)
	if !v.imported() || !v.compares() {
		return nil
	}
	g, _ := differencesOf(v)
	_, uniform := v.pairs()
	columns := differenceColumns(g, Options{All: true}, uniform)
	all := &TextTable{Title: differencesTitle(v)}
	for _, c := range columns {
		all.Heads = append(all.Heads, c.heads[0])
	}
	for i := range columns[0].cells {
		row := lists.Map(columns, func(c column) string { return c.cells[i] })
		all.Rows = append(all.Rows, row)
	}
	return all
}

// levelIn is a level in a sentence: "request size 16 B", "100 requests/s". Only the first one has the factor.
func levelIn(factor string, level any, first bool) string {
	words := spacedLevel(factor, level)
	switch {
	case !first:
		return words
	case factor == experiment.RateFactor:
		return words + " requests/s"
	}
	return factorWords(factor) + " " + words
}

// sweepRow is the CPU time per request of a question over several levels: the mean of levels that are alike, otherwise at two of them.
func (v view) sweepRow(q compare.Question) row {
	name, base, _ := strings.Cut(v.questionWords(q), " against ")
	first := v.treatment(q.Treatments[0])
	subject := sidecarsOf(v, first, name)
	levels := "level"
	if f, ok := varying(v, q); ok && (f == experiment.RateFactor || strings.HasSuffix(f, "Size")) {
		levels = factorWords(f)
	}
	over := "over " + printable.Counted(len(q.Treatments), levels)
	mean := func(name string) (c compare.Comparison) {
		if i := slices.IndexFunc(q.Pooled, func(p compare.Pooled) bool { return p.Metric == name }); i >= 0 {
			p := q.Pooled[i].Judged(v.r.Confidence)
			c = compare.Comparison{Metric: name, Difference: p.Difference, Ratio: p.Ratio, N: p.N, Verdict: p.Verdict}
		}
		return c
	}
	c := costs{mean(answerCost), mean(dataCost), mean(metric.Of(metric.CPUPerRequest, string(metric.App)))}
	if c.total.Metric == "" {
		x := row{Claim: Claim{Form: noVerdict, Subject: first.ID, Baseline: first.Baseline, Metric: answerCost, Relation: compare.Insufficient, Reason: fmt.Sprintf("no mean %s, since no block has all levels", over)}, name: name, base: base, short: "without a mean"}
		x.Claim = x.fill(sentenceWords{"subject": subject, "reason": x.Reason})
		return x
	}
	var of totals
	n := float64(len(q.Treatments))
	for _, id := range q.Treatments {
		one := totalsOf(v, v.treatment(id))
		of.baseline, of.treatment = of.baseline+one.baseline/n, of.treatment+one.treatment/n
	}
	x := v.costOf(first, subject, name, base, c, ", on average "+over, of)
	x.Subject, x.Baseline = q.ID, ""
	if first, last, apart := apartAt(v, q); apart && isShown(c.total.Verdict) {
		x.apart, x.short = true, first+" and "+last
		x.Claim = Claim{Form: levelsApart, Subject: q.ID, Metric: answerCost, Relation: c.total.Verdict, Amount: c.total.Difference}.fill(inWords(subject, c.total.Verdict, sentenceWords{"first": first, "last": last}))
	}
	return x
}

// mostApart is the largest ratio between differences at levels for which their mean is printed.
const mostApart = 1.5

// apartAt are the differences at the first and the last level, where these are shown to differ so much that their mean has no
// meaning: "795 ±169 µs at 100 requests/s", "298 ±68 µs at 1200". No level is called the highest: noise would choose it.
func apartAt(v view, q compare.Question) (first, last string, apart bool) {
	factor, one := varying(v, q)
	a, _ := v.r.Find(q.Treatments[0], answerCost)
	b, _ := v.r.Find(q.Treatments[len(q.Treatments)-1], answerCost)
	if !one || a.Difference == nil || b.Difference == nil || !below(a, b) && !below(b, a) {
		return "", "", false
	}
	ratio := a.Difference.Estimate / b.Difference.Estimate
	at := func(c compare.Comparison, first bool) string {
		return amountWithin(*c.Difference, quantityOf(answerCost)) + " at " + levelIn(factor, c.Factors[factor], first)
	}
	return at(a, true), at(b, false), ratio > mostApart || 0 < ratio && ratio < 1/mostApart
}

// differingLevels are the levels that differ between the treatments of a question.
func differingLevels(v view, q compare.Question, of plan.Factors) plan.Factors {
	levels := maps.Clone(of)
	maps.DeleteFunc(levels, func(f string, _ any) bool {
		_, fixed := q.Factors[f]
		return fixed || !slices.Contains(v.label.factors, f)
	})
	return levels
}

// varying is the factor that differs between the treatments of a question. It is not ok if several do.
func varying(v view, q compare.Question) (factor string, ok bool) {
	for _, id := range q.Treatments {
		for f := range differingLevels(v, q, v.treatment(id).Factors) {
			if factor != "" && factor != f {
				return "", false
			}
			factor = f
		}
	}
	return factor, factor != ""
}
