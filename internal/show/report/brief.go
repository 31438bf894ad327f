package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/stats"
)

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
