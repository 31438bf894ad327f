package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
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
func capital(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// mostAnswers is the largest number of treatments in a sentence.
const mostAnswers = 6

// otherAnswers warn, before any figure, of treatments whose clients got other answers.
func otherAnswers(r *answer.Report) (all []Claim) {
	for _, w := range Warnings(r) {
		if w.Code == answer.AnswersDiffer && len(all) < mostAnswers {
			all = append(all, Claim{Form: otherWork, Reason: w.Code}.fill(sentenceWords{"message": w.Message}))
		}
	}
	return all
}

// results are the results by their importance: what the run was made to decide or to find, then the CPU of a request.
func results(v view) []Claim {
	boundaries := boundaryClaims(v)
	decided, gates := executedClaims(v, metric.WallTime, metric.CPUTime, metric.PeakOfExecution), gateClaims(v)
	if decided == nil && gates == nil { // an import of Go benchmarks has no other figure
		decided = executedClaims(v, lists.Map(v.r.Executed, func(d compare.Decision) string { return d.Metric })...)
		slices.SortStableFunc(decided, func(a, b Claim) int { return verdictRank(a.Relation) - verdictRank(b.Relation) })
	}
	if slices.ContainsFunc(v.r.Decisions, func(d compare.Decision) bool { return d.Change != nil }) {
		decided, gates = gates, decided
	}
	all := slices.Concat(decided, gates, moneyClaims(v), trendClaims(v), failureClaims(v), slopeClaims(v), changeClaims(v), startClaims(v), capacityClaims(v), boundaries)
	switch {
	case len(v.r.Ladders) > 0:
		return append(all, ladderClaims(v)...)
	case len(boundaries) > 0: // the total has another boundary
		return all
	}
	all = append(all, costClaims(v, len(all) > 0)...)
	if len(all) == 0 {
		return timeClaims(v)
	}
	return all
}

// moneyClaims are what the treatments add to the bill of the first scenario of given prices, and why that is unknown.
func moneyClaims(v view) []Claim {
	var all []row
	c := v.r.Cost
	if c == nil || len(c.Prices.Scenarios) == 0 {
		return nil
	}
	first, bill := c.Prices.Scenarios[0].Name, string(answer.AddedBill)
	if c.Prices.GiB == nil {
		bill += "; memory has no price (gib)"
	}
	for _, tr := range v.r.Treatments {
		added := slices.IndexFunc(c.Scenarios, func(x answer.ScenarioCost) bool {
			return x.Treatment == tr.ID && x.Scenario == first && x.Bill == answer.AddedBill
		})
		measured := slices.ContainsFunc(c.Units, func(u answer.UnitCost) bool { return u.Treatment == tr.ID && u.Bill == answer.AddedBill })
		switch {
		case added >= 0:
			all = append(all, moneyRow(v, tr, c.Scenarios[added], bill))
		case tr.Baseline != "" && !tr.Control && !tr.Reference && !measured: // others are a point of another's line
			all = append(all, moneyRow(v, tr, answer.ScenarioCost{Scenario: first}, bill))
		}
	}
	if !slices.ContainsFunc(all, func(x row) bool { return x.Amount != nil || x.Reason != unmeasuredCPU }) {
		return []Claim{Claim{Form: moneyNone, Reason: "CPU"}.fill(sentenceWords{"scenario": first})}
	}
	return ranking(v, all, func([]row) Claim {
		return Claim{Form: rankedMoney}.fill(sentenceWords{"scenario": first, "bill": bill})
	})
}

// moneyRow has the money that a treatment adds in a scenario, or the reason why that is unknown.
func moneyRow(v view, tr compare.Treatment, of answer.ScenarioCost, bill string) row {
	m, currency := of.Money, v.r.Cost.Prices.Currency
	q, words := quantity{unit: currency, scale: 1}, sentenceWords{"scenario": of.Scenario, "bill": bill}
	x := row{Claim: Claim{Form: moneyClaim, Subject: tr.ID, Baseline: tr.Baseline, Metric: "money_per_month", Relation: compare.Higher, Amount: m, Unit: currency}, name: v.subject(tr), base: v.label.against(tr, v.r)}
	subject := sidecarsOf(v, tr, x.name) // the amount is of all of them, also of the proxy beside the load
	if subject != x.name {
		subject = strings.ToLower(subject[:1]) + subject[1:]
	}
	if m == nil {
		x.Form, x.Relation, x.Reason = moneyUnknown, compare.Insufficient, unpriced(of)
		x.short, x.why, x.cure = "unknown: "+x.Reason, "the added money is unknown: "+x.Reason, measuring(v, of.Unmeasured)
		words["reason"], words["settle"] = x.Reason, x.cure
		x.Claim = x.fill(inWords(subject, compare.Higher, words))
		return x
	}
	x.size, x.short, words["amount"] = m.Estimate, signedWithin(*m, q), amountWithin(*m, q)
	if m.Estimate < 0 {
		x.Relation = compare.Lower
	}
	inWords(subject, x.Relation, words)
	switch {
	case !m.Known():
		without := "no interval: " + printable.Counted(tr.N, "trial")
		x.Relation, x.short, words["bill"] = "", x.short+" ("+without+")", bill+"; "+without
		if tr.N < stats.MinN {
			c, _ := v.r.Find(tr.ID, answerCost)
			x.Relation, x.Reason, x.why, x.cure = compare.Insufficient, without, insufficientWords(v.r, c, " on money"), cureOf(v, c)
			words["settle"] = x.cure
		}
	case !m.Excludes(0):
		x.Form, x.Relation, x.short, words["amount"] = moneyOpen, compare.NotShown, x.short+", no difference shown", x.short
	}
	x.Claim = x.fill(words)
	return x
}

// measuring is the command that measures a rate beside those of the run, "" for none.
func measuring(v view, rate float64) string {
	if rate == 0 || v.r.Directory == "" {
		return ""
	}
	rates := []float64{rate}
	for _, tr := range v.r.Treatments {
		if of, ok := tr.Factors[experiment.RateFactor].(float64); ok {
			rates = lists.Add(rates, of)
		}
	}
	slices.Sort(rates)
	return fmt.Sprintf(" Measure it: `%s`.", RunCommand(v.r.Directory, []string{"factors.rate=[" + strings.Join(lists.Map(rates, func(rate float64) string { return Level(rate) }), ", ") + "]"}))
}

// unmeasuredCPU is why nothing has a price.
const unmeasuredCPU = "the CPU of a request was not measured"

// unpriced is why a scenario has no money.
func unpriced(x answer.ScenarioCost) string {
	switch {
	case x.Cores != nil:
		return "memory has a price (gib) and was not measured"
	case strings.Contains(x.How, "unknown: "):
		return strings.Replace(x.How, "unknown: ", "", 1)
	}
	return unmeasuredCPU
}

// costs are the comparisons of the CPU of a request: in all, of the data plane and of the program. Those of a question are means
// over its levels.
type costs struct{ total, data, app compare.Comparison }

func costsOf(v view, tr compare.Treatment) (c costs, ok bool) {
	c.total, ok = v.r.Find(tr.ID, answerCost)
	c.data, _ = v.r.Find(tr.ID, dataCost)
	c.app, _ = v.r.Find(tr.ID, metric.Of(metric.CPUPerRequest, string(metric.App)))
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
	if crossing := crossingClaims(v); crossing != nil {
		return crossing
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
	if c, steady := steadyClaim(v, compared[0]); steady && len(lines) == 1 {
		lines[0] = c
	}
	for _, w := range Warnings(v.r) {
		if w.Code == answer.MemoryGrows && concernsSome(v, w, []string{compared[0].ID}) && len(v.r.Trends) == 0 && !grows(v, compared[0].Baseline) {
			lines = append(lines, Claim{Form: growthClaim, Subject: compared[0].ID, Reason: w.Code}.fill(sentenceWords{"message": w.Message}))
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
	cure   string  // of a result without a verdict, what would bring one
	why    string  // reason in a sentence about several, "" for the claim's
	name   string
	base   string // words of the baseline
	totals totals
	over   string          // levels of a mean, "" for none
	apart  bool            // the levels have no common size
	values map[int]float64 // of the claim's metric, by block
}

// ranking are the sentences of one or two results, shown and large ones first. Of more, it is one line each, the least first and
// those without a verdict last, after the baseline. A row that does not differ from the one before names it.
func ranking(v view, all []row, head func([]row) Claim) (claims []Claim) {
	few := len(all) <= 2
	if !few && !slices.ContainsFunc(all, func(x row) bool { return x.Relation != compare.Insufficient }) {
		return unjudged(all)
	}
	slices.SortStableFunc(all, func(a, b row) int {
		if few {
			return cmp.Or(verdictRank(a.Relation)-verdictRank(b.Relation), cmp.Compare(math.Abs(b.size), math.Abs(a.size)))
		}
		return cmp.Or(verdictRank(a.Relation)/2-verdictRank(b.Relation)/2, cmp.Compare(a.size, b.size))
	})
	if few {
		for i, x := range all {
			if i > 0 && x.cure == all[0].cure { // once is enough
				x.Sentence = strings.TrimSuffix(x.Sentence, x.cure)
			}
			claims = append(claims, x.Claim)
		}
		return claims
	}
	claims = []Claim{head(all)}
	for i, x := range all {
		if i == mostRanked {
			return append(claims, Claim{Form: rankedMore}.fill(sentenceWords{"more": fmt.Sprint(len(all) - i)}))
		}
		words := sentenceWords{"subject": x.name, "amount": x.short}
		if isShown(x.Relation) && x.totals.baseline > 0 && x.totals.treatment > 0 && !x.apart {
			words["times"] = fmt.Sprintf(", %s times as much in all", timesWords(x.totals.times()))
		}
		if x.base != all[0].base {
			words["against"] = " (against " + x.base + ")"
		}
		if i > 0 && alike(v, all[i-1], x, len(all)-1) {
			words["alike"] = "; not distinguishable from " + all[i-1].name
		}
		x.Form = rankedRow
		claims = append(claims, x.fill(words))
	}
	return claims
}

// unjudged are several results of which none has a verdict, in a sentence for each reason.
func unjudged(all []row) []Claim {
	var claims []Claim
	why := func(x row) string { return cmp.Or(x.why, x.Reason) }
	for _, reason := range lists.Add(nil, lists.Map(all, why)...) {
		same := lists.Where(all, func(x row) bool { return why(x) == reason })
		names := firstOf(lists.Map(same, func(x row) string { return x.name }), mostAnswers)
		c := Claim{Form: noVerdict, Reason: reason, Of: lists.Map(same, func(x row) Claim { return x.Claim })}
		claims = append(claims, c.fill(sentenceWords{"subject": printable.And(names), "reason": reason, "settle": same[0].cure}))
	}
	return together(noVerdicts, claims...)
}

// alike reports whether two neighbours of a ranking with shown differences do not differ within the blocks that have both. All pairs of
// neighbours share the error.
func alike(v view, a, b row, pairs int) bool {
	x, y := both(a.values, b.values)
	d := stats.PairedDifference(y, x, 1-(1-v.r.Confidence)/float64(pairs))
	return isShown(a.Relation) && isShown(b.Relation) && a.Metric == b.Metric && d.Known() && !d.Excludes(0)
}

// mostRanked is the largest number of rows of a ranking.
const mostRanked = 8

// costHead begins a ranking of the CPU of a request.
func costHead(all []row) Claim {
	does, first := "each adds", all[0]
	switch {
	case !slices.ContainsFunc(all, func(x row) bool { return x.Metric == answerCost }):
		does = "the proxies use"
	case slices.ContainsFunc(all, func(x row) bool { return x.size < 0 }):
		does = "each changes it by"
	}
	c := Claim{Form: rankedHead, Subject: first.Baseline, Metric: answerCost}
	if slices.ContainsFunc(all, func(x row) bool { return x.base != first.base }) || first.totals.baseline <= 0 {
		c.Form, c.Subject = rankedApart, ""
	}
	return c.fill(sentenceWords{"base": capital(with(first.base)), "amount": threeDigits(first.totals.baseline), "over": first.over, "does": does})
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
			why = ": " + shortened(named(newView(r), inBrackets.ReplaceAllString(first, "")), maxReason)
			break
		}
	}
	switch {
	case n.Used == 0 && n.Failed > 0:
		return fmt.Sprintf("Nothing was measured: %d of %s failed.", n.Failed, printable.Counted(n.Planned, "trial"))
	case n.Invalid > 0 && n.Invalid == len(lists.Where(r.Trials, func(t figures.Trial) bool { return len(t.HandPhases) > 0 })):
		return "Nothing was compared: services were changed by hand. The figures between the changes are below."
	case n.Invalid > 0:
		return fmt.Sprintf("Nothing was compared: %d of %s %s invalid%s.", n.Invalid, printable.Counted(n.Planned, "trial"), map[bool]string{true: "is", false: "are"}[n.Invalid == 1], why)
	}
	return "Nothing was compared."
}

// answerSection is the answer, before everything else, or the reason why there is none.
func answerSection(t text) {
	claims := Claims(t.view.r)
	if len(claims) == 0 && t.view.short && t.view.r.Method != compare.AsPublished {
		claims = []Claim{{Form: noVerdict, Sentence: Unanswered(t.view.r)}}
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
		case c.isRow():
			t.page.item(c.Sentence)
			if t.page.markdown && (i+1 == len(claims) || !claims[i+1].isRow()) {
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
		if c, ok := v.r.Find(tr.ID, metric.Capacity); ok && !tr.Control && !tr.Reference {
			x, _ := v.result(tr, c, "", compared{rateMoved, rateOpen, rateOpen})
			all = append(all, x)
		}
	}
	return ranking(v, all, func(all []row) Claim {
		rate := v.treatment(all[0].Baseline).Metrics[metric.Capacity].Interval
		return Claim{Form: rankedRates, Subject: all[0].Baseline, Metric: metric.Capacity, Amount: &rate}.fill(sentenceWords{"base": with(all[0].base), "is": fixed(rate.Estimate, 2-magnitude(rate.Estimate))})
	})
}

// isMetered reports whether a treatment is a mesh that adds a data plane: its CPU is read, not a difference of two runs.
func (v view) isMetered(tr compare.Treatment, data compare.Comparison) bool {
	return !ofApplications(v, tr) && addsData(v, tr, data)
}

// addsData reports whether a treatment adds a data plane to a baseline without one.
func addsData(v view, tr compare.Treatment, data compare.Comparison) bool {
	base, added := v.treatment(tr.Baseline).Metrics[dataCost], data.Difference
	return added != nil && added.Known() && data.Verdict != compare.Insufficient && base.N > 0 && base.Estimate == 0 && added.Estimate > 0
}

// costRow is a treatment's CPU time per request against its baseline.
func (v view) costRow(tr compare.Treatment, c costs) row {
	name, base := v.subject(tr), v.label.against(tr, v.r)
	return v.costOf(tr, sidecarsOf(v, tr, name), name, base, c, rateWords(v, tr), totalsOf(v, tr))
}

// costOf is the claim about the CPU of a request. over are the levels of a mean.
func (v view) costOf(tr compare.Treatment, subject, name, base string, c costs, over string, of totals) row {
	x := row{Claim: Claim{Form: noVerdict, Subject: tr.ID, Baseline: tr.Baseline, Metric: answerCost, Relation: c.total.Verdict, Amount: c.total.Difference}, name: name, base: base, over: over, totals: of}
	q := quantityOf(answerCost)
	words := inWords(subject, c.total.Verdict, sentenceWords{"over": over, "run": strings.TrimPrefix(strings.Replace(with(base), "without", "a run without", 1), "with "), "parts": partsAnswer(v, tr)})
	shown := isShown(c.total.Verdict) && c.total.Difference != nil
	if shown {
		words["totals"] = of.words(subject, base, *c.total.Difference)
	} else {
		x.totals = totals{baseline: of.baseline}
	}
	switch {
	case v.isMetered(tr, c.data):
		x.Form, x.Metric, x.Relation, x.Amount = metered, dataCost, compare.Higher, c.data.Difference
		words["program"] = v.restWords(tr, c, "")
	case c.total.Verdict == compare.Insufficient || c.total.Difference == nil:
		x.Reason = insufficientWords(v.r, c.total, onCost)
		x.short, x.cure = strings.Replace(x.Reason, onCost, "", 1), cureOf(v, c.total)
		words["reason"], words["settle"] = x.Reason, x.cure
		if c.total.N < stats.MinN && c.total.Difference != nil && lostWords(v.r, c.total, 1) == "" {
			words["reason"] += " (" + signedWithin(*c.total.Difference, q) + ")"
		}
		x.Claim = x.fill(words)
		return x
	case shown:
		x.Form = costClaim
	default:
		x.Form = openClaim
		words["settle"] = v.settle(c.total)
	}
	words["amount"] = amountWithin(*x.Amount, q)
	x.size, x.short, x.values = x.Amount.Estimate, signedWithin(*x.Amount, q), byBlock(v, tr.ID, figureOf(x.Metric))
	switch x.Form {
	case openClaim:
		words["amount"] = signedWithin(*x.Amount, q)
		x.short += ", no difference shown"
	case metered:
		x.short = words["amount"]
	}
	x.Claim = x.fill(words)
	return x
}

// restWords are the changes beside the data plane: "; the program itself changed by -96 ±469 µs, not distinguishable". of names the amount
// where the sentence has not: " of CPU a request".
func (v view) restWords(tr compare.Treatment, c costs, of string) (words string) {
	q := quantityOf(answerCost)
	if control, ok := v.r.Find(tr.ID, metric.Of(metric.CPUPerRequest, string(metric.Control))); ok && isShown(control.Verdict) && control.Difference.Estimate > 0 {
		words = fmt.Sprintf("; the control plane uses %s", amountWithin(*control.Difference, q))
	}
	switch {
	case c.app.Difference == nil || nothing(c.app.Difference) || c.app.Verdict == compare.Insufficient:
		return words
	case isShown(c.app.Verdict):
		return words + filled("; the program itself uses {amount}{of} {more}", inWords("", c.app.Verdict, sentenceWords{"of": of, "amount": amountWithin(*c.app.Difference, q)}))
	}
	return words + fmt.Sprintf("; the program itself changed by %s%s, not distinguishable", signedWithin(*c.app.Difference, q), of)
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

// onCost names the metric of a sentence without a verdict.
const onCost = " on CPU per request"

// insufficientWords is the reason for a comparison without a verdict: "no verdict: 11 of 13 blocks withheld: the generator sent late".
func insufficientWords(r *answer.Report, c compare.Comparison, on string) string {
	if reason := lostWords(r, c, 2); reason != "" {
		return "no verdict" + on + ": " + reason
	}
	if r.Method != compare.Paired && c.N == 1 {
		return "one run of each is too few for a verdict" + on
	}
	return "too few trials for a verdict" + on
}

// cureOf is what would bring a verdict: the hint of the reason why blocks have no pair, or more blocks. It is "" if unknown.
func cureOf(v view, c compare.Comparison) string {
	reason := lostWords(v.r, c, 1)
	if reason == "" && c.N < stats.MinN {
		return moreRuns(v)
	}
	for _, w := range Warnings(v.r) {
		if w.Hint != "" && strings.HasSuffix(reason, ": "+figures.Cause(w.Code)) {
			return " For a verdict: " + w.Hint + "."
		}
	}
	return ""
}

// enoughBlocks is the number of blocks to start with.
const enoughBlocks = 6

// moreRuns is how to get an interval after too few blocks or imported runs: " About 2 minutes would give an interval: `tare run …`."
func moreRuns(v view) string {
	if source, ok := strings.CutPrefix(v.r.Experiment, "imported-"); ok && v.r.Setup.Platform == compare.ImportPlatform {
		return fmt.Sprintf(" An interval needs %s runs of each: measure them in turn, and import all files: `tare import %s FILE…`.", numberWord(stats.MinN), source)
	}
	minutes := int(minutesOf(v.r, enoughBlocks))
	if minutes == 0 {
		return ""
	}
	return fmt.Sprintf(" About %s would give an interval: `%s`.", printable.Counted(minutes, "minute"), RunCommand(v.r.Directory, []string{fmt.Sprintf("blocks=%d", enoughBlocks)}))
}

// sidecarsOf puts the number of sidecars before the name of a mesh that is compared with no mesh: "Two envoy sidecars". A gateway
// that weigh made has its program: "The nginx gateway".
func sidecarsOf(v view, tr compare.Treatment, name string) string {
	if program, gateway := strings.CutPrefix(name, "gateway-"); gateway {
		program, rest, _ := strings.Cut(program, " ")
		return strings.TrimSpace("The " + program + " gateway " + rest)
	}
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
	case several(subject):
		after = "with them"
	}
	return fmt.Sprintf(": %s%s %s, %s%s %s (%s times)", fixed(first, d), q.unitText(), with(base), fixed(last, d), q.unitText(), after, timesWords(t.times()))
}

// threeDigits is a CPU time in a sentence: "549 µs".
func threeDigits(us float64) string {
	return fixed(us, 2-magnitude(us)) + quantityOf(answerCost).unitText()
}

// timesWords is a multiple with two digits, or with as many as show that it is not 1.
func timesWords(times float64) string {
	s, _ := apart(times, 1)
	return s
}

func totalsOf(v view, tr compare.Treatment) totals {
	scale := quantityOf(answerCost).scale
	with, without := paired(v, tr, figureOf(answerCost))
	if v.r.Method != compare.Paired || with == nil {
		return totals{v.treatment(tr.Baseline).Metrics[answerCost].Estimate * scale, tr.Metrics[answerCost].Estimate * scale}
	}
	return totals{stats.Mean(without) * scale, stats.Mean(with) * scale}
}

// paired are the values of a treatment and of its baseline in the blocks that have both.
func paired(v view, tr compare.Treatment, value valueOf) (with, without []float64) {
	return both(byBlock(v, tr.ID, value), byBlock(v, tr.Baseline, value))
}

// valueOf is a figure of a trial, from its metrics.
type valueOf func(metrics map[string]float64) (value float64, known bool)

// figureOf is the value of a metric.
func figureOf(name string) valueOf {
	return func(m map[string]float64) (value float64, known bool) { value, known = m[name]; return value, known }
}

// byBlock are the values of a treatment's valid trials.
func byBlock(v view, treatment string, value valueOf) map[int]float64 {
	all := map[int]float64{}
	for _, t := range v.r.Trials {
		if of, known := value(t.Metrics); known && t.Valid && t.Treatment == treatment {
			all[t.Block] = of
		}
	}
	return all
}

// both are the values of the blocks that both have.
func both(a, b map[int]float64) (x, y []float64) {
	for _, block := range slices.Sorted(maps.Keys(a)) {
		if of, known := b[block]; known {
			x, y = append(x, a[block]), append(y, of)
		}
	}
	return x, y
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

// sideEffect is a metric that a treatment changes beside the CPU of a request, and its name in the sentence.
type sideEffect struct {
	metric, name string
	forms        compared
}

// streamEffects replace the others for answers that stream: their response time is mostly the time of the messages.
var streamEffects = []sideEffect{
	{metric.Of(metric.FirstMessage, "p50"), "median time to the first message", compared{shown: medianMoves, open: medianOpen}},
	{metric.Of(metric.MessageGap, "mean"), "mean gap between messages", compared{shown: medianMoves, open: medianOpen}},
}

// effectClaims are the effects of a treatment on the median and on memory, or on the messages of a stream.
func effectClaims(v view, tr compare.Treatment) (all []Claim) {
	memory, of := answerMemory, "of the data plane"
	if ofApplications(v, tr) {
		memory, of = metric.Of(metric.Memory, "total"), "in all"
	}
	effects := []sideEffect{{answerMedian, "median response", compared{shown: medianMoves, open: medianOpen}}, {memory, of, compared{shown: memoryClaim}}}
	if _, streams := v.r.Find(tr.ID, streamEffects[0].metric); streams {
		effects = streamEffects
	}
	for _, effect := range effects {
		if c, ok := v.r.Find(tr.ID, effect.metric); ok {
			if x, ok := v.result(tr, c, effect.name, effect.forms); ok {
				all = append(all, x.Claim)
			}
		}
	}
	return all
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
	d := min(decimals(size, half, known), max(0, 2-magnitude(size)))
	if !known || half == 0 {
		return d
	}
	for d < 3 && fixed(half, d) == fixed(0, d) || d < 9 && size != half && fixed(size, d) == fixed(half, d) {
		d++
	}
	return d
}

// millicores is the CPU of work that goes on at any rate: per request it would depend on the rate.
var millicores = quantity{unit: "millicores", scale: 1000}

// leastSteady is the least share of steady work in the added CPU of a request, from which it has a claim of its own.
const leastSteady = 0.1

// steadyClaim is about work of a variant of a program that goes on without requests: the CPU of the processes beside the program, or what
// the program itself uses more. The CPU of a request is apart from it. There is none of other treatments.
func steadyClaim(v view, tr compare.Treatment) (c Claim, ok bool) {
	of, _ := costsOf(v, tr)
	name, cores := v.subject(tr), metric.Of(metric.CPUCores, string(metric.Data))
	words := inWords(name, compare.Higher, sentenceWords{"rate": rateWords(v, tr)})
	if used, known := v.r.Find(tr.ID, cores); known && ofApplications(v, tr) && addsData(v, tr, of.data) && used.Difference != nil {
		words["amount"], words["program"] = amountWithin(*used.Difference, millicores), v.restWords(tr, of, " of CPU a request")
		if idle, known := v.r.Find(tr.ID, metric.Of(metric.IdleCPU, string(metric.Data))); known && idle.Difference != nil && idle.Difference.Estimate > 0 {
			words["idle"] = " (" + amountWithin(*idle.Difference, quantity{scale: 1000}) + " without requests)"
		}
		return Claim{Form: besideClaim, Subject: tr.ID, Baseline: tr.Baseline, Metric: cores, Relation: compare.Higher, Amount: used.Difference}.fill(words), true
	}
	steady := metric.Of(metric.IdleCPU, "total")
	idle, known := v.r.Find(tr.ID, steady)
	waiting, _ := v.r.Find(tr.ID, metric.Of(metric.IdlePerRequest, "total"))
	idle = idle.Judged(v.r.Confidence)
	if !known || !ofApplications(v, tr) || idle.Verdict != compare.Higher || waiting.Difference == nil || of.total.Difference == nil || waiting.Difference.Estimate < leastSteady*of.total.Difference.Estimate {
		return c, false
	}
	with, without := paired(v, tr, func(m map[string]float64) (float64, bool) {
		all, known := m[answerCost]
		idle, apart := m[waiting.Metric]
		return all - idle, known && apart
	})
	work := stats.PairedDifference(with, without, v.r.Confidence)
	words["amount"], words["program"] = amountWithin(*idle.Difference, millicores), "no difference in its CPU is shown: "+signedWithin(work.Interval, quantityOf(answerCost))
	if work.Excludes(0) {
		more := compare.Higher
		if work.Estimate < 0 {
			more = compare.Lower
		}
		words["program"] = filled("it uses {amount} {more} CPU", inWords("", more, sentenceWords{"amount": amountWithin(work.Interval, quantityOf(answerCost))}))
	}
	return Claim{Form: steadyMore, Subject: tr.ID, Baseline: tr.Baseline, Metric: steady, Relation: idle.Verdict, Amount: idle.Difference}.fill(words), true
}

// rateWords are the rate of a variant of a program, for which its CPU per request holds: " at 50 requests/s". They are "" if its name has the
// rate, or if it is searched.
func rateWords(v view, tr compare.Treatment) string {
	rate, ok := tr.Factors[experiment.RateFactor].(float64)
	if !ok || !ofApplications(v, tr) || slices.Contains(v.label.factors, experiment.RateFactor) {
		return ""
	}
	return fmt.Sprintf(" at %s requests/s", Level(rate))
}
