package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/stats"
)

// Claim is one statement of the answer. Text, pages, comments, the live screen and JSON have the same list.
type Claim struct {
	Form     ClaimForm `json:"form,omitzero"`      // "" of a part
	Subject  string    `json:"subject,omitempty"`  // treatment, or question
	Baseline string    `json:"baseline,omitempty"` // treatment of a difference, "" of a figure
	Metric   string    `json:"metric,omitempty"`   // or the target
	// Relation is the verdict of a comparison or a trend, the outcome of a gate or a target.
	Relation compare.Verdict `json:"relation,omitempty"`
	// Amount is the difference to the baseline with the interval of the verdict, OfRatio: the ratio. Without a baseline it is a figure.
	Amount  *stats.Interval `json:"amount,omitempty"`
	Unit    string          `json:"unit,omitempty"` // of the amount, "" for the metric's
	OfRatio bool            `json:"of_ratio,omitempty"`
	// AtMost is the upper bound of a time. Amount is then its lower bound.
	AtMost *float64 `json:"at_most,omitempty"`
	Reason string   `json:"reason,omitempty"` // for no verdict, or the code of a warning
	// Of are the parts: of several treatments or metrics. Their sentences are parts of the sentence.
	Of       []Claim `json:"of,omitempty"`
	Sentence string  `json:"sentence"`
}

// ClaimForm is the sentence form of a claim: two claims of one form differ in their parts only. {words} in braces are replaced, and
// {each} are the parts.
type ClaimForm struct{ Name, words string }

// MarshalText is the name.
func (f ClaimForm) MarshalText() ([]byte, error) { return []byte(f.Name), nil }

// Forms of claims.
var (
	otherWork       = ClaimForm{"other-work", "Warning: {message}. The figures compare different work."}
	executedMoved   = ClaimForm{"executions", "{subject} {does} {more} {name} than {base}: {change}, {is}{unit} instead of {was}{unit}."}
	executedOpen    = ClaimForm{"executions-undecided", "No difference in {name} is shown between {subject} and {base}: {change}, {is}{unit} instead of {was}{unit}.{settle}"}
	executedFew     = ClaimForm{"executions-no-verdict", "The {name} is {is}{unit} with {subject} and {was}{unit} with {base} ({change}): {reason}.{settle}"}
	executedEmpty   = ClaimForm{"executions-empty", "Executions are shorter than 5 ms, so that the time of an empty program is subtracted: {wall} of wall time, {cpu} of CPU time."}
	gateClaim       = ClaimForm{"gate", "The gate “{gate}” {outcome}: {change}{sides}.{settle}"}
	gatesClaim      = ClaimForm{"gates", "The other gates: {outcomes}."}
	gateDoubt       = ClaimForm{"gate-doubt", "Doubted: {doubt}. Without this doubt: {outcome}."}
	gateRemark      = ClaimForm{"gate-remark", ""}
	trendMemory     = ClaimForm{"trend-memory", "{subject}: {is} of memory at the end of a soak of {time}, {amount} an hour: {verdict}."}
	trendClaim      = ClaimForm{"trend", "At the end of a soak of {time}: {changing}."}
	trendNone       = ClaimForm{"trend-none", "At the end of a soak of {time} no{other} figure is shown to grow by over {share} % in its second half: {steady} of {all} are steady."}
	growthClaim     = ClaimForm{"growth", "{message}."}
	moneyClaim      = ClaimForm{"money", "{scenario}: {subject} {add} {amount} a month ({bill}).{settle}"}
	moneyOpen       = ClaimForm{"money-undecided", "{scenario}: no difference in money is shown for {subject}: {amount} a month ({bill})."}
	moneyUnknown    = ClaimForm{"money-unknown", "{scenario}: the money that {subject} {add} is unknown: {reason}.{settle}"}
	moneyNone       = ClaimForm{"money-none", "{scenario}: nothing can be priced, since no treatment has its added CPU."}
	failureClaim    = ClaimForm{"failures", "{requests}: {each}."}
	failuresClaim   = ClaimForm{"failures-arrivals", ""}
	failureNone     = ClaimForm{"failures-none", "{none}, with any {measured}."}
	arrivedClaim    = ClaimForm{"arrivals", "Requests that arrived at the services with faults, retries included, for each one sent: {each}."}
	targetClaim     = ClaimForm{"targets", ""}
	targetMissed    = ClaimForm{"targets-missed", "{open} of {all} missed: {targets}."}
	targetOpen      = ClaimForm{"targets-undecided", "{open} of {all} undecided, because the limit is between the observed bounds: {targets}."}
	targetsMet      = ClaimForm{"targets-met", "Every target was met in every {valid}."}
	changeFailed    = ClaimForm{"change-failures", "Failed requests during {one}: {each}.{blocks}"}
	changeNone      = ClaimForm{"change-no-failures", "No request failed during {one}. From {fewest} changes of each treatment: at most {bound} % of changes fail requests (95 % confidence)."}
	changeDropped   = ClaimForm{"change-dropped", "Connections that the server dropped during {one}: {each}."}
	changeMedian    = ClaimForm{"change-median", "Half of the {many} {reached} after {each}."}
	changeFew       = ClaimForm{"change-few", "Too few {many} for a median: {each}.{needs}"}
	changeUnlearned = ClaimForm{"change-unlearned", "Connections that {one} never reaches: {each}."}
	startApp        = ClaimForm{"start-app", "A started application answers after {each}."}
	startThrough    = ClaimForm{"start-through", "The first request through its sidecar, or to it without one, is answered after {each}."}
	slopeClaim      = ClaimForm{"slope", "Each {item} of {subject} adds {costs}."}
	slopeNone       = ClaimForm{"slope-not-shown", "No cost of a {item} is shown."}
	slopeCurved     = ClaimForm{"slope-curved", "The cost of a {item} depends on their number{costs}."}
	boundaryClaim   = ClaimForm{"boundary", "The data plane of {subject} uses {times} times as much CPU as {base}'s ({verdicts}).{cluster}"}
	stepsClaim      = ClaimForm{"steps", ""}
	stepsLarge      = ClaimForm{"steps-largest", "The most expensive: {each}."}
	stepsSmall      = ClaimForm{"steps-small", "Too small to measure here: {each}."}
	stepsOpen       = ClaimForm{"steps-undecided", "Not settled: {each}."}
	levelClaim      = ClaimForm{"levels", "Least CPU added to a request: {least}."}
	levelsApart     = ClaimForm{"two-levels", "{subject} {add} CPU {to}: {first} and {last}."}
	knownClaim      = ClaimForm{"known", "{subject}: the {name} is {each}."}
	outcomeMove     = ClaimForm{"outcome", "{name} from {was}{unit} to {is}{unit}."}
	metered         = ClaimForm{"metered", "{subject} {use} {amount} of CPU a request{program}{over}{totals}."}
	costClaim       = ClaimForm{"cost", "{subject} {add} {amount} of CPU {to}{over}{totals}.{parts}"}
	besideClaim     = ClaimForm{"beside", "{subject} {use} {amount} beside the program{rate}{idle}{program}."}
	steadyMore      = ClaimForm{"steady", "{subject} {use} {amount} more without requests; for a request{rate} {program}."}
	openClaim       = ClaimForm{"undecided", "{subject}: no difference in CPU per request is shown, compared with {run}{over}: {amount}.{settle}{parts}"}
	noVerdict       = ClaimForm{"no-verdict", "{subject}: {reason}.{settle}"}
	noVerdicts      = ClaimForm{"no-verdicts", ""}
	rankedHead      = ClaimForm{"ranking", "{base} a request needs {amount} of CPU{over}; {does}, least first:"}
	rankedApart     = ClaimForm{"ranking-differences", "CPU that each adds to a request, least first{over}:"}
	rankedRates     = ClaimForm{"ranking-rates", "The highest rate {base} is {is} requests/s; the others:"}
	rankedTimes     = ClaimForm{"ranking-times", "Response times against {base}, least first:"}
	rankedMemory    = ClaimForm{"ranking-memory", "Memory at the end of a soak of {time}, and its change an hour, the least first:"}
	rankedMoney     = ClaimForm{"ranking-money", "{scenario}: money that each adds a month, least first ({bill}):"}
	rankedRow       = ClaimForm{"ranked", "{subject}: {amount}{times}{against}{alike}"}
	rankedMore      = ClaimForm{"ranked-more", "{more} more are below"}
	medianMoves     = ClaimForm{"median", "The {name} goes from {was}{unit} to {is}{unit}, by {sign}{amount}."}
	medianOpen      = ClaimForm{"median-undecided", "No difference in the {name} is shown{ratio}."}
	memoryClaim     = ClaimForm{"memory", "Memory {name}: {amount} {more}{grows}."}
	timeClaim       = ClaimForm{"time", "{subject} {add} {amount} {from} the {name}: {was}{unit} {base}, {is}{unit} {with}."}
	timeOpen        = ClaimForm{"time-undecided", "{subject}: no difference in the {name} is shown{ratio}: {was}{unit} {base}, {is}{unit} {with}.{settle}"}
	timeNone        = ClaimForm{"time-no-verdict", "{subject}: the {name} is {was}{unit} {base}, {is}{unit} {with}. {reason}.{settle}"}
	rateMoved       = ClaimForm{"highest-rate", "With {subject} the highest rate is {change}: {is} requests/s{instead}{objective}."}
	rateOpen        = ClaimForm{"highest-rate-undecided", "With {subject} the highest rate is {is} requests/s{instead}{objective}: {change}.{settle}"}
	acrossMoved     = ClaimForm{"across", "{subject}: the {name} is {verdict}: {is}{unit}, before {was}{unit} ({change})."}
	acrossOpen      = ClaimForm{"across-undecided", "{subject}: no change of the {name} is shown: {is}{unit}, before {was}{unit} ({change})."}
	acrossFew       = ClaimForm{"across-no-verdict", "{subject}: the {name} is {is}{unit}, before {was}{unit} ({change}): {reason}."}
	acrossNone      = ClaimForm{"across-none", "The runs have no figure in common."}
	sizeClaim       = ClaimForm{"size", "Requests cpu {cpu}, memory {memory}; limits {limits}{replicas}{month}: {about}."}
	forecastClaim   = ClaimForm{"forecast", "{about}: {name} {cpu}, memory {memory}{month}."}
	forecastNone    = ClaimForm{"forecast-refused", "{about}: no forecast, because {reason}."}
	doubtClaim      = ClaimForm{"doubt", ""}
	unmeasuredClaim = ClaimForm{"not-measured", "Not measured, since no trial is valid: {each}."}
	fewClaim        = ClaimForm{"few-repetitions", "Only {number}{some}, too few for small differences: measure more blocks."}
	trustClaim      = ClaimForm{"trust", "{words}."}
	withheldClaim   = ClaimForm{"withheld", "{words}."}
	smallestClaim   = ClaimForm{"smallest", "{words}."}
)

// sentenceWords are the parts of a sentence by their names in the form.
type sentenceWords map[string]string

// inWords are the words of a form: a subject with the verbs of its number, and the direction of a verdict.
func inWords(subject string, verdict compare.Verdict, words sentenceWords) sentenceWords {
	s := "s"
	if several(subject) {
		s = ""
	}
	words["subject"], words["use"] = subject, "use"+s
	words["add"], words["to"], words["from"], words["more"] = "add"+s, "to a request", "to", "more"
	if verdict == compare.Lower {
		words["add"], words["to"], words["from"], words["more"] = "save"+s, "per request", "of", "less"
	}
	return words
}

// several reports whether a subject is more than one thing: "Two envoy sidecars", "All three features together".
func several(subject string) bool {
	return strings.Contains(subject+" ", " sidecars ") || strings.Contains(subject+" ", " together ")
}

var formPart = regexp.MustCompile(`\{[a-z]+\}`)

// filled is a form with its words. A part without words is left out.
func filled(form string, words sentenceWords) string {
	return formPart.ReplaceAllStringFunc(form, func(name string) string { return words[strings.Trim(name, "{}")] })
}

func (c Claim) fill(words sentenceWords) Claim {
	words["each"] = strings.Join(firstOf(sentencesOf(c.Of), mostAnswers), ", ")
	c.Sentence = filled(c.Form.words, words)
	return c
}

// part is a figure of a treatment in the words of a sentence.
func part(tr compare.Treatment, name string, amount stats.Interval, words string) Claim {
	return Claim{Subject: tr.ID, Metric: name, Amount: &amount, Sentence: words}
}

func partOf(c compare.Comparison, words string) Claim {
	return Claim{Subject: c.Treatment, Baseline: c.Baseline, Metric: c.Metric, Relation: c.Verdict, Amount: c.Difference, Sentence: words}
}

func sentencesOf(all []Claim) []string {
	return lists.Map(all, func(c Claim) string { return c.Sentence })
}

// together is one claim of several, whose sentences follow one another. There is none of none.
func together(form ClaimForm, of ...Claim) []Claim {
	if len(of) < 2 {
		return of
	}
	return []Claim{{Form: form, Of: of, Sentence: strings.Join(sentencesOf(of), " ")}}
}

// compared are the forms of a comparison's result: with a shown difference, without one, and without a verdict. There is no
// sentence of an empty form.
type compared struct{ shown, open, none ClaimForm }

// result is the result of a treatment's comparison by a metric, which has a name in the sentence.
func (v view) result(tr compare.Treatment, c compare.Comparison, name string, forms compared) (x row, ok bool) {
	c = c.Judged(v.r.Confidence)
	q, ofRate := quantityOf(c.Metric), c.Metric == metric.Capacity
	x = row{Claim: Claim{Form: forms.open, Subject: tr.ID, Baseline: tr.Baseline, Metric: c.Metric, Relation: c.Verdict, Amount: c.Ratio, OfRatio: true}, name: v.subject(tr), base: v.label.against(tr, v.r)}
	was, is := apart(v.treatment(tr.Baseline).Metrics[c.Metric].Estimate*q.scale, tr.Metrics[c.Metric].Estimate*q.scale)
	words := inWords(x.name, c.Verdict, sentenceWords{"name": name, "was": was, "is": is, "unit": q.unitText(), "base": with(x.base), "with": with(x.name), "ratio": ratioText(c.Ratio)})
	switch {
	case c.Difference == nil || c.Verdict == compare.Insufficient:
		x.Form, x.Reason, x.cure = forms.none, insufficientWords(v.r, c, ""), cureOf(v, c)
		x.why = insufficientWords(v.r, c, " on the "+cmp.Or(name, "highest rate"))
		x.short, words["reason"], words["change"], words["settle"] = x.Reason, capital(x.Reason), x.Reason, x.cure
	case !isShown(c.Verdict):
		x.short = "no difference shown" + ratioText(c.Ratio)
		words["settle"], words["change"] = v.settle(c), "no difference is shown"+ratioText(c.Ratio)
	case ofRate && c.Ratio != nil:
		x.Form, x.short, x.size = forms.shown, percentWords(*c.Ratio), math.Log(c.Ratio.Estimate)
		words["change"] = x.short
	default:
		x.Form, x.Amount, x.OfRatio, x.short, x.size = forms.shown, c.Difference, false, signedWithin(*c.Difference, q), c.Difference.Estimate
		words["amount"], words["sign"] = amountWithin(*c.Difference, q), map[bool]string{true: "-", false: "+"}[x.size < 0]
	}
	x.values = byBlock(v, tr.ID, figureOf(c.Metric))
	if growth := growingApart(v.r, c); growth != "" {
		words["grows"] = ", " + growth
	}
	if c.PairsLost == 0 || c.BlocksNeeded > 0 { // otherwise the ratio is not of these means
		words["instead"] = " instead of " + was + " " + with(x.base)
	}
	if objective := experiment.ObjectiveOf(tr.Factors[experiment.RateFactor]); objective != "" {
		words["objective"] = ", at " + objective
	}
	x.Claim = x.fill(words)
	return x, x.Form != ClaimForm{}
}

// percentWords are a ratio as a change: "87 % lower (84 to 90 %)".
func percentWords(of stats.Interval) string {
	half, known := of.HalfWidth()
	d := decimals(100*(of.Estimate-1), 100*half, known)
	percent := func(of float64) string {
		size := 100 * math.Abs(of-1)
		return fixed(size, min(d, max(0, 1-magnitude(size))))
	}
	s, from, to := percent(of.Estimate)+" % higher", of.Low, of.High
	if of.Estimate < 1 {
		s, from, to = percent(of.Estimate)+" % lower", to, from
	}
	if of.Known() {
		s += fmt.Sprintf(" (%s to %s %%)", percent(*from), percent(*to))
	}
	return s
}

// Claims are the statements of the answer in order: other work, the first result, the doubts about it, the next results, and the trials
// that count. There are none where nothing was compared.
func Claims(r *answer.Report) []Claim {
	if r.Method == compare.AsPublished {
		return nil
	}
	v := newView(r)
	found := results(v)
	if len(found) == 0 {
		return nil
	}
	first := firstResult(found)
	all, rest := otherAnswers(r), found[len(first):]
	unlike := len(all) > 0
	all = append(append(all, first...), emptyClaims(r)...)
	if unlike {
		return append(all, trustClaims(v, true)...)
	}
	doubted := doubtsOf(v, first)
	all = append(all, doubted...)
	all = append(all, rest[:afterFirst(rest)]...)
	return append(all, trustClaims(v, doubted != nil)...)
}

// afterFirst is the number of claims after the first result: of one result, or of two of the effects of one treatment, after dropped
// connections or after targets. A ranking is one result with its rows.
func afterFirst(rest []Claim) (n int) {
	results := 1
	if len(rest) > 1 && slices.Contains([]ClaimForm{trendMemory, medianMoves, medianOpen, changeDropped, targetClaim, targetMissed, targetOpen, targetsMet}, rest[0].Form) {
		results = 2
	}
	for n < len(rest) && (results > 0 || rest[n].isRow()) {
		if !rest[n].isRow() {
			results--
		}
		n++
	}
	return n
}

// isRow reports whether a claim is a row of a ranking.
func (c Claim) isRow() bool { return c.Form == rankedRow || c.Form == rankedMore }

// Answer are the sentences of the claims. Rows of a ranking are indented.
func Answer(r *answer.Report) (lines []string) {
	return lists.Map(Claims(r), func(c Claim) string { return map[bool]string{true: "  "}[c.isRow()] + c.Sentence })
}

// firstResult are the claims of the first result: of several treatments, all rows.
func firstResult(all []Claim) []Claim {
	for i, c := range all {
		if i > 0 && !c.isRow() {
			return all[:i]
		}
	}
	return all
}

// shortly begins a result that was printed before.
const shortly = "In short: "

// inShort are the claims of the first result in one.
func inShort(all []Claim) Claim {
	var rows []string
	for _, c := range firstResult(all)[1:] {
		amount, _, _ := strings.Cut(c.Sentence, ",")
		rows = append(rows, amount)
	}
	c := all[0]
	c.Sentence = shortly + c.Sentence
	if rows != nil {
		c.Sentence += " " + strings.Join(rows, ", ") + "."
	}
	return c
}

// settle is the command that would decide an undecided difference, with its minutes.
func (v view) settle(c compare.Comparison) string {
	blocks, does := 4*v.r.Count.Blocks, "halve this interval"
	if c.BlocksNeeded > 0 {
		blocks, does = c.BlocksNeeded, "settle it"
	}
	minutes := int(minutesOf(v.r, blocks))
	if minutes == 0 {
		return ""
	}
	return fmt.Sprintf(" About %s would %s: `%s`.", printable.Counted(minutes, "minute"), does, RunCommand(v.r.Directory, []string{fmt.Sprintf("blocks=%d", blocks)}))
}

// minutesOf is the time that a number of blocks takes, 0 if unknown.
func minutesOf(r *answer.Report, blocks int) float64 {
	n, setup := r.Count.Blocks, r.Setup
	if r.Method != compare.Paired || n == 0 || setup.FirstStart == nil || setup.LastEnd == nil {
		return 0
	}
	return max(1, math.Ceil(setup.LastEnd.Sub(*setup.FirstStart).Minutes()/float64(n)*float64(blocks)))
}

// signedWithin is a difference with its interval: "-96 ±469 µs", or "+54 µs (-143 to +236)".
func signedWithin(i stats.Interval, q quantity) string {
	size, within := difference(i, q.scale), bounds(i, q.scale, signed)
	switch {
	case within == "":
		return size + q.differenceUnit()
	case symmetric(i):
		return size + " " + within + q.differenceUnit()
	}
	return fmt.Sprintf("%s%s (%s)", size, q.differenceUnit(), within)
}

// ratioText is a ratio with the interval of its verdict: " (ratio 1.10x, 0.92 to 1.31)".
func ratioText(i *stats.Interval) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.TrimSuffix(strings.Replace("ratio "+ratioWithin(*i), " (", ", ", 1), ")"))
}

// BriefOf is the answer of a report: the gate that matters most, or the first result. exit is the exit code of the command.
func BriefOf(r *answer.Report, exit int) answer.Brief {
	b, all := answer.Brief{Verdict: compare.Insufficient, ExitCode: exit}, Claims(r)
	for len(all) > 0 && all[0].Form == otherWork {
		b.Reason, all = all[0].Reason, all[1:]
	}
	switch {
	case len(r.Decisions) > 0:
		d := gatesByOutcome(r)[0]
		c := gateOf(newView(r), d, settleWords(r, d))
		b.Reason = cmp.Or(b.Reason, openReason(d))
		if d.Outcome == compare.Undecided && d.Doubts == nil {
			b.Minutes = math.Ceil(d.Minutes)
		}
		briefly(&b, c, c.Sentence)
	case len(all) > 0:
		c := all[0]
		if rows := firstResult(all); len(rows) > 1 {
			c = rows[1]
		}
		for c.Relation == "" && c.Amount == nil && len(c.Of) > 0 {
			c = c.Of[0]
		}
		if found, ok := r.Find(c.Subject, c.Metric); ok && found.BlocksNeeded > 0 && c.Relation == compare.NotShown {
			b.Minutes = minutesOf(r, found.BlocksNeeded)
		}
		briefly(&b, c, strings.TrimPrefix(inShort(all).Sentence, shortly))
	case r.Method == compare.AsPublished:
		b.Sentence, b.Verdict = "Figures as they were published: nothing is compared.", answer.Measured
	default:
		b.Sentence = Unanswered(r)
		b.Reason = cmp.Or(b.Reason, b.Sentence)
	}
	for _, e := range r.Expectations {
		if e.Held < e.N && b.Reason == "" {
			b.Reason = e.Expect + ": " + e.Detail
		}
	}
	if n := r.Count.Failed + r.Count.Invalid; n > 0 && b.Reason == "" {
		b.Reason = fmt.Sprintf("%d of %s failed or are invalid", n, printable.Counted(r.Count.Planned, "trial"))
	}
	return b
}

// briefly takes over a claim.
func briefly(b *answer.Brief, c Claim, sentence string) {
	b.Sentence, b.Subject, b.Baseline, b.Metric, b.Unit, b.OfRatio = sentence, c.Subject, c.Baseline, c.Metric, c.Unit, c.OfRatio
	b.Verdict, b.Reason = cmp.Or(c.Relation, answer.Measured), cmp.Or(b.Reason, c.Reason)
	if m, ok := metric.Lookup(c.Metric); ok && b.Unit == "" && !b.OfRatio {
		b.Unit = m.Unit
	}
	amount := c.Amount
	if amount != nil && c.AtMost != nil {
		amount = &stats.Interval{Estimate: amount.Estimate, Low: &amount.Estimate, High: c.AtMost}
	}
	if b.Figure = amount; c.Baseline != "" {
		b.Figure, b.Difference = nil, amount
	}
}

// openReason is why a gate is undecided, "" of others.
func openReason(d compare.Decision) string {
	switch {
	case d.Outcome != compare.Undecided:
		return ""
	case d.Doubts != nil:
		return d.Doubts[0]
	case d.Why != "":
		return d.Why
	case d.MorePairs > 0:
		return fmt.Sprintf("%d of %d pairs", d.Pairs, d.Pairs+d.MorePairs)
	}
	return "the difference is close to the limit"
}

// briefOfClaim is the answer of a command whose result begins with a claim.
func briefOfClaim(c Claim, exit int) answer.Brief {
	b := answer.Brief{ExitCode: exit}
	briefly(&b, c, c.Sentence)
	return b
}

func intervalOf(a predict.Amount) *stats.Interval {
	return &stats.Interval{Estimate: a.Estimate, Low: &a.Low, High: &a.High}
}

// WriteAnswered writes a result as JSON, its answer before its own fields.
func WriteAnswered(w io.Writer, b answer.Brief, v any) error {
	parts := [2]bytes.Buffer{}
	for i, of := range []any{b, v} {
		if err := writeJSON(&parts[i], of); err != nil {
			return err
		}
	}
	own := bytes.TrimSpace(parts[1].Bytes())[1:] // after its brace
	text := slices.Concat([]byte(`{"answer":`), bytes.TrimSpace(parts[0].Bytes()))
	if rest := bytes.TrimSpace(own); rest[0] != '}' {
		text = append(text, ',')
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append(text, own...), "", "  "); err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err := out.WriteTo(w)
	return err
}
