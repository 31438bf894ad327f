package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/stats"
)

// shownStep marks an increment that is shown.
const shownStep = "*"

// ladderSection has a row a step and a column a metric.
func ladderSection(t text) {
	adjusted := slices.ContainsFunc(t.view.r.Comparisons, func(c compare.Comparison) bool { return c.Speed != nil })
	for _, l := range t.view.r.Ladders {
		heading := "Ladder: what each step adds to the one before it"
		if words := t.view.label.phrase(l.Factors, t.view.label.factors); words != "" {
			heading += " (" + words + ")"
		}
		t.page.heading(fmt.Sprintf("%s (mean ± half of the %s interval)", heading, t.view.percent()))
		t.page.table(t.view.ladderColumns(l), 1)
		t.page.note(ladderLegend(l, adjusted))
	}
}

func (v view) ladderColumns(l compare.Ladder) []column {
	rows := column{heads: []string{"step"}, left: true, cells: []string{v.stepName(l.Steps[0])}}
	for _, id := range l.Steps[1:] {
		rows.cells = append(rows.cells, "+ "+v.stepName(id))
	}
	rows.cells = append(rows.cells, "all steps together")
	if hasRest(l) {
		rows.cells = append(rows.cells, "sum of the steps", "rest")
	}
	columns := []column{rows}
	for _, m := range l.Metrics {
		columns = append(columns, metricColumn(m.Metric, func(scale float64) []string {
			cells := []string{unknown}
			if e, ok := v.treatment(l.Steps[0]).Metrics[m.Metric]; ok {
				cells[0] = v.estimate(e, scale)
			}
			for _, c := range m.Increments {
				cells = append(cells, increment(c.Judged(), scale)+stepMark(c))
			}
			sum, rest := unknown, unknown
			if m.Whole != nil {
				half, known := m.Whole.HalfWidth()
				digits := decimals(m.Whole.Estimate*scale, half*scale, known)
				sum, rest = signed(m.Sum*scale, digits), signed(*m.Rest*scale, digits)
			}
			if m.RestInterval != nil {
				rest = increment(m.RestInterval, scale)
			}
			cells = append(cells, increment(m.Whole, scale)+" ")
			if hasRest(l) {
				cells = append(cells, sum+" ", rest+" ")
			}
			return cells
		}))
	}
	return columns
}

// hasRest reports whether the steps do not add up to the whole, in any metric.
func hasRest(l compare.Ladder) bool {
	return slices.ContainsFunc(l.Metrics, func(m compare.LadderMetric) bool { return m.Rest != nil && *m.Rest != 0 })
}

// stepMark is empty or as wide, so that figures stand below each other.
func stepMark(c compare.Increment) string {
	if isShown(c.Verdict) {
		return shownStep
	}
	return " "
}

// ladderLegend explains the marks, and a rest that is not zero. adjusted: comparisons are at the machine's mean speed.
func ladderLegend(l compare.Ladder, adjusted bool) string {
	words := fmt.Sprintf("%s: a difference is shown. The intervals of the %d steps hold for all of them at once. The first row has the figures of the baseline themselves.", shownStep, len(l.Steps)-1)
	if adjusted {
		words += " Steps are not adjusted for the machine's speed."
	}
	short := slices.ContainsFunc(l.Metrics, func(m compare.LadderMetric) bool {
		return m.Rest != nil && *m.Rest != 0 || slices.ContainsFunc(m.Increments, func(c compare.Increment) bool { return c.PairsLost > 0 })
	})
	if !short {
		return words + " Every repetition has every step, so that the steps add up to the whole."
	}
	return words + " Each step is compared over the blocks that have it and the step before. The rest is what blocks without a step leave of the whole: noise, if its interval contains zero."
}

// ladderAnswers are what all steps add, a line for each ladder. One ladder has a second line about its steps.
func ladderAnswers(v view) (lines []string) {
	for _, l := range v.r.Ladders {
		lines = append(lines, v.ladderAnswer(l))
	}
	if len(v.r.Ladders) == 1 {
		if s := stepsAnswer(v, v.r.Ladders[0]); s != "" {
			lines = append(lines, s)
		}
	}
	return lines
}

// ladderAnswer is the whole of a ladder in a sentence.
func (v view) ladderAnswer(l compare.Ladder) string {
	i := slices.IndexFunc(l.Metrics, func(m compare.LadderMetric) bool { return m.Metric == answerCost })
	first, last := v.stepName(l.Steps[0]), l.Steps[len(l.Steps)-1]
	subject := map[int]string{2: "The feature " + v.stepName(last), 3: "Both features together"}[len(l.Steps)]
	subject = cmp.Or(subject, fmt.Sprintf("All %s features together", numberWord(len(l.Steps)-1)))
	if words := v.label.phrase(l.Factors, v.label.factors); words != "" { // of several ladders
		subject += " (" + words + ")"
	}
	if i < 0 || l.Metrics[i].Whole == nil {
		return subject + ": too few trials for a figure of CPU."
	}
	m := l.Metrics[i]
	if c, ok := v.compared(last, answerCost); ok && c.Baseline == l.Steps[0] && !isShown(c.Verdict) {
		tr := v.treatment(last)
		c.Difference = m.Whole
		return v.costOf(tr, subject, subject, first, costs{total: c.Judged(v.r.Confidence)}, "", totals{}).Sentence
	}
	verb := "add %s of CPU to a request"
	if m.Whole.Estimate < 0 {
		verb = "save %s of CPU per request"
	}
	if len(l.Steps) == 2 {
		verb = strings.Replace(verb, " ", "s ", 1)
	}
	whole := v.treatment(last)
	whole.Baseline = l.Steps[0]
	return fmt.Sprintf("%s "+verb+"%s.", subject, amountWithin(*m.Whole, quantityOf(answerCost)), totalsOf(v, whole).words("all sidecars ", first, *m.Whole))
}

// stepsAnswer names the largest steps, and those without a shown difference with their intervals: "The most expensive: http
// +322 ±90 µs. Too small to measure here: stats (at most 51 µs). Not settled: access-log (-169 to +224 µs)." A step is
// too small if all of its interval is smaller than every shown step. It is "" without a step.
func stepsAnswer(v view, l compare.Ladder) string {
	i := slices.IndexFunc(l.Metrics, func(m compare.LadderMetric) bool { return m.Metric == answerCost })
	if i < 0 {
		return ""
	}
	m, q := l.Metrics[i], quantityOf(answerCost)
	shown := slices.DeleteFunc(slices.Clone(m.Increments), func(c compare.Increment) bool { return c.Verdict != compare.Higher })
	slices.SortStableFunc(shown, func(a, b compare.Increment) int { return -cmp.Compare(a.Difference.Estimate, b.Difference.Estimate) })
	var largest []string
	for _, c := range shown[:min(len(shown), 3)] {
		largest = append(largest, fmt.Sprintf("%s %s", v.stepName(c.Treatment), increment(c.Judged(), q.scale)+q.unitText()))
	}
	smallest := 0.0
	for _, c := range m.Increments {
		if of := c.Judged(); of != nil && isShown(c.Verdict) && (smallest == 0 || math.Abs(of.Estimate) < smallest) {
			smallest = math.Abs(of.Estimate)
		}
	}
	var small, open, sentences []string
	for _, c := range m.Increments {
		of := c.Judged()
		if of == nil || !of.Known() || isShown(c.Verdict) {
			continue
		}
		most := max(math.Abs(*of.Low), math.Abs(*of.High))
		if most < smallest {
			small = append(small, fmt.Sprintf("%s (at most %s)", v.stepName(c.Treatment), threeDigits(most*q.scale)))
			continue
		}
		d := max(0, 2-magnitude(most*q.scale))
		open = append(open, fmt.Sprintf("%s (%s to %s)", v.stepName(c.Treatment), signed(*of.Low*q.scale, d), signed(*of.High*q.scale, d)+q.unitText()))
	}
	if largest != nil {
		sentences = append(sentences, "The most expensive: "+strings.Join(largest, ", ")+".")
	}
	if small != nil {
		sentences = append(sentences, "Too small to measure here: "+strings.Join(firstOf(small, mostAnswers), ", ")+".")
	}
	if open != nil {
		sentences = append(sentences, "Not settled: "+strings.Join(firstOf(open, mostAnswers), ", ")+".")
	}
	return strings.Join(sentences, " ")
}

// increment writes "+12.3 ±0.4".
func increment(i *stats.Interval, scale float64) string {
	if i == nil {
		return unknown
	}
	s := figure(*i, scale, false)
	if i.Estimate > 0 && s != "0" {
		return "+" + s
	}
	return s
}

// stepName is the name of a step: its level of the factor mesh.
func (v view) stepName(id string) string {
	if level, ok := v.treatment(id).Factors[experiment.MeshFactor]; ok {
		return v.label.level(experiment.MeshFactor, level)
	}
	return id
}

func (v view) treatment(id string) compare.Treatment {
	i := slices.IndexFunc(v.r.Treatments, func(t compare.Treatment) bool { return t.ID == id })
	if i < 0 {
		return compare.Treatment{ID: id}
	}
	return v.r.Treatments[i]
}

// ladderWords are the cells of the steps, of the whole, and of a rest that is not zero: by ladder and metric.
func ladderWords(r *answer.Report) (all [][][]ComparisonWords) {
	for _, l := range r.Ladders {
		var metrics [][]ComparisonWords
		for _, m := range l.Metrics {
			var steps []ComparisonWords
			for _, c := range m.Increments {
				steps = append(steps, comparisonWords(compare.Comparison{Metric: m.Metric, Difference: c.Judged(), N: c.N, Verdict: c.Verdict}))
			}
			steps = append(steps, comparisonWords(compare.Comparison{Metric: m.Metric, Difference: m.Whole, N: m.N}))
			if m.RestInterval != nil {
				steps = append(steps, comparisonWords(compare.Comparison{Metric: m.Metric, Difference: m.RestInterval, N: m.N}))
			}
			metrics = append(metrics, steps)
		}
		all = append(all, metrics)
	}
	return all
}
