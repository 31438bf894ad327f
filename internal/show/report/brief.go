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
		c := gateOf(r, d, settleWords(r, d))
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

// acrossBrief is the answer of a comparison of runs: the gate that matters most, or the first headline change.
func acrossBrief(a *compare.Across, exit int) answer.Brief {
	b := answer.Brief{Verdict: compare.Insufficient, Baseline: a.Base.Dir, ExitCode: exit, Sentence: "No headline metric is compared."}
	if n := len(a.BaseRuns); n > 1 {
		b.Baseline = printable.Counted(n, "base run")
	}
	l, words := acrossLabels(a), ""
	if len(a.Gates) > 0 {
		size := func(g compare.GateCheck) float64 {
			if g.Change == nil {
				return 0
			}
			return math.Abs(g.Change.Estimate)
		}
		g := slices.SortedStableFunc(slices.Values(a.Gates), func(x, y compare.GateCheck) int {
			return cmp.Or(outcomeRank[x.Outcome]-outcomeRank[y.Outcome], cmp.Compare(size(y), size(x)))
		})[0]
		b.Verdict, b.Subject, b.Metric, b.Unit, b.Difference = compare.Verdict(g.Outcome), g.Treatment, g.Metric, g.Unit, g.Change
		if g.Outcome == compare.Undecided {
			b.Reason = g.Why
		}
		if g.Change != nil {
			words = ": " + ChangeWords(compare.Decision{Change: g.Change, Unit: g.Unit, Metric: g.Metric})
		}
		b.Sentence = fmt.Sprintf("The gate “%s” %s for %s%s.", g.Gate, outcomeVerbs[g.Outcome], l.withControl(compare.Treatment{ID: g.Treatment, Factors: g.Factors}), words)
		return b
	}
	rank := func(c compare.Comparison) int {
		own := 0
		if c.Control || c.Runs != nil && c.Reference {
			own = 3
		}
		return own + verdictRank(c.Verdict)
	}
	shown := across{a: a}.shown()
	slices.SortStableFunc(shown, func(x, y compare.Comparison) int { return rank(x) - rank(y) })
	if len(shown) == 0 {
		b.Reason = b.Sentence
		return b
	}
	c := shown[0].Judged(a.Confidence)
	b.Verdict, b.Subject, b.Metric, b.Unit, b.Difference = c.Verdict, c.Treatment, c.Metric, c.Unit, c.Difference
	if c.Verdict == compare.Insufficient {
		b.Reason = "too few trials for a verdict"
	}
	b.Sentence = fmt.Sprintf("%s of %s: %s since %s, %s.", capital(quantityOf(c.Metric).name), l.withControl(compare.Treatment{ID: c.Treatment, Factors: c.Factors, Control: c.Control}),
		comparisonWords(c).Both(), b.Baseline, c.Verdict)
	return b
}

// sizesBrief is the answer of tare size: the first proxy's CPU and what to request.
func sizesBrief(s Sizes) answer.Brief {
	size := s.Sizes[0]
	b := answer.Brief{Verdict: answer.Predicted, Subject: SizedName(s, size), Metric: "cpu", Unit: "cores", Figure: &stats.Interval{Estimate: size.CPU.Estimate, Low: &size.CPU.NewLow, High: &size.CPU.NewHigh}}
	for _, f := range SizeFacts(s, size) {
		if f.Name == "requests" {
			b.Sentence = fmt.Sprintf("%s: requests %s.", SizedFor(s, size), f.Text)
		}
	}
	return b
}

// forecastsBrief is the answer of tare forecast: the CPU that the first mesh adds.
func forecastsBrief(f Forecasts) answer.Brief {
	x := f.Forecasts[0]
	b := answer.Brief{Verdict: answer.Predicted, Subject: f.label().describe(x.Factors), Baseline: "none", Metric: "cpu", Unit: "cores", Difference: intervalOf(x.CPU)}
	if x.Refused != "" {
		b.Verdict, b.Difference, b.Reason = compare.Insufficient, nil, strings.ReplaceAll(x.Refused, "\n", "; ")
	}
	fact := ForecastFacts(f, x)[0]
	b.Sentence = fmt.Sprintf("%s: %s %s.", ForecastFor(f, x), fact.Name, fact.Text)
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
