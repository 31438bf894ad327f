package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
)

// writeComment writes the gates as the comment of a pull request: the outcome, a table of gates, what differs, and the
// whole report folded.
func writeComment(w io.Writer, r *answer.Report) error {
	p := newPage(Options{}, true, "###")
	p.heading("tare: " + OutcomesInWords(r.Decisions))
	for _, s := range otherAnswers(r) {
		p.prose(s.Sentence)
		p.line("")
	}
	gatesTable(p, r.Decisions)
	gateRemarks(p, r)
	if len(r.Decisions) > 0 {
		p.line("")
	}
	differing(p, r)
	p.prose(trialsSentence(text{page: p, view: newView(r)}) + ". " + errorSentence(r))
	for _, s := range warningLines(r) {
		p.item(s)
	}
	p.line("\n<details><summary>Report</summary>\n")
	if err := p.writeTo(w, "comment"); err != nil {
		return err
	}
	if err := writeMarkdown(w, r, Options{}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n</details>\n")
	return err
}

// OutcomesInWords counts gates by outcome: "1 gate breached, 2 gates hold".
func OutcomesInWords(decisions []compare.Decision) string {
	count := map[compare.Outcome]int{}
	for _, d := range decisions {
		count[d.Outcome]++
	}
	var words []string
	for _, o := range []compare.Outcome{compare.Breached, compare.Undecided, compare.Holds} {
		if n := count[o]; n > 1 && o == compare.Holds {
			words = append(words, fmt.Sprintf("%d gates hold", n))
		} else if n > 0 {
			words = append(words, printable.Counted(n, "gate")+" "+string(o))
		}
	}
	if words == nil {
		return "no gates"
	}
	return strings.Join(words, ", ")
}

func gatesTable(p *page, decisions []compare.Decision) {
	if len(decisions) == 0 {
		return
	}
	g := gridOf([]int{0, 1}, "gate", "result", "change", "from A to B", "pairs")
	for _, d := range decisions {
		change := unknown
		if d.Change != nil {
			change = ChangeWords(d)
		}
		g.row(gateWords(d), string(d.Outcome), change, sides(d), fmt.Sprintf("%d of %d", d.Pairs, d.Max))
	}
	p.table(g, 1)
	if p.markdown { // a list follows
		p.line("")
	}
}

// sides are the means of both treatments of a gate: "707 → 737 µs".
func sides(d compare.Decision) string {
	if d.A == nil || d.B == nil {
		return unknown
	}
	q := quantityOf(d.Metric)
	return fmt.Sprintf("%s → %s%s", rough(*d.A*q.scale), rough(*d.B*q.scale), q.unitText())
}

// gateRemarks are the lines about decisions beyond their outcomes and changes. With several gates each line has its gate.
func gateRemarks(p *page, r *answer.Report) {
	sides := ""
	for _, d := range r.Decisions {
		if s := fmt.Sprintf("A is %s, B is %s.", d.Baseline, d.Treatment); s != sides {
			sides = s
			p.item(s)
		}
		for _, s := range decisionLines(r, d)[2:] {
			if len(r.Decisions) > 1 {
				s = gateWords(d) + ": " + s
			}
			p.item(s)
		}
	}
}
