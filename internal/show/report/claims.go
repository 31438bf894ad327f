package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
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
	knownClaim    ClaimForm = "known"
	outcomeClaim  ClaimForm = "outcome"
	metered       ClaimForm = "metered"
	meteredOf     ClaimForm = "metered-total"
	addedClaim    ClaimForm = "added"
	savedClaim    ClaimForm = "saved"
	openClaim     ClaimForm = "undecided"
	noVerdict     ClaimForm = "no-verdict"
	rankedHead    ClaimForm = "ranking"
	rankedRow     ClaimForm = "ranked"
	medianMoves   ClaimForm = "median"
	medianOpen    ClaimForm = "median-undecided"
	memoryMore    ClaimForm = "memory-more"
	memoryLess    ClaimForm = "memory-less"
	timeAdded     ClaimForm = "time-added"
	timeSaved     ClaimForm = "time-saved"
	timeOpen      ClaimForm = "time-undecided"
	timeNone      ClaimForm = "time-no-verdict"
	rateMoved     ClaimForm = "highest-rate"
	rateOpen      ClaimForm = "highest-rate-undecided"
	doubtClaim    ClaimForm = "doubt"
	trustClaim    ClaimForm = "trust"
)

// sentences are the forms in words. {words} in braces are replaced.
var sentences = map[ClaimForm]string{
	metered:     "{subject} {use} {amount} of CPU a request{program}{over}.",
	meteredOf:   "{subject} {use} {amount} of CPU a request{program}{over}{totals}.",
	addedClaim:  "{subject} {add} {amount} of CPU to a request{over}{totals}.{parts}",
	savedClaim:  "{subject} {save} {amount} of CPU per request{over}{totals}.{parts}",
	openClaim:   "{subject}: no difference in CPU per request is shown, compared with {run}{over}: {amount}.{settle}{parts}",
	noVerdict:   "{subject}: {reason}.",
	medianMoves: "The median response goes from {from} to {to}, by {amount}.",
	medianOpen:  "No difference in the median response is shown{ratio}.",
	memoryMore:  "Memory{of}: {amount} more{grows}.",
	memoryLess:  "Memory{of}: {amount} less{grows}.",
	timeAdded:   "{subject} adds {amount} to the {name}: {both}.",
	timeSaved:   "{subject} saves {amount} of the {name}: {both}.",
	timeOpen:    "{subject}: no difference in the {name} is shown{ratio}: {both}.{settle}",
	timeNone:    "{subject}: the {name} is {both}. No verdict: {reason}.",
	rateMoved:   "With {subject} the highest rate is {change}: {rates}.",
	rateOpen:    "With {subject} the highest rate is {rates}: {change}.{settle}",
	moneyClaim:  "{scenario}: {subject} adds {amount} a month ({bill}).",
	rankedRow:   "{subject}: {amount}{times}{against}",
}

// sentenceWords are the parts of a sentence by their names in the form.
type sentenceWords map[string]string

// fill makes the sentence of a claim. A part without words is left out.
func (c Claim) fill(words sentenceWords) Claim {
	s := sentences[c.Form]
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{")
		b.WriteString(before)
		if !found {
			break
		}
		name, after, _ := strings.Cut(rest, "}")
		b.WriteString(words[name])
		s = after
	}
	c.Sentence = b.String()
	return c
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
