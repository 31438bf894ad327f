package report

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Claim is one statement of the answer. Text, pages, comments, the live screen and JSON have the same list.
type Claim struct {
	Form     ClaimForm `json:"form"`
	Subject  string    `json:"subject,omitempty"`  // treatment
	Baseline string    `json:"baseline,omitempty"` // treatment
	Metric   string    `json:"metric,omitempty"`
	// Relation is the verdict that the sentence expresses.
	Relation compare.Verdict `json:"relation,omitempty"`
	// Amount is the difference to the baseline in the metric's unit, with the interval of the verdict. OfRatio: it is the ratio.
	Amount   *stats.Interval `json:"amount,omitempty"`
	OfRatio  bool            `json:"of_ratio,omitempty"`
	Reason   string          `json:"reason,omitempty"` // for no verdict
	Sentence string          `json:"sentence"`
}

// ClaimForm is the sentence form of a claim: two claims of one form differ in their parts only.
type ClaimForm string

// Forms of claims.
const (
	otherWork     ClaimForm = "other-work"
	gateClaim     ClaimForm = "gate"
	trendClaim    ClaimForm = "trend"
	moneyClaim    ClaimForm = "money"
	failureClaim  ClaimForm = "failures"
	changeClaim   ClaimForm = "change"
	startClaim    ClaimForm = "start"
	slopeClaim    ClaimForm = "slope"
	boundaryClaim ClaimForm = "boundary"
	ladderClaim   ClaimForm = "ladder"
	levelClaim    ClaimForm = "levels"
	levelsApart   ClaimForm = "levels-apart"
	knownClaim    ClaimForm = "known"
	outcomeMove   ClaimForm = "outcome"
	metered       ClaimForm = "metered"
	costClaim     ClaimForm = "cost"
	openClaim     ClaimForm = "undecided"
	noVerdict     ClaimForm = "no-verdict"
	rankedHead    ClaimForm = "ranking"
	rankedRow     ClaimForm = "ranked"
	medianMoves   ClaimForm = "median"
	medianOpen    ClaimForm = "median-undecided"
	memoryClaim   ClaimForm = "memory"
	timeClaim     ClaimForm = "time"
	timeOpen      ClaimForm = "time-undecided"
	timeNone      ClaimForm = "time-no-verdict"
	rateMoved     ClaimForm = "highest-rate"
	rateOpen      ClaimForm = "highest-rate-undecided"
	doubtClaim    ClaimForm = "doubt"
	trustClaim    ClaimForm = "trust"
)

// sentences are the forms in words. {words} in braces are replaced.
var sentences = map[ClaimForm]string{
	metered:     "{subject} {use} {amount} of CPU a request{program}{over}{totals}.",
	costClaim:   "{subject} {add} {amount} of CPU {to}{over}{totals}.{parts}",
	levelsApart: "{subject} {add} CPU {to}: {first} and {last}.",
	openClaim:   "{subject}: no difference in CPU per request is shown, compared with {run}{over}: {amount}.{settle}{parts}",
	noVerdict:   "{subject}: {reason}.",
	medianMoves: "The median response goes from {was}{unit} to {is}{unit}, by {sign}{amount}.",
	medianOpen:  "No difference in the median response is shown{ratio}.",
	memoryClaim: "Memory {name}: {amount} {more}{grows}.",
	timeClaim:   "{subject} {add} {amount} {from} the {name}: {was}{unit} {base}, {is}{unit} {with}.",
	timeOpen:    "{subject}: no difference in the {name} is shown{ratio}: {was}{unit} {base}, {is}{unit} {with}.{settle}",
	timeNone:    "{subject}: the {name} is {was}{unit} {base}, {is}{unit} {with}. {reason}.",
	outcomeMove: "{name} from {was}{unit} to {is}{unit}.",
	rateMoved:   "With {subject} the highest rate is {change}: {is} requests/s{instead}{objective}.",
	rateOpen:    "With {subject} the highest rate is {is} requests/s{instead}{objective}: {change}.{settle}",
	moneyClaim:  "{scenario}: {subject} adds {amount} a month ({bill}).",
	rankedRow:   "{subject}: {amount}{times}{against}",
}

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

// formPart is a part of a sentence form.
var formPart = regexp.MustCompile(`\{[a-z]+\}`)

// filled is a form with its words. A part without words is left out.
func filled(form string, words sentenceWords) string {
	return formPart.ReplaceAllStringFunc(form, func(name string) string { return words[strings.Trim(name, "{}")] })
}

// fill makes the sentence of a claim.
func (c Claim) fill(words sentenceWords) Claim {
	c.Sentence = filled(sentences[c.Form], words)
	return c
}

// compared are the forms of a comparison's result: with a shown difference, without one, and without a verdict. There is no
// sentence of "".
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
		x.Form, x.Reason, x.short = forms.none, insufficientWords(v.r, c, ""), "no verdict"
		words["reason"], words["change"] = capital(x.Reason), x.Reason
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
	return x, x.Form != ""
}

// percentWords are a ratio as a change: "87 % lower (84 to 90 %)".
func percentWords(of stats.Interval) string {
	percent := func(of float64) string { return rough(100 * math.Abs(of-1)) }
	s, from, to := percent(of.Estimate)+" % higher", of.Low, of.High
	if of.Estimate < 1 {
		s, from, to = percent(of.Estimate)+" % lower", to, from
	}
	if of.Known() {
		s += fmt.Sprintf(" (%s to %s %%)", percent(*from), percent(*to))
	}
	return s
}

// plain are claims of one form with finished sentences.
func plain(form ClaimForm, lines ...string) (all []Claim) {
	for _, line := range lines {
		if line != "" {
			all = append(all, Claim{Form: form, Sentence: line})
		}
	}
	return all
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
	first := 1
	for first < len(found) && found[first].Form == rankedRow {
		first++
	}
	all, rest := otherAnswers(r), found[first:]
	unlike := len(all) > 0
	all = append(all, found[:first]...)
	if unlike {
		return append(all, trustClaims(v)...)
	}
	doubts := plain(doubtClaim, doubtsOf(v)...)
	all = append(all, doubts...)
	all = append(all, rest[:min(len(rest), afterFirst(rest))]...)
	return append(all, trustClaims(v)...)
}

// afterFirst is the number of results after the first one: one, or two of the effects of one treatment.
func afterFirst(rest []Claim) int {
	if len(rest) > 1 && (rest[0].Form == medianMoves || rest[0].Form == medianOpen) {
		return 2
	}
	return 1
}

// Answer are the sentences of the claims. Rows of a ranking are indented.
func Answer(r *answer.Report) (lines []string) {
	for _, c := range Claims(r) {
		lines = append(lines, map[bool]string{true: "  "}[c.Form == rankedRow]+c.Sentence)
	}
	return lines
}

// firstResult are the claims of the first result: of several treatments, all rows.
func firstResult(all []Claim) []Claim {
	for i, c := range all {
		if i > 0 && c.Form != rankedRow {
			return all[:i]
		}
	}
	return all
}

// inShort are the claims of the first result in one.
func inShort(all []Claim) Claim {
	var rows []string
	for _, c := range firstResult(all)[1:] {
		amount, _, _ := strings.Cut(c.Sentence, ",")
		rows = append(rows, amount)
	}
	c := all[0]
	c.Sentence = "In short: " + c.Sentence
	if rows != nil {
		c.Sentence += " " + strings.Join(rows, ", ") + "."
	}
	return c
}

// settle is the command that would decide an undecided difference, with its minutes.
func (v view) settle(c compare.Comparison) string {
	n, setup := v.r.Count.Blocks, v.r.Setup
	if v.r.Method != compare.Paired || n == 0 || setup.FirstStart == nil || setup.LastEnd == nil {
		return ""
	}
	blocks, does := 4*n, "halve this interval"
	if c.BlocksNeeded > 0 {
		blocks, does = c.BlocksNeeded, "settle it"
	}
	minutes := int(math.Ceil(setup.LastEnd.Sub(*setup.FirstStart).Minutes() / float64(n) * float64(blocks)))
	return fmt.Sprintf(" About %s would %s: `tare run experiment.yaml --set blocks=%d`.", printable.Counted(max(1, minutes), "minute"), does, blocks)
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
