package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// crossingAnswers are two sentences where the cheaper of two treatments depends on the level: both at two levels, and the totals
// of the baseline. Both orders are shown: the intervals are apart. Otherwise there are none.
func crossingAnswers(v view) []string {
	t := levelTableOf(v)
	for i := range t.levels {
		for j := len(t.levels) - 1; j > i; j-- {
			a, b := t.least(i), t.least(j)
			if a == nil || b == nil || !below(a.costs[i], b.costs[i]) || !below(b.costs[j], a.costs[j]) {
				continue
			}
			cost := func(r *levelRow, at int) string {
				amount, _ := amountWithin(*r.costs[at].Difference, quantityOf(answerCost))
				return amount
			}
			first, last := levelIn(t.factor, t.levels[i], true), levelIn(t.factor, t.levels[j], false)
			base := func(at int) string { return threeDigits(totalsOf(v, v.treatment(a.costs[at].Treatment)).baseline) }
			return []string{
				fmt.Sprintf("At %s %s adds %s of CPU to a request, and %s %s. At %s it is the reverse: %s and %s.",
					first, a.name, cost(a, i), b.name, cost(b, i), last, cost(a, j), cost(b, j)),
				fmt.Sprintf("%s a request needs %s of CPU at %s and %s at %s.", capital(with(t.base)), base(i), first, base(j), last),
			}
		}
	}
	return nil
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

// least is the row with the smallest difference at a level, or nil unless all are higher than the baseline.
func (t levelTable) least(at int) (least *levelRow) {
	for i := range t.rows {
		c := t.rows[i].costs[at]
		if c.Difference == nil || c.Verdict != compare.Higher {
			return nil
		}
		if least == nil || c.Difference.Estimate < least.costs[at].Difference.Estimate {
			least = &t.rows[i]
		}
	}
	return least
}

// levelTableOf is empty for reports without two such questions.
func levelTableOf(v view) (all levelTable) {
	if sweeps(v.r) < 2 || sweeps(v.r) < len(v.r.Questions) || v.r.RatiosOnly {
		return levelTable{}
	}
	for i, q := range v.r.Questions {
		f, one := varying(v, q)
		name, base, _ := strings.Cut(v.questionWords(q), " against ")
		row := levelRow{name: name}
		var levels []any
		for _, id := range q.Treatments {
			c, _ := v.compared(id, answerCost)
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

// levelColumns are a row for each question and a column for each level. It is nil for other reports.
func levelColumns(v view) (all []column) {
	t := levelTableOf(v)
	if t.rows == nil {
		return nil
	}
	all = []column{{heads: []string{t.factor}, left: true}}
	for _, r := range t.rows {
		all[0].cells = append(all[0].cells, r.name)
	}
	for i, level := range t.levels {
		c := column{heads: []string{spacedLevel(t.factor, level)}}
		for _, r := range t.rows {
			c.cells = append(c.cells, strings.TrimSuffix(increment(r.costs[i].Difference, quantityOf(answerCost).scale), " ±"+unknown))
		}
		all = append(all, c)
	}
	return all
}

// LevelTable is a table of texts with its title. The first column names the rows.
type LevelTable struct {
	Title string
	Heads []string
	Rows  [][]string
}

// LevelsOf are the differences in CPU by treatment and level, or nil for reports without levels.
func LevelsOf(r *answer.Report) *LevelTable {
	v := view{r: r, label: newLabels(r)}
	columns := levelColumns(v)
	if columns == nil {
		return nil
	}
	t := &LevelTable{Title: levelsTitle(v, columns), Heads: []string{""}}
	for _, c := range columns[1:] {
		t.Heads = append(t.Heads, c.heads[0])
	}
	for i := range columns[0].cells {
		row := []string{}
		for _, c := range columns {
			row = append(row, c.cells[i])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// levelsTitle is the title of the table, and its first head.
func levelsTitle(v view, columns []column) string {
	return fmt.Sprintf("CPU added to a request, in µs, by %s (mean ± half of the %s interval)", factorWords(columns[0].heads[0]), v.percent())
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

// sweepAnswer is the CPU time per request of a question over several levels: the mean of levels that are alike, otherwise at two of them.
func (v view) sweepAnswer(q compare.Question) ranked {
	name, base, _ := strings.Cut(v.questionWords(q), " against ")
	subject := sidecarsOf(v, v.treatment(q.Treatments[0]), name)
	levels := "level"
	if f, ok := varying(v, q); ok && (f == experiment.RateFactor || strings.HasSuffix(f, "Size")) {
		levels = factorWords(f)
	}
	over := "over " + printable.Counted(len(q.Treatments), levels)
	i := slices.IndexFunc(q.Pooled, func(p compare.Pooled) bool { return p.Metric == answerCost })
	if i < 0 {
		return ranked{rank: 2, base: base, short: name + " without a mean", line: fmt.Sprintf("%s: no mean %s, since no block has all levels.", subject, over)}
	}
	p := q.Pooled[i]
	x := rankedCost(v, name, base, p.Verdict, p.Difference, p.Ratio)
	x.over = ", on average " + over
	n := float64(len(q.Treatments))
	for _, id := range q.Treatments {
		of := totalsOf(v, v.treatment(id))
		x.totals.baseline, x.totals.treatment = x.totals.baseline+of.baseline/n, x.totals.treatment+of.treatment/n
	}
	x.line = v.costSentence(subject, base, p.Verdict, p.Difference, p.Ratio, x.over, x.totals)
	if two := endsOf(v, q); isShown(p.Verdict) && !v.r.RatiosOnly && two != nil {
		verb, request := verbOf(subject, p.Verdict)
		x.apart, x.short = true, fmt.Sprintf("%s %s %s at %s to %s at %s", name, strings.TrimSuffix(verb, "s")+"s", two[0].amount, two[0].level, two[1].amount, two[1].level)
		x.line = fmt.Sprintf("%s %s %s of CPU %s at %s%s and %s at %s%s.", subject, verb, two[0].amount, request, two[0].level, two[0].remark, two[1].amount, two[1].level, two[1].remark)
	}
	return x
}

// mostApart is the largest ratio between differences at levels for which their mean is printed.
const mostApart = 1.5

// levelCost is the size of the difference at a level, with its unit.
type levelCost struct{ amount, level, remark string }

// endsOf are two levels of a question whose differences are not alike: the first and the last if the differences rise or fall
// from level to level, otherwise the most and the least. It is nil where one mean has a meaning.
func endsOf(v view, q compare.Question) []levelCost {
	factor, one := varying(v, q)
	var costs []compare.Comparison
	for _, id := range q.Treatments {
		c, ok := v.compared(id, answerCost)
		if !ok || c.Difference == nil || len(costs) > 0 && c.Difference.Estimate*costs[0].Difference.Estimate <= 0 {
			return nil
		}
		costs = append(costs, c)
	}
	bySize := func(a, b compare.Comparison) int {
		return cmp.Compare(math.Abs(a.Difference.Estimate), math.Abs(b.Difference.Estimate))
	}
	most, least := slices.MaxFunc(costs, bySize), slices.MinFunc(costs, bySize)
	if !one || math.Abs(most.Difference.Estimate) <= mostApart*math.Abs(least.Difference.Estimate) {
		return nil
	}
	at := func(c compare.Comparison, first bool, remark string) levelCost {
		size := *c.Difference
		amount, interval := amountWithin(size, quantityOf(answerCost))
		if half, known := size.HalfWidth(); !known || half >= math.Abs(size.Estimate) { // a figure by itself would look certain
			amount += interval
		}
		return levelCost{amount, levelIn(factor, c.Factors[factor], first), remark}
	}
	first, last := costs[0], costs[len(costs)-1]
	trend := ""
	switch a, b := *first.Difference, *last.Difference; {
	case !numbers(factor, costs) || !a.Known() || !b.Known() || !(*a.High < *b.Low || *b.High < *a.Low):
	case slices.IsSortedFunc(costs, bySize):
		trend = ": more per request at " + higherLevels(factor)
	case slices.IsSortedFunc(costs, func(a, b compare.Comparison) int { return bySize(b, a) }):
		trend = ": less per request at " + higherLevels(factor)
	}
	if trend != "" {
		return []levelCost{at(first, true, ""), at(last, false, trend)}
	}
	return []levelCost{at(most, true, " (the most)"), at(least, false, " (the least)")}
}

// numbers reports whether the levels of a factor are numbers in ascending order.
func numbers(factor string, costs []compare.Comparison) bool {
	last := math.Inf(-1)
	for _, c := range costs {
		level, ok := c.Factors[factor].(float64)
		if !ok || level < last {
			return false
		}
		last = level
	}
	return true
}

// higherLevels is a direction in words: "higher rates".
func higherLevels(factor string) string {
	switch {
	case strings.HasSuffix(factor, "Size"):
		return "larger " + factorWords(factor) + "s"
	case strings.HasSuffix(factor, "s"): // connections
		return "more " + factorWords(factor)
	}
	return "higher " + factorWords(factor) + "s"
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
