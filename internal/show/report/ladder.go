package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
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

// ladderClaims are what all steps add, a claim for each ladder. One ladder has a second one about its steps.
func ladderClaims(v view) (all []Claim) {
	all = lists.Map(v.r.Ladders, v.ladderClaim)
	if len(v.r.Ladders) == 1 {
		all = append(all, stepClaims(v, v.r.Ladders[0])...)
	}
	return all
}

// costOfLadder is the CPU of a request, step by step.
func costOfLadder(l compare.Ladder) (m compare.LadderMetric) {
	if i := slices.IndexFunc(l.Metrics, func(m compare.LadderMetric) bool { return m.Metric == answerCost }); i >= 0 {
		m = l.Metrics[i]
	}
	return m
}

// ladderClaim is the whole of a ladder. Its verdict is that of the last step against the first, and otherwise its interval's.
func (v view) ladderClaim(l compare.Ladder) Claim {
	first, last := l.Steps[0], l.Steps[len(l.Steps)-1]
	subject := fmt.Sprintf("All %s features together", numberWord(len(l.Steps)-1))
	if len(l.Steps) <= 3 {
		subject = map[int]string{2: "The feature " + v.stepName(last), 3: "Both features together"}[len(l.Steps)]
	}
	if words := v.label.phrase(l.Factors, v.label.factors); words != "" { // of several ladders
		subject += " (" + words + ")"
	}
	whole, ok := v.r.Find(last, answerCost)
	whole.Difference = costOfLadder(l).Whole
	switch {
	case ok && whole.Baseline == first && isShown(whole.Verdict):
	case ok && whole.Baseline == first:
		whole = whole.Judged(v.r.Confidence)
	case whole.Difference == nil || costOfLadder(l).N < stats.MinN:
		whole.Verdict, whole.N = compare.Insufficient, costOfLadder(l).N
	case whole.Difference.Known() && !whole.Difference.Excludes(0):
		whole.Verdict = compare.NotShown
	default:
		whole.Verdict = map[bool]compare.Verdict{true: compare.Lower, false: compare.Higher}[whole.Difference.Estimate < 0]
	}
	tr := v.treatment(last)
	tr.Baseline = first
	return v.costOf(tr, subject, subject, v.stepName(first), costs{total: whole}, "", totalsOf(v, tr)).Claim
}

// stepClaims are the largest steps, and those without a shown difference with their intervals, in one claim: "The most expensive:
// http +322 ±90 µs. Too small to measure here: stats (at most 51 µs). Not settled: access-log (-169 to +224 µs)." A step is too
// small if all of its interval is smaller than every shown step. There is none without a step.
func stepClaims(v view, l compare.Ladder) []Claim {
	q := quantityOf(answerCost)
	steps := slices.DeleteFunc(slices.Clone(costOfLadder(l).Increments), func(c compare.Increment) bool { return c.Judged() == nil })
	size := func(c compare.Increment) float64 { return c.Judged().Estimate }
	slices.SortStableFunc(steps, func(a, b compare.Increment) int { return cmp.Compare(size(b), size(a)) })
	smallest := 0.0
	for _, c := range steps {
		if of := math.Abs(size(c)); isShown(c.Verdict) && (smallest == 0 || of < smallest) {
			smallest = of
		}
	}
	all := []Claim{{Form: stepsLarge}, {Form: stepsSmall}, {Form: stepsOpen}}
	for _, c := range steps {
		of, name := *c.Judged(), v.stepName(c.Treatment)
		at, words := 0, name+" "+increment(&of, q.scale)+q.unitText()
		switch {
		case c.Verdict == compare.Higher && len(all[0].Of) < 3:
		case isShown(c.Verdict) || !of.Known():
			continue
		case max(-*of.Low, *of.High) < smallest:
			at, words = 1, fmt.Sprintf("%s (at most %s)", name, threeDigits(max(-*of.Low, *of.High)*q.scale))
		default:
			d := max(0, 2-magnitude(max(-*of.Low, *of.High)*q.scale))
			at, words = 2, fmt.Sprintf("%s (%s to %s%s)", name, signed(*of.Low*q.scale, d), signed(*of.High*q.scale, d), q.unitText())
		}
		all[at].Of = append(all[at].Of, Claim{Subject: c.Treatment, Baseline: c.Before, Metric: answerCost, Relation: c.Verdict, Amount: &of, Sentence: words})
	}
	all = slices.DeleteFunc(all, func(c Claim) bool { return c.Of == nil })
	for i, c := range all {
		all[i] = c.fill(sentenceWords{})
	}
	return together(stepsClaim, all...)
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
			steps := lists.Map(m.Increments, func(c compare.Increment) ComparisonWords {
				return comparisonWords(compare.Comparison{Metric: m.Metric, Difference: c.Judged(), N: c.N, Verdict: c.Verdict})
			})
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
