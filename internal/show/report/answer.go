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
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// The metrics of the answer.
var (
	answerCost   = metric.Of(metric.CPUPerRequest, "total")
	answerMedian = metric.Of(metric.Latency, "p50")
	answerMemory = metric.Of(metric.Memory, string(metric.Data))
)

// capital begins a sentence.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// mostAnswers is the largest number of treatments in a sentence.
const mostAnswers = 6

// mostResults is the number of results in an answer: the most important one and the next one.
const mostResults = 2

// Answer is the result in at most five lines: the most important one, at most two lines of doubts about it, the next
// result, and how many trials count and what they could show. It is empty where nothing was compared.
func Answer(r *answer.Report) []string {
	if r.Method == compare.AsPublished {
		return nil
	}
	v := newView(r)
	lines := results(v)
	if len(lines) == 0 {
		return nil
	}
	other := otherAnswers(r)
	lines = slices.Concat(other, lines)
	lines = lines[:min(len(lines), max(mostResults, len(other)+1))]
	if len(other) == 0 {
		lines = slices.Insert(lines, 1, doubtsOf(v)...)
	}
	return append(lines, trustAnswer(v))
}

// otherAnswers warn, before any figure, of treatments whose clients got other answers.
func otherAnswers(r *answer.Report) (lines []string) {
	for _, w := range r.Warnings {
		if w.Code == answer.AnswersDiffer && len(lines) < mostAnswers {
			lines = append(lines, "Warning: "+w.Message+". The figures compare different work.")
		}
	}
	return lines
}

// results are the results by their importance: what the run was made to decide or to find, then the CPU of a request.
func results(v view) []string {
	boundaries := boundaryAnswers(v)
	lines := slices.Concat(gateAnswers(v.r), trendAnswers(v), failureAnswers(v), changeAnswers(v), startAnswers(v), slopeAnswers(v), v.capacityAnswers(), boundaries)
	switch {
	case len(v.r.Ladders) > 0:
		return append(lines, ladderAnswers(v)...)
	case len(boundaries) > 0: // the total has another boundary
		return lines
	}
	lines = append(lines, costAnswers(v, len(lines) > 0)...)
	if len(lines) == 0 {
		return timeAnswers(v)
	}
	return lines
}

// costAnswers are the CPU time of a request with the treatments that change it. after: the run has another result, so that
// only shown differences are one.
func costAnswers(v view, after bool) []string {
	if lines := crossingAnswers(v); lines != nil {
		return lines
	}
	var costs []ranked
	var compared []compare.Treatment
	asked := map[string]bool{}
	for _, tr := range v.r.Treatments {
		c, ok := v.compared(tr.ID, answerCost)
		if !ok || tr.Control || tr.Reference {
			continue
		}
		compared = append(compared, tr)
		switch q := v.questionOf(tr.ID); {
		case q != nil && len(q.Pooled) > 0:
			if !asked[q.ID] {
				costs = append(costs, v.sweepAnswer(*q))
			}
			asked[q.ID] = true
		case !after || isShown(c.Verdict):
			costs = append(costs, v.costAnswer(tr, c))
		}
	}
	lines := inOrder(costs)
	if len(compared) != 1 {
		return lines
	}
	for _, w := range v.r.Warnings {
		if w.Code == answer.MemoryGrows && len(v.r.Trends) == 0 && !grows(v, compared[0].Baseline) {
			lines = append(lines, capital(w.Message)+".")
		}
	}
	if s := v.effectAnswer(compared[0]); s != "" {
		lines = append(lines, s)
	}
	return lines
}

// grows reports whether the memory of a treatment surely grew. Programs that have just begun do.
func grows(v view, treatment string) bool {
	for name, e := range v.treatment(treatment).Metrics {
		if base, _, _ := strings.Cut(name, "/"); base == metric.MemoryGrowth && e.Known() && *e.Low > 0 {
			return true
		}
	}
	return false
}

// ranked is a result of a treatment. Shown differences have the lowest rank, and among them large ones come first.
type ranked struct {
	rank        int
	size        float64
	line, short string // a sentence, and a part of one
	name, base  string // of the comparison
	totals      totals
	over        string // levels of a mean, "" for none
	apart       bool   // the levels have no common size
}

// inOrder are the sentence of the most important result, and one of the others.
func inOrder(all []ranked) []string {
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Or(a.rank-b.rank, cmp.Compare(b.size, a.size)) })
	if s := dearestWords(all); s != "" {
		return []string{s, all[0].line}
	}
	var lines, others []string
	for _, x := range all[:min(len(all), 2)] {
		lines = append(lines, x.line)
	}
	if len(all) <= 2 {
		return lines
	}
	for _, x := range all[1:] {
		if x.base != all[0].base {
			x.short += " (against " + x.base + ")"
		}
		others = append(others, x.short)
	}
	return []string{lines[0], "The others: " + strings.Join(firstOf(others, mostAnswers-1), "; ") + "."}
}

// dearestWords compares three treatments or more in one sentence, if one baseline costs less than all that have a verdict. The
// least cost is first: "Without a mesh a request needs the least CPU, 125 µs: 260 µs with nginx (2.1 times), 549 µs with envoy (4.4 times)."
// Otherwise it is "".
func dearestWords(all []ranked) string {
	shown := slices.DeleteFunc(slices.Clone(all), func(x ranked) bool { return x.rank > 0 })
	if len(all) < 3 || len(shown) < 2 || slices.ContainsFunc(all, func(x ranked) bool { return x.apart || x.base != all[0].base || x.over != all[0].over }) ||
		slices.ContainsFunc(shown, func(x ranked) bool { return x.totals.baseline <= 0 || x.totals.times() <= 1 }) {
		return ""
	}
	slices.SortStableFunc(shown, func(a, b ranked) int { return cmp.Compare(a.totals.times(), b.totals.times()) })
	var need, open []string
	for _, x := range shown {
		need = append(need, fmt.Sprintf("%s %s (%s times)", threeDigits(x.totals.treatment), with(x.name), timesWords(x.totals.times())))
	}
	words := threeDigits(shown[0].totals.baseline) + ": " + strings.Join(need, ", ")
	if last := len(need) - 1; last > 2 {
		words = fmt.Sprintf("%s: %s to %s", threeDigits(shown[0].totals.baseline), need[0], need[last])
	}
	words += all[0].over + "."
	base := with(all[0].base)
	for _, x := range all {
		if x.rank > 0 {
			open = append(open, x.name)
		}
	}
	if open == nil {
		return fmt.Sprintf("%s a request needs the least CPU, %s", capital(base), words)
	}
	return fmt.Sprintf("%s a request needs less CPU, %s Not certain: %s.", capital(base), words, strings.Join(firstOf(open, mostAnswers), ", "))
}

// firstOf are the first n parts of a sentence, and how many more there are. It leaves out none if there is one more.
func firstOf(parts []string, n int) []string {
	if len(parts) <= n+1 {
		return parts
	}
	return append(slices.Clone(parts[:n]), fmt.Sprintf("%d more are below", len(parts)-n))
}

func verdictRank(verdict compare.Verdict) int {
	switch {
	case isShown(verdict):
		return 0
	case verdict == compare.Insufficient:
		return 2
	}
	return 1
}

// isShown reports whether a verdict shows a difference.
func isShown(verdict compare.Verdict) bool {
	return verdict == compare.Higher || verdict == compare.Lower
}

// Unanswered is the first line of a report without an answer: the reason.
func Unanswered(r *answer.Report) string {
	if slices.ContainsFunc(r.Comparisons, func(c compare.Comparison) bool { return !c.Control && c.Difference != nil }) {
		return "CPU per request is unknown. Other differences are below."
	}
	n, why := r.Count, ""
	for _, w := range r.Warnings {
		if w.Invalidates {
			first, _, _ := strings.Cut(w.Message, ": ")
			why = ": " + shortened(first, maxReason)
			break
		}
	}
	switch {
	case n.Used == 0 && n.Failed > 0:
		return fmt.Sprintf("Nothing was measured: %d of %s failed.", n.Failed, printable.Counted(n.Planned, "trial"))
	case n.Invalid > 0:
		return fmt.Sprintf("Nothing was compared: %d of %s %s invalid%s.", n.Invalid, printable.Counted(n.Planned, "trial"), map[bool]string{true: "is", false: "are"}[n.Invalid == 1], why)
	}
	return "Nothing was compared."
}

// answerSection is the answer, before everything else, or the reason why there is none.
func answerSection(t text) {
	lines := Answer(t.view.r)
	if len(lines) == 0 && t.view.short && t.view.r.Method != compare.AsPublished {
		lines = []string{Unanswered(t.view.r)}
	}
	writeAnswer(t, lines)
	if len(lines) > 0 && !t.page.markdown {
		t.page.line("")
	}
}

// writeAnswer writes the lines of an answer, the first one in bold or in the colour of the gates.
func writeAnswer(t text, lines []string) {
	style := bold
	if len(t.view.r.Decisions) > 0 {
		style = outcomeStyles[t.view.r.Decided()]
	}
	for i, s := range lines {
		if i == 0 {
			t.page.styled(style, func() { t.page.prose(s) })
			continue
		}
		t.page.prose(s)
	}
}

// capacityAnswers compare the highest rates with an objective.
func (v view) capacityAnswers() []string {
	var all []ranked
	for _, tr := range v.r.Treatments {
		c, ok := v.compared(tr.ID, metric.Capacity)
		if !ok || tr.Control || tr.Reference {
			continue
		}
		x := ranked{rank: verdictRank(c.Verdict), base: v.label.against(tr, v.r)}
		rates := highestRate(v, tr.ID) + " requests/s"
		if c.PairsLost == 0 || c.BlocksNeeded > 0 { // otherwise the ratio is not of these means
			rates += fmt.Sprintf(" instead of %s %s", highestRate(v, tr.Baseline), with(x.base))
		}
		if objective := experiment.ObjectiveOf(tr.Factors[experiment.RateFactor]); objective != "" {
			rates += ", at " + objective
		}
		if c.Ratio != nil {
			x.size = math.Abs(math.Log(c.Ratio.Estimate))
		}
		subject, of := with(v.subject(tr)), capacityVerdict(v, c)
		x.short = subject + " " + of
		if isShown(c.Verdict) {
			x.line = fmt.Sprintf("the highest rate is %s: %s.", of, rates)
		} else {
			x.line = fmt.Sprintf("the highest rate is %s: %s.", rates, of)
		}
		x.line = capital(subject) + " " + x.line
		all = append(all, x)
	}
	return inOrder(all)
}

// capacityVerdict compares a highest rate with the baseline's: "87 % lower (84 to 90)", or the reason for no verdict.
func capacityVerdict(v view, c compare.Comparison) string {
	if c.Ratio == nil || c.Verdict == compare.Insufficient {
		return insufficientWords(v.r, c, "")
	}
	if !isShown(c.Verdict) && c.BlocksNeeded > 0 {
		return fmt.Sprintf("not certain yet after %d of about %s", c.N, printable.Counted(c.BlocksNeeded, "repetition"))
	}
	if !isShown(c.Verdict) {
		return fmt.Sprintf("no difference is shown%s (%s)", adjusted(*c.Ratio, 1), ratioWithin(*c.Ratio))
	}
	percent := func(of float64) string { return rough(100 * math.Abs(of-1)) }
	s, from, to := percent(c.Ratio.Estimate)+" % higher", c.Ratio.Low, c.Ratio.High
	if c.Verdict == compare.Lower {
		s, from, to = percent(c.Ratio.Estimate)+" % lower", to, from
	}
	if c.Ratio.Known() {
		s += fmt.Sprintf(" (%s to %s %%)", percent(*from), percent(*to))
	}
	return s
}

// highestRate is a treatment's, with the digits of the tables.
func highestRate(v view, treatment string) string {
	rate, _, _ := strings.Cut(figure(v.treatment(treatment).Metrics[metric.Capacity].Interval, 1, false), " ")
	return rate
}

// compared finds the comparison of a treatment by one metric.
func (v view) compared(treatment, name string) (compare.Comparison, bool) {
	for _, c := range v.r.Comparisons {
		if c.Treatment == treatment && c.Metric == name {
			return c, true
		}
	}
	return compare.Comparison{}, false
}

// costAnswer is a treatment's CPU time per request against its baseline.
func (v view) costAnswer(tr compare.Treatment, c compare.Comparison) ranked {
	name, base := v.subject(tr), v.label.against(tr, v.r)
	x := rankedCost(v, name, base, c.Verdict, c.Difference)
	x.totals = totalsOf(v, tr)
	switch {
	case c.Verdict == compare.Insufficient:
		x.line = fmt.Sprintf("%s: %s.", name, insufficientWords(v.r, c, " on CPU per request"))
	case isShown(c.Verdict):
		x.line = v.costSentence(sidecarsOf(v, tr, name), base, c.Verdict, c.Difference, "", x.totals) + partsAnswer(v, tr)
	default:
		x.line = v.costSentence(name, base, c.Verdict, c.Difference, "", x.totals) + partsAnswer(v, tr)
	}
	return x
}

// rankedCost is the rank of a cost, and its part of a sentence: "istio +300 µs (254 to 346)".
func rankedCost(v view, name, base string, verdict compare.Verdict, of *stats.Interval) ranked {
	x := ranked{rank: verdictRank(verdict), name: name, base: base, short: name + ": no difference shown"}
	switch {
	case verdict == compare.Insufficient:
		x.short = name + ": no verdict"
	case !isShown(verdict):
	case of != nil:
		sign := "+"
		if of.Estimate < 0 {
			sign = "-"
		}
		x.size, x.short = math.Abs(of.Estimate), name+" "+sign+amountWithin(*of, quantityOf(answerCost))
	}
	return x
}

// partsAnswer is what a variant of an application changes in the program, and what it adds beside it. It is "" unless a process
// beside the program has a cost.
func partsAnswer(v view, tr compare.Treatment) string {
	within, ok := v.compared(tr.ID, metric.Of(metric.CPUPerRequest, string(metric.App)))
	beside, has := v.compared(tr.ID, metric.Of(metric.CPUPerRequest, string(metric.Data)))
	if !ofApplications(v, tr) || !ok || !has || within.Difference == nil || beside.Difference == nil || beside.Difference.Estimate == 0 {
		return ""
	}
	q := quantityOf(answerCost)
	text := func(c compare.Comparison) string { return difference(*c.Difference, q.scale) + q.differenceUnit() }
	return fmt.Sprintf(" The program itself: %s; beside it: %s.", text(within), text(beside))
}

// ofApplications reports whether a treatment and its baseline differ in the application.
func ofApplications(v view, tr compare.Treatment) bool {
	const f = experiment.ApplicationFactor
	return tr.Baseline != "" && Level(v.treatment(tr.Baseline).Factors[f]) != Level(tr.Factors[f])
}

// insufficientWords is the reason for a comparison without a verdict: "no verdict: 11 of 13 blocks withheld: the generator sent late".
func insufficientWords(r *answer.Report, c compare.Comparison, on string) string {
	if reason := lostWords(r, c, 2); reason != "" {
		return "no verdict" + on + ": " + reason
	}
	return "too few trials for a verdict" + on
}

// sidecarsOf puts the number of sidecars before the name of a mesh that is compared with no mesh: "Two envoy sidecars".
func sidecarsOf(v view, tr compare.Treatment, name string) string {
	if tr.Sidecars == 0 || !slices.Contains(v.label.factors, experiment.MeshFactor) || v.treatment(tr.Baseline).Sidecars > 0 {
		return name
	}
	name, rest, _ := strings.Cut(name, " (")
	if rest != "" {
		rest = " (" + rest
	}
	return fmt.Sprintf("%s %s %s%s", capital(numberWord(tr.Sidecars)), name, printable.Plural(tr.Sidecars, "sidecar"), rest)
}

// numberWord is a small number in a sentence: "two".
func numberWord(n int) string {
	words := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}

// costSentence is a difference in CPU, over levels if there are several, with both totals.
func (v view) costSentence(subject, base string, verdict compare.Verdict, added *stats.Interval, over string, of totals) string {
	if added == nil || verdict == compare.Insufficient {
		return fmt.Sprintf("%s: too few trials for a verdict on CPU per request.", subject)
	}
	q := quantityOf(answerCost)
	switch verdict {
	case compare.Higher, compare.Lower:
		verb, request := verbOf(subject, verdict)
		return fmt.Sprintf("%s %s %s of CPU %s%s%s.", subject, verb, amountWithin(*added, q), request, over, of.words(subject, base, *added))
	}
	s := noDifference(subject, base) + over + adjusted(*added, 0)
	if between := bounds(*added, q.scale, signed); between != "" {
		s += fmt.Sprintf(" (%s %s%s)", difference(*added, q.scale), between, q.unitText())
	}
	return s + "."
}

// totals are the CPU time of a request without and with a treatment, in microseconds: the means over the blocks that have both.
type totals struct{ baseline, treatment float64 }

func (t totals) times() float64 { return t.treatment / t.baseline }

// words are both totals: ": 125 µs without a mesh, 549 µs with it (4.4 times)". They are "" if unknown. They are
// rounded so that the baseline and the printed difference add up.
func (t totals) words(subject, base string, of stats.Interval) string {
	if !(t.baseline > 0 && t.treatment > 0) {
		return ""
	}
	q := quantityOf(answerCost)
	d := sentenceDecimals(of, q.scale)
	round := func(us float64) float64 { return math.Round(us*math.Pow10(d)) / math.Pow10(d) }
	first, last := round(t.baseline), round(t.treatment)
	if added := of.Estimate * q.scale; math.Abs(t.treatment-t.baseline-added) < math.Pow10(-d) {
		less, more := last-round(added), first+round(added)
		if less > 0 && math.Abs(less-t.baseline) < math.Abs(more-t.treatment) {
			first = less
		} else {
			last = more
		}
	}
	after := "with it"
	switch {
	case !strings.HasPrefix(base, "no "):
		after = with(subject)
	case strings.Contains(subject+" ", " sidecars "):
		after = "with them"
	}
	return fmt.Sprintf(": %s%s %s, %s%s %s (%s times)", fixed(first, d), q.unitText(), with(base), fixed(last, d), q.unitText(), after, timesWords(t.times()))
}

// threeDigits is a CPU time in a sentence: "549 µs".
func threeDigits(us float64) string {
	return fixed(us, max(0, 2-magnitude(us))) + quantityOf(answerCost).unitText()
}

// timesWords is a multiple with two digits, or with as many as show that it is not 1.
func timesWords(times float64) string {
	s, _ := apart(times, 1)
	return s
}

// totalsOf are the totals of a treatment and its baseline.
func totalsOf(v view, tr compare.Treatment) (t totals) {
	scale := quantityOf(answerCost).scale
	t = totals{v.value(tr.Baseline, answerCost) * scale, v.value(tr.ID, answerCost) * scale}
	if v.r.Method != compare.Paired {
		return t
	}
	values := map[int]map[string]float64{}
	for _, x := range v.r.Trials {
		if us, known := x.Metrics[answerCost]; known && x.Valid && (x.Treatment == tr.ID || x.Treatment == tr.Baseline) {
			if values[x.Block] == nil {
				values[x.Block] = map[string]float64{}
			}
			values[x.Block][x.Treatment] = us * scale
		}
	}
	var sum totals
	n := 0.0
	for _, block := range slices.Sorted(maps.Keys(values)) {
		if of := values[block]; len(of) == 2 {
			sum.baseline, sum.treatment, n = sum.baseline+of[tr.Baseline], sum.treatment+of[tr.ID], n+1
		}
	}
	if n == 0 {
		return t
	}
	return totals{sum.baseline / n, sum.treatment / n}
}

// verbOf is the verb of a shown difference, and the request that it is of.
func verbOf(subject string, verdict compare.Verdict) (verb, request string) {
	verb, request = "add", "to a request"
	if verdict == compare.Lower {
		verb, request = "save", "per request"
	}
	if !strings.Contains(subject+" ", " sidecars ") {
		verb += "s"
	}
	return verb, request
}

// noDifference is a comparison without a shown difference in CPU: "…, compared with a run without a mesh".
func noDifference(subject, base string) string {
	return fmt.Sprintf("%s: no difference in CPU per request is shown, compared with %s", subject, strings.TrimPrefix(strings.Replace(with(base), "without", "a run without", 1), "with "))
}

// adjusted is the reason why no difference is shown by an interval without the value of no difference: one of many
// comparisons excludes it by chance.
func adjusted(of stats.Interval, none float64) string {
	if of.Known() && (*of.Low > none || *of.High < none) {
		return " among all comparisons"
	}
	return ""
}

// with is a baseline in a sentence: "without a mesh", "with istio, rate 100".
func with(base string) string {
	if rest, ok := strings.CutPrefix(base, "no "); ok {
		return "without a " + rest
	}
	return "with " + base
}

// subject names a treatment in a sentence, by what differs from its baseline: "envoy (rate 100)".
func (v view) subject(tr compare.Treatment) string {
	base, compared := v.treatment(tr.Baseline).Factors, tr.Baseline != ""
	var differ, rest []string
	for _, f := range v.label.factors {
		if compared && Level(base[f]) == Level(tr.Factors[f]) {
			rest = append(rest, f)
		} else {
			differ = append(differ, f)
		}
	}
	if !compared || len(differ) == 0 {
		differ, rest = v.label.factors, nil
	}
	name, others, _ := strings.Cut(v.label.phrase(tr.Factors, differ), ", ")
	if words := v.label.phrase(tr.Factors, rest); others != "" && words != "" {
		others += ", " + words
	} else {
		others += words
	}
	return strings.TrimSuffix(cmp.Or(name, tr.ID, unnamed)+" ("+others+")", " ()")
}

// effectAnswer is the effect of a treatment on the median and on memory.
func (v view) effectAnswer(tr compare.Treatment) string {
	var parts []string
	if c, ok := v.compared(tr.ID, answerMedian); ok {
		switch {
		case isShown(c.Verdict):
			q := quantityOf(answerMedian)
			before, after := apart(v.value(tr.Baseline, answerMedian)*q.scale, v.value(tr.ID, answerMedian)*q.scale)
			s := fmt.Sprintf("the median response goes from %s%s to %s%s", before, q.unitText(), after, q.unitText())
			if c.Difference != nil {
				sign := map[compare.Verdict]string{compare.Higher: "+", compare.Lower: "-"}[c.Verdict]
				s += ", by " + sign + amountWithin(*c.Difference, q)
			}
			parts = append(parts, s)
		case c.Verdict != compare.Insufficient:
			parts = append(parts, "no difference in the median response is shown")
		}
	}
	memory, taker := answerMemory, "the data plane"
	if ofApplications(v, tr) {
		memory, taker = metric.Of(metric.Memory, "total"), tr.ID
	}
	if c, ok := v.compared(tr.ID, memory); ok && c.Difference != nil {
		amount := amountWithin(*c.Difference, quantityOf(memory))
		grows := ""
		if g := growingApart(v.r, c); g != "" {
			grows = ", " + g
		}
		switch c.Verdict {
		case compare.Higher:
			parts = append(parts, fmt.Sprintf("%s takes %s more memory%s", taker, amount, grows))
		case compare.Lower:
			parts = append(parts, fmt.Sprintf("%s takes %s less memory%s", taker, amount, grows))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return capital(strings.Join(parts, "; ")) + "."
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

// amountWithin is the size of a difference with its interval: "494 ±34 µs", or "494 µs (460 to 540)" if the estimate is not
// in the middle. An unknown interval is left out.
func amountWithin(i stats.Interval, q quantity) string {
	size, d := math.Abs(i.Estimate)*q.scale, sentenceDecimals(i, q.scale)
	half, known := i.HalfWidth()
	half *= q.scale
	switch {
	case !known || half == 0:
		return fixed(size, d) + q.unitText()
	case symmetric(i):
		return fixed(size, d) + " " + plusMinus(half, d) + q.unitText()
	}
	low, high := *i.Low*q.scale, *i.High*q.scale
	if i.Estimate < 0 {
		low, high = -high, -low
	}
	d = apartFrom(0, low, high, d)
	return fmt.Sprintf("%s%s (%s to %s)", fixed(size, d), q.unitText(), fixed(low, d), fixed(high, d))
}

// sentenceDecimals is the number of decimals of a difference in a sentence: three digits are enough there, and more only
// for an interval that would be zero.
func sentenceDecimals(i stats.Interval, scale float64) int {
	half, known := i.HalfWidth()
	size, half := math.Abs(i.Estimate)*scale, half*scale
	d := max(0, min(decimals(size, half, known), 2-magnitude(size)))
	if !known || half == 0 {
		return d
	}
	for d < 3 && fixed(half, d) == fixed(0, d) || d < 9 && size != half && fixed(size, d) == fixed(half, d) {
		d++
	}
	return d
}
