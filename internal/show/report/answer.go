package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
)

// The metrics of the answer.
var (
	answerCost   = metric.Of(metric.CPUPerRequest, "total")
	answerMedian = metric.Of(metric.Latency, "p50")
	answerMemory = metric.Of(metric.Memory, string(metric.Data))
)

// mostAnswers is the largest number of treatments with a sentence of their own.
const mostAnswers = 6

// Answer is the result in a few sentences, one line each: what each treatment
// adds to its baseline, and how much noise the run had. It is empty where
// nothing was compared.
func Answer(r *analysis.Report) []string {
	if r.Method == analysis.AsPublished {
		return nil
	}
	if lines := answer(r); len(lines) > 0 {
		return append(otherAnswers(r), lines...)
	}
	return nil
}

// otherAnswers warn, before any figure, of treatments whose clients got other answers.
func otherAnswers(r *analysis.Report) (lines []string) {
	for _, w := range r.Warnings {
		if w.Code == analysis.AnswersDiffer && len(lines) < mostAnswers {
			lines = append(lines, "Warning: "+w.Message+". The figures compare different work.")
		}
	}
	return lines
}

func answer(r *analysis.Report) []string {
	v := view{r: r, label: newLabels(r)}
	if len(r.Ladders) > 0 {
		var lines []string
		for _, l := range r.Ladders[:min(len(r.Ladders), mostAnswers)] {
			lines = append(lines, v.ladderAnswer(l))
		}
		return append(lines, v.trustAnswer())
	}
	var compared []analysis.Treatment
	for _, tr := range r.Treatments {
		if _, ok := v.compared(tr.ID, answerCost); ok && !tr.Control && !tr.Reference {
			compared = append(compared, tr)
		}
	}
	lines := slices.Concat(failureAnswers(v), v.capacityAnswers(), boundaryAnswers(v))
	first := len(lines) > 0
	more, shown, pooled := 0, 0, map[string]bool{}
	for _, tr := range compared {
		q := v.questionOf(tr.ID)
		sweep := q != nil && len(q.Pooled) > 0
		switch {
		case sweep && pooled[q.ID]:
		case first && !sweep && !differs(v, tr.ID):
		case shown == mostAnswers:
			more++
		case sweep: // the mean over the levels answers the question
			lines, shown = append(lines, v.sweepAnswer(*q)), shown+1
		default:
			lines, shown = append(lines, v.costAnswer(tr)), shown+1
		}
		if sweep {
			pooled[q.ID] = true
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("%d more are below.", more))
	}
	if len(compared) == 1 && !r.RatiosOnly {
		if s := v.effectAnswer(compared[0]); s != "" {
			lines = append(lines, s)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return append(lines, v.trustAnswer())
}

// differs reports whether a difference in the treatment's CPU time per request is shown.
func differs(v view, treatment string) bool {
	c, ok := v.compared(treatment, answerCost)
	return ok && (c.Verdict == analysis.Higher || c.Verdict == analysis.Lower)
}

// failureAnswers are the share of failed requests and the expectations that did not hold, of treatments with faults or
// expectations.
func failureAnswers(v view) (lines []string) {
	more := 0
	for _, tr := range rows(v) {
		if tr.Control {
			continue
		}
		_, faults := tr.Metrics[metric.Recovery]
		failed, known := tr.Metrics[metric.ErrorRatio]
		expected, held, missed := 0, 0, []string(nil)
		for _, e := range v.r.Expectations {
			switch {
			case e.Treatment != tr.ID || e.N == 0:
				continue
			case e.Held == e.N:
				held++
			default:
				missed = append(missed, fmt.Sprintf("%s (%d of %s)", e.Expect, e.N-e.Held, printable.Counted(e.N, "trial")))
			}
			expected++
		}
		if !faults && expected == 0 || !known && expected == 0 {
			continue
		}
		if len(lines) == mostAnswers {
			more++
			continue
		}
		var parts []string
		if known && failed.N > 0 {
			share := "no request failed"
			if failed.Estimate > 0 {
				share = rough(failed.Estimate*100) + " % of requests failed"
			}
			parts = append(parts, share)
		}
		switch {
		case len(missed) > 0:
			parts = append(parts, "did not hold: "+strings.Join(missed, ", "))
		case expected > 0:
			parts = append(parts, "every expectation held")
		}
		lines = append(lines, v.subject(tr)+": "+strings.Join(parts, "; ")+".")
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("%d more are below.", more))
	}
	return lines
}

// answerSection is the answer, before everything else.
func answerSection(t text) {
	lines := Answer(t.view.r)
	for _, s := range lines {
		t.page.prose(s)
	}
	if len(lines) > 0 && !t.page.markdown {
		t.page.line("")
	}
}

// capacityAnswers compare the highest rates with an objective.
func (v view) capacityAnswers() (lines []string) {
	for _, tr := range v.r.Treatments {
		c, ok := v.compared(tr.ID, metric.Capacity)
		if !ok || tr.Control || tr.Reference || len(lines) == mostAnswers {
			continue
		}
		s := fmt.Sprintf("%s holds %s req/s", v.subject(tr), roundRate(v.value(tr.ID, metric.Capacity)))
		if objective := experiment.ObjectiveOf(tr.Factors[experiment.RateFactor]); objective != "" {
			s += " with " + objective
		}
		s += fmt.Sprintf(", %s %s", with(v.label.against(tr, v.r)), roundRate(v.value(tr.Baseline, metric.Capacity)))
		switch {
		case c.Ratio == nil || c.Verdict == analysis.Insufficient:
			s += ": too few trials for a verdict"
		default:
			s += ": " + strings.TrimSuffix(ratio(*c.Ratio)+" "+ratioBounds(*c.Ratio), " ")
			if c.Verdict != analysis.Higher && c.Verdict != analysis.Lower {
				s += ", no difference shown" + adjusted(*c.Ratio, 1)
			}
		}
		lines = append(lines, s+".")
	}
	return lines
}

// roundRate is a rate with three or four digits.
func roundRate(rate float64) string {
	if rate >= 1000 {
		return fixed(math.Round(rate/10)*10, 0)
	}
	return fixed(rate, max(0, 2-magnitude(rate)))
}

// compared finds the comparison of a treatment by one metric.
func (v view) compared(treatment, name string) (analysis.Comparison, bool) {
	for _, c := range v.r.Comparisons {
		if c.Treatment == treatment && c.Metric == name {
			return c, true
		}
	}
	return analysis.Comparison{}, false
}

// sweepAnswer is the CPU time per request of a question over several levels, on average.
func (v view) sweepAnswer(q analysis.Question) string {
	subject, base, _ := strings.Cut(v.questionWords(q), " against ")
	subject += " (mean over " + printable.Counted(len(q.Treatments), "level") + ")"
	i := slices.IndexFunc(q.Pooled, func(p analysis.Pooled) bool { return p.Metric == answerCost })
	if i < 0 {
		return fmt.Sprintf("%s: no block has all levels: see the levels below.", subject)
	}
	p := q.Pooled[i]
	s := v.costSentence(subject, base, p.Verdict, p.Difference, p.Ratio) + v.levelsAnswer(q)
	if h := p.Heterogeneity; h != nil && *h < 1-v.r.Confidence {
		s += fmt.Sprintf(" It differs between the levels (p %s).", pValue(*h))
	}
	return s
}

// mostLevels is the largest number of levels with a figure each in a sentence.
const mostLevels = 5

// levelsAnswer has the CPU time per request of each level of a sweep: " By rate: +195 µs at 100, +194 µs at 1000." Of many
// levels it has the first, the middle and the last.
func (v view) levelsAnswer(q analysis.Question) string {
	var names, figures []string
	for _, id := range q.Treatments {
		c, ok := v.compared(id, answerCost)
		if !ok {
			continue
		}
		levels := maps.Clone(c.Factors)
		maps.DeleteFunc(levels, func(f string, _ any) bool {
			_, fixed := q.Factors[f]
			return fixed || !slices.Contains(v.label.factors, f)
		})
		name := v.label.phrase(levels, v.label.factors)
		of := c.Ratio
		figure := unknown
		switch {
		case v.r.RatiosOnly && of != nil:
			figure = ratio(*of)
		case !v.r.RatiosOnly && c.Difference != nil:
			u := quantityOf(answerCost)
			figure = difference(*c.Difference, u.scale) + u.differenceUnit()
		}
		names, figures = append(names, name), append(figures, figure)
	}
	if n := len(names); n > mostLevels {
		names, figures = []string{names[0], names[n/2], names[n-1]}, []string{figures[0], figures[n/2], figures[n-1]}
	}
	for i := range names {
		figures[i] += " at " + names[i]
	}
	if len(figures) < 2 {
		return ""
	}
	return " By level: " + strings.Join(figures, ", ") + "."
}

// costAnswer is a treatment's CPU time per request against its baseline.
func (v view) costAnswer(tr analysis.Treatment) string {
	c, _ := v.compared(tr.ID, answerCost)
	return v.costSentence(v.subject(tr), v.label.against(tr, v.r), c.Verdict, c.Difference, c.Ratio)
}

func (v view) costSentence(subject, base string, verdict analysis.Verdict, difference, ratio *stats.Interval) string {
	if v.r.RatiosOnly {
		return v.ratioSentence(subject, base, verdict, ratio)
	}
	if difference == nil || verdict == analysis.Insufficient {
		return fmt.Sprintf("%s: too few trials for a verdict on CPU.", subject)
	}
	q := quantityOf(answerCost)
	switch verdict {
	case analysis.Higher, analysis.Lower:
		verb, request := "adds", "to a request"
		if verdict == analysis.Lower {
			verb, request = "saves", "per request"
		}
		amount, interval := amountWithin(*difference, q)
		s := fmt.Sprintf("%s %s %s of CPU %s%s", subject, verb, amount, request, interval)
		if ratio != nil {
			s += fmt.Sprintf(": %s times as much as %s", rough(ratio.Estimate), with(base))
		}
		return s + "."
	}
	s := fmt.Sprintf("%s: no difference in CPU per request is shown, compared with a run %s", subject, with(base)) + adjusted(*difference, 0)
	if between := bounds(*difference, q.scale, signed); between != "" {
		s += " " + between + q.unitText()
	}
	return s + "."
}

// adjusted is the reason why no difference is shown by an interval without the value of no difference.
func adjusted(of stats.Interval, none float64) string {
	if of.Known() && (*of.Low > none || *of.High < none) {
		return " after adjustment for the number of comparisons"
	}
	return ""
}

// ratioSentence compares the CPU of a request with the baseline's CPU, where only ratios have a meaning.
func (v view) ratioSentence(subject, base string, verdict analysis.Verdict, of *stats.Interval) string {
	switch {
	case of == nil || verdict == analysis.Insufficient:
		return fmt.Sprintf("%s: too few trials for a verdict on CPU.", subject)
	case verdict == analysis.Higher || verdict == analysis.Lower:
		return fmt.Sprintf("%s needs %s as much CPU per request as %s %s, both loaded at once.", subject, ratio(*of), with(base), ratioBounds(*of))
	}
	return fmt.Sprintf("%s: no difference in CPU per request is shown, compared with a run %s%s, both loaded at once: ratio %s %s.", subject, with(base), adjusted(*of, 1), ratio(*of), ratioBounds(*of))
}

// noMesh is the level of the factor mesh without a mesh.
const noMesh = "none"

// with is a baseline in a sentence: "without a mesh", "with istio, rate 100".
func with(base string) string {
	if rest, ok := strings.CutPrefix(base, noMesh); ok && (rest == "" || rest[0] == ',') {
		return "without a mesh" + rest
	}
	return "with " + base
}

// subject names a treatment in a sentence: "envoy (rate 100)".
func (v view) subject(tr analysis.Treatment) string {
	name, rest, ok := strings.Cut(v.label.describe(tr.Factors), ", ")
	if name == noMesh {
		name = "no mesh"
	}
	if !ok {
		return name
	}
	return name + " (" + rest + ")"
}

// effectAnswer is the effect of a treatment on the median and on memory.
func (v view) effectAnswer(tr analysis.Treatment) string {
	var parts []string
	if c, ok := v.compared(tr.ID, answerMedian); ok {
		switch {
		case c.Verdict == analysis.Higher || c.Verdict == analysis.Lower:
			q := quantityOf(answerMedian)
			before, after := apart(v.value(tr.Baseline, answerMedian)*q.scale, v.value(tr.ID, answerMedian)*q.scale)
			parts = append(parts, fmt.Sprintf("the median response goes from %s to %s%s", before, after, q.unitText()))
		case c.Verdict != analysis.Insufficient:
			parts = append(parts, "no difference in the median response is shown")
		}
	}
	if c, ok := v.compared(tr.ID, answerMemory); ok && c.Difference != nil {
		amount, interval := amountWithin(*c.Difference, quantityOf(answerMemory))
		switch c.Verdict {
		case analysis.Higher:
			parts = append(parts, fmt.Sprintf("the data plane takes %s more memory%s", amount, interval))
		case analysis.Lower:
			parts = append(parts, fmt.Sprintf("the data plane takes %s less memory%s", amount, interval))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	s := strings.Join(parts, "; ")
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// trustAnswer has the share of the trials that counts, and the smallest effect that they could show.
func (v view) trustAnswer() string {
	n := v.r.Count
	s := AllValid(n.Planned) + "."
	if n.Used != n.Planned {
		s = fmt.Sprintf("%d of %s are used.", n.Used, printable.Counted(n.Planned, "trial"))
	}
	if smallest := v.smallestText(); smallest != "" {
		s += fmt.Sprintf(" Differences of %s in CPU per request would have shown.", smallest)
	}
	return s
}

// AllValid is the sentence about n trials without an invalid one.
func AllValid(n int) string {
	if n == 1 {
		return "The trial is valid"
	}
	return fmt.Sprintf("All %d trials are valid", n)
}

// smallestText formats the smallest detectable difference in CPU with its unit: "8.3 µs", or "2.1 %" where only ratios
// have a meaning. Of several it is the range: "8.3 µs (envoy) to 57 µs (istio)". It is "" if unknown.
func (v view) smallestText() string {
	var of []analysis.Comparison
	for _, c := range v.r.Comparisons {
		if c.Metric == answerCost && !c.Control && c.Smallest != nil && c.Smallest.Estimate > 0 {
			of = append(of, c)
		}
	}
	if len(of) == 0 {
		return ""
	}
	slices.SortStableFunc(of, func(a, b analysis.Comparison) int { return cmp.Compare(a.Smallest.Estimate, b.Smallest.Estimate) })
	q := quantityOf(answerCost)
	text := func(c analysis.Comparison) string {
		if v.r.RatiosOnly {
			return rough(100*c.Smallest.Estimate) + " %"
		}
		return rough(c.Smallest.Estimate*q.scale) + q.unitText()
	}
	least, most := of[0], of[len(of)-1]
	if text(least) == text(most) {
		return text(most)
	}
	return fmt.Sprintf("%s (%s) to %s (%s)", text(least), v.label.describe(least.Factors), text(most), v.label.describe(most.Factors))
}

// value is a treatment's estimate of a metric.
func (v view) value(treatment, name string) float64 {
	for _, tr := range v.r.Treatments {
		if tr.ID == treatment {
			return tr.Metrics[name].Estimate
		}
	}
	return math.NaN()
}

// amountWithin is the size of a difference, "494 µs", and its bounds, " (460 to 528)", or half of the interval if
// the bounds look alike: " (±0.4)". An unknown interval is empty.
func amountWithin(i stats.Interval, q quantity) (amount, interval string) {
	half, known := i.HalfWidth()
	// Three digits are enough in a sentence.
	d := max(0, min(decimals(i.Estimate*q.scale, half*q.scale, known), 2-magnitude(i.Estimate*q.scale)))
	if known {
		d = apartFrom(0, *i.Low*q.scale, *i.High*q.scale, d)
	}
	amount = fixed(math.Abs(i.Estimate)*q.scale, d) + q.unitText()
	if !known {
		return amount, ""
	}
	low, high := *i.Low*q.scale, *i.High*q.scale
	if i.Estimate < 0 {
		low, high = -high, -low
	}
	from, to := fixed(low, d), fixed(high, d)
	if from != to {
		return amount, fmt.Sprintf(" (%s to %s)", from, to)
	}
	if width := half * q.scale; width > 0 {
		return amount, fmt.Sprintf(" (±%s)", fixed(width, max(0, -magnitude(width))))
	}
	return amount, ""
}
