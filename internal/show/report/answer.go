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
	dataCost     = metric.Of(metric.CPUPerRequest, string(metric.Data))
	answerMedian = metric.Of(metric.Latency, "p50")
	answerMemory = metric.Of(metric.Memory, string(metric.Data))
)

// capital begins a sentence of words. Names stay as they are written.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// mostAnswers is the largest number of treatments in a sentence.
const mostAnswers = 6

// otherAnswers warn, before any figure, of treatments whose clients got other answers.
func otherAnswers(r *answer.Report) (all []Claim) {
	for _, w := range r.Warnings {
		if w.Code == answer.AnswersDiffer && len(all) < mostAnswers {
			all = append(all, plain(otherWork, "Warning: "+w.Message+". The figures compare different work.")...)
		}
	}
	return all
}

// results are the results by their importance: what the run was made to decide or to find, then the CPU of a request.
func results(v view) []Claim {
	boundaries := plain(boundaryClaim, boundaryAnswers(v)...)
	all := slices.Concat(plain(gateClaim, gateAnswers(v.r)...), moneyClaims(v), plain(trendClaim, trendAnswers(v)...), plain(failureClaim, failureAnswers(v)...), plain(changeClaim, changeAnswers(v)...),
		plain(startClaim, startAnswers(v)...), plain(slopeClaim, slopeAnswers(v)...), capacityClaims(v), boundaries)
	switch {
	case len(v.r.Ladders) > 0:
		return append(all, plain(ladderClaim, ladderAnswers(v)...)...)
	case len(boundaries) > 0: // the total has another boundary
		return all
	}
	all = append(all, costClaims(v, len(all) > 0)...)
	if len(all) == 0 {
		return timeClaims(v)
	}
	return all
}

// moneyClaims are what the treatments add to the bill of the first scenario of given prices.
func moneyClaims(v view) (all []Claim) {
	c := v.r.Cost
	if c == nil || len(c.Prices.Scenarios) == 0 {
		return nil
	}
	for _, x := range c.Scenarios {
		if x.Scenario != c.Prices.Scenarios[0].Name || x.Bill != answer.AddedBill || x.Money == nil || x.Money.Estimate <= 0 {
			continue
		}
		tr := v.treatment(x.Treatment)
		all = append(all, Claim{Form: moneyClaim, Subject: tr.ID, Baseline: tr.Baseline, Metric: "money_per_month", Amount: x.Money}.fill(sentenceWords{
			"scenario": x.Scenario, "subject": v.subject(tr), "amount": amountWithin(*x.Money, quantity{unit: c.Prices.Currency, scale: 1}), "bill": string(x.Bill)}))
	}
	return all
}

// costs are the comparisons of the CPU of a request: in all, of the data plane and of the program. Those of a question are means
// over its levels.
type costs struct{ total, data, app compare.Comparison }

func costsOf(v view, tr compare.Treatment) (c costs, ok bool) {
	c.total, ok = v.compared(tr.ID, answerCost)
	c.data, _ = v.compared(tr.ID, dataCost)
	c.app, _ = v.compared(tr.ID, metric.Of(metric.CPUPerRequest, string(metric.App)))
	return c.judged(v, v.isMetered(tr, c.data)), ok
}

// judged are the comparisons with the intervals of their verdicts. A metered data plane has its own.
func (c costs) judged(v view, metered bool) costs {
	c.total, c.app = c.total.Judged(v.r.Confidence), c.app.Judged(v.r.Confidence)
	if !metered {
		c.data = c.data.Judged(v.r.Confidence)
	}
	return c
}

// costClaims are the CPU time of a request with the treatments that change it. after: the run has another result, so that
// only shown differences are one.
func costClaims(v view, after bool) []Claim {
	if lines := crossingAnswers(v); lines != nil {
		return plain(levelClaim, lines...)
	}
	var all []row
	var compared []compare.Treatment
	asked := map[string]bool{}
	for _, tr := range v.r.Treatments {
		c, ok := costsOf(v, tr)
		if !ok || tr.Control || tr.Reference {
			continue
		}
		compared = append(compared, tr)
		switch q := v.questionOf(tr.ID); {
		case q != nil && len(q.Pooled) > 0:
			if !asked[q.ID] {
				all = append(all, v.sweepRow(*q))
			}
			asked[q.ID] = true
		case !after || isShown(c.total.Verdict) || v.isMetered(tr, c.data):
			all = append(all, v.costRow(tr, c))
		}
	}
	lines := ranking(v, all, costHead)
	if len(compared) != 1 {
		return lines
	}
	for _, w := range v.r.Warnings {
		if w.Code == answer.MemoryGrows && len(v.r.Trends) == 0 && !grows(v, compared[0].Baseline) {
			lines = append(lines, plain(trendClaim, w.Message+".")...)
		}
	}
	return append(lines, effectClaims(v, compared[0])...)
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

// row is a result of a treatment: a sentence, and a row of a ranking.
type row struct {
	Claim
	size   float64 // of the difference
	short  string  // amount in a ranking
	name   string
	base   string // words of the baseline
	totals totals
	over   string // levels of a mean, "" for none
	apart  bool   // the levels have no common size
}

// ranking are the sentences of one or two results, shown and large ones first. Of more, it is one line each, the least first and
// those without a verdict last, after the baseline.
func ranking(v view, all []row, head func([]row) string) (claims []Claim) {
	few := len(all) <= 2
	slices.SortStableFunc(all, func(a, b row) int {
		if few {
			return cmp.Or(verdictRank(a.Relation)-verdictRank(b.Relation), cmp.Compare(math.Abs(b.size), math.Abs(a.size)))
		}
		return cmp.Or(verdictRank(a.Relation)/2-verdictRank(b.Relation)/2, cmp.Compare(a.size, b.size))
	})
	if few {
		for _, x := range all {
			claims = append(claims, x.Claim)
		}
		return claims
	}
	claims = plain(rankedHead, head(all))
	for i, x := range all {
		if i == mostRanked {
			return append(claims, plain(rankedRow, fmt.Sprintf("%d more are below", len(all)-i))...)
		}
		words := sentenceWords{"subject": x.name, "amount": x.short}
		if isShown(x.Relation) && x.totals.baseline > 0 && x.totals.treatment > 0 && !x.apart {
			words["times"] = fmt.Sprintf(", %s times as much in all", timesWords(x.totals.times()))
		}
		if x.base != all[0].base {
			words["against"] = " (against " + x.base + ")"
		}
		x.Form = rankedRow
		claims = append(claims, x.fill(words))
	}
	return claims
}

// mostRanked is the largest number of rows of a ranking.
const mostRanked = 8

// costHead begins a ranking of the CPU of a request.
func costHead(all []row) string {
	does, base := "each adds", all[0]
	if !slices.ContainsFunc(all, func(x row) bool { return x.Metric == answerCost }) {
		does = "the proxies use"
	}
	if slices.ContainsFunc(all, func(x row) bool { return x.base != base.base }) || base.totals.baseline <= 0 {
		return "CPU that each adds to a request, least first" + base.over + ":"
	}
	return fmt.Sprintf("%s a request needs %s of CPU%s; %s, least first:", capital(with(base.base)), threeDigits(base.totals.baseline), base.over, does)
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
	claims := Claims(t.view.r)
	if len(claims) == 0 && t.view.short && t.view.r.Method != compare.AsPublished {
		claims = plain(noVerdict, Unanswered(t.view.r))
	}
	writeAnswer(t, claims)
	if len(claims) > 0 && !t.page.markdown {
		t.page.line("")
	}
}

// writeAnswer writes claims, the first one in bold or in the colour of the gates.
func writeAnswer(t text, claims []Claim) {
	style := bold
	if len(t.view.r.Decisions) > 0 {
		style = outcomeStyles[t.view.r.Decided()]
	}
	for i, c := range claims {
		switch {
		case i == 0:
			t.page.styled(style, func() { t.page.prose(c.Sentence) })
		case c.Form == rankedRow:
			t.page.item(c.Sentence)
			if t.page.markdown && (i+1 == len(claims) || claims[i+1].Form != rankedRow) {
				t.page.line("")
			}
		default:
			t.page.prose(c.Sentence)
		}
	}
}

// capacityClaims compare the highest rates with an objective.
func capacityClaims(v view) []Claim {
	var all []row
	for _, tr := range v.r.Treatments {
		c, ok := v.compared(tr.ID, metric.Capacity)
		if !ok || tr.Control || tr.Reference {
			continue
		}
		c = c.Judged(v.r.Confidence)
		x := row{Claim: Claim{Form: rateOpen, Subject: tr.ID, Baseline: tr.Baseline, Metric: c.Metric, Relation: c.Verdict, Amount: c.Ratio, OfRatio: true}, name: v.subject(tr), base: v.label.against(tr, v.r)}
		rates := highestRate(v, tr.ID) + " requests/s"
		if c.PairsLost == 0 || c.BlocksNeeded > 0 { // otherwise the ratio is not of these means
			rates += fmt.Sprintf(" instead of %s %s", highestRate(v, tr.Baseline), with(x.base))
		}
		if objective := experiment.ObjectiveOf(tr.Factors[experiment.RateFactor]); objective != "" {
			rates += ", at " + objective
		}
		if c.Ratio != nil {
			x.size = math.Log(c.Ratio.Estimate)
		}
		words := sentenceWords{"subject": x.name, "rates": rates, "change": capacityVerdict(v, c)}
		switch {
		case isShown(c.Verdict):
			x.Form = rateMoved
		case c.Verdict != compare.Insufficient:
			words["settle"] = v.settle(c)
		}
		x.short, x.Claim = words["change"], x.fill(words)
		all = append(all, x)
	}
	return ranking(v, all, func(all []row) string {
		return fmt.Sprintf("The highest rate %s is %s requests/s; the others:", with(all[0].base), highestRate(v, all[0].Baseline))
	})
}

// capacityVerdict compares a highest rate with the baseline's: "87 % lower (84 to 90)", or the reason for no verdict.
func capacityVerdict(v view, c compare.Comparison) string {
	if c.Ratio == nil || c.Verdict == compare.Insufficient {
		return insufficientWords(v.r, c, "")
	}
	if !isShown(c.Verdict) {
		return fmt.Sprintf("no difference is shown (%s)", ratioWithin(*c.Ratio))
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

// isMetered reports whether a treatment adds a data plane to a baseline without one: its CPU is read, not a difference of two runs.
func (v view) isMetered(tr compare.Treatment, data compare.Comparison) bool {
	base, added := v.treatment(tr.Baseline).Metrics[dataCost], data.Difference
	return !ofApplications(v, tr) && added != nil && added.Known() && data.Verdict != compare.Insufficient && base.N > 0 && base.Estimate == 0 && added.Estimate > 0
}

// costRow is a treatment's CPU time per request against its baseline.
func (v view) costRow(tr compare.Treatment, c costs) row {
	name, base := v.subject(tr), v.label.against(tr, v.r)
	return v.costOf(tr, sidecarsOf(v, tr, name), name, base, c, "", totalsOf(v, tr))
}

// costOf is the claim about the CPU of a request. over are the levels of a mean.
func (v view) costOf(tr compare.Treatment, subject, name, base string, c costs, over string, of totals) row {
	x := row{Claim: Claim{Form: noVerdict, Subject: tr.ID, Baseline: tr.Baseline, Metric: answerCost, Relation: c.total.Verdict, Amount: c.total.Difference}, name: name, base: base, over: over, totals: of}
	q := quantityOf(answerCost)
	words := sentenceWords{"subject": subject, "over": over, "add": "adds", "save": "saves", "use": "uses", "run": strings.TrimPrefix(strings.Replace(with(base), "without", "a run without", 1), "with "), "parts": partsAnswer(v, tr)}
	if strings.Contains(subject+" ", " sidecars ") {
		words["add"], words["save"], words["use"] = "add", "save", "use"
	}
	shown := isShown(c.total.Verdict) && c.total.Difference != nil
	if shown {
		words["totals"] = of.words(subject, base, *c.total.Difference)
	} else {
		x.totals = totals{baseline: of.baseline}
	}
	switch {
	case v.isMetered(tr, c.data):
		x.Form, x.Metric, x.Relation, x.Amount = metered, dataCost, compare.Higher, c.data.Difference
		words["program"] = v.restWords(tr, c)
		if shown {
			x.Form = meteredOf
		}
	case c.total.Verdict == compare.Insufficient || c.total.Difference == nil:
		x.Reason = insufficientWords(v.r, c.total, " on CPU per request")
		words["reason"], x.short = x.Reason, "no verdict"
		x.Claim = x.fill(words)
		return x
	case shown:
		x.Form = map[compare.Verdict]ClaimForm{compare.Higher: addedClaim, compare.Lower: savedClaim}[c.total.Verdict]
	default:
		x.Form = openClaim
		words["settle"] = v.settle(c.total)
	}
	words["amount"] = amountWithin(*x.Amount, q)
	x.size, x.short = x.Amount.Estimate, signedWithin(*x.Amount, q)
	switch x.Form {
	case openClaim:
		words["amount"] = signedWithin(*x.Amount, q)
		x.short += ", no difference shown"
	case metered, meteredOf:
		x.short = words["amount"]
	}
	x.Claim = x.fill(words)
	return x
}

// restWords are the changes beside the data plane: "; the program itself changed by -96 ±469 µs, not distinguishable".
func (v view) restWords(tr compare.Treatment, c costs) (words string) {
	q := quantityOf(answerCost)
	if control, ok := v.compared(tr.ID, metric.Of(metric.CPUPerRequest, string(metric.Control))); ok && isShown(control.Verdict) && control.Difference.Estimate > 0 {
		words = fmt.Sprintf("; the control plane uses %s", amountWithin(*control.Difference, q))
	}
	switch {
	case c.app.Difference == nil || nothing(c.app.Difference) || c.app.Verdict == compare.Insufficient:
		return words
	case isShown(c.app.Verdict):
		return words + fmt.Sprintf("; the program itself uses %s %s", amountWithin(*c.app.Difference, q), map[compare.Verdict]string{compare.Higher: "more", compare.Lower: "less"}[c.app.Verdict])
	}
	return words + fmt.Sprintf("; the program itself changed by %s, not distinguishable", signedWithin(*c.app.Difference, q))
}

// partsAnswer is what a variant of an application changes in the program, and what it adds beside it. It is "" unless a process
// beside the program has a cost.
func partsAnswer(v view, tr compare.Treatment) string {
	c, _ := costsOf(v, tr)
	if !ofApplications(v, tr) || c.app.Difference == nil || c.data.Difference == nil || c.data.Difference.Estimate == 0 {
		return ""
	}
	q := quantityOf(answerCost)
	return fmt.Sprintf(" The program itself: %s; beside it: %s.", signedWithin(*c.app.Difference, q), signedWithin(*c.data.Difference, q))
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

// effectClaims are the effects of a treatment on the median and on memory.
func effectClaims(v view, tr compare.Treatment) (all []Claim) {
	if c, ok := v.compared(tr.ID, answerMedian); ok && c.Verdict != compare.Insufficient {
		c = c.Judged(v.r.Confidence)
		x := Claim{Form: medianOpen, Subject: tr.ID, Baseline: tr.Baseline, Metric: c.Metric, Relation: c.Verdict, Amount: c.Ratio, OfRatio: true}
		words := sentenceWords{"ratio": ratioText(c.Ratio)}
		if isShown(c.Verdict) && c.Difference != nil {
			q := quantityOf(answerMedian)
			before, after := apart(v.value(tr.Baseline, answerMedian)*q.scale, v.value(tr.ID, answerMedian)*q.scale)
			x.Form = medianMoves
			words["from"], words["to"], words["amount"] = before+q.unitText(), after+q.unitText(), signedAmount(*c.Difference, q)
		}
		all = append(all, x.fill(words))
	}
	memory, of := answerMemory, " of the data plane"
	if ofApplications(v, tr) {
		memory, of = metric.Of(metric.Memory, "total"), " in all"
	}
	if c, ok := v.compared(tr.ID, memory); ok && c.Difference != nil && isShown(c.Verdict) {
		x := Claim{Form: map[compare.Verdict]ClaimForm{compare.Higher: memoryMore, compare.Lower: memoryLess}[c.Verdict], Subject: tr.ID, Baseline: tr.Baseline, Metric: memory, Relation: c.Verdict, Amount: c.Difference}
		words := sentenceWords{"of": of, "amount": amountWithin(*c.Difference, quantityOf(memory))}
		if g := growingApart(v.r, c); g != "" {
			words["grows"] = ", " + g
		}
		all = append(all, x.fill(words))
	}
	return all
}

// signedAmount is [amountWithin] with its sign.
func signedAmount(i stats.Interval, q quantity) string {
	return map[bool]string{true: "-", false: "+"}[i.Estimate < 0] + amountWithin(i, q)
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
