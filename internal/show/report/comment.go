package report

import (
	"fmt"
	"io"
	"slices"
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
	t := text{page: p, view: newView(r)}
	for _, s := range otherAnswers(r) {
		p.prose(s.Sentence)
		p.line("")
	}
	gatesTable(t)
	gateRemarks(t)
	if len(r.Decisions) > 0 {
		p.line("")
	}
	differing(t)
	p.prose(trialsSentence(t) + ". " + errorSentence(r))
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

// gatesTable has a row for each gate. Gates on several treatments have theirs.
func gatesTable(t text) {
	p, decisions := t.page, t.view.r.Decisions
	if len(decisions) == 0 {
		return
	}
	heads, labels := []string{"gate", "result", "change", "from A to B", "pairs"}, 1
	if severalSides(decisions) {
		heads, labels = slices.Insert(heads, 1, "B"), 2
	}
	g := gridOf([]int{0, 1, 2}[:labels+1], heads...)
	for _, d := range decisions {
		change := unknown
		if d.Change != nil {
			change = ChangeWords(d)
		}
		row := []string{gateWords(d), string(d.Outcome), change, sides(d), fmt.Sprintf("%d of %d", d.Pairs, d.Max)}
		if labels > 1 {
			row = slices.Insert(row, 1, nameOf(t.view, d.Treatment))
		}
		g.row(row...)
	}
	p.table(g, labels)
	if p.markdown { // a list follows
		p.line("")
	}
}

// severalSides reports whether gates are about several treatments.
func severalSides(decisions []compare.Decision) bool {
	return slices.ContainsFunc(decisions, func(d compare.Decision) bool {
		return d.Treatment != decisions[0].Treatment || d.Baseline != decisions[0].Baseline
	})
}

// sides are the means of both treatments of a gate: "707 → 737 µs".
func sides(d compare.Decision) string {
	if d.A == nil || d.B == nil {
		return unknown
	}
	q := quantityOf(d.Metric)
	return fmt.Sprintf("%s → %s%s", rough(*d.A*q.scale), rough(*d.B*q.scale), q.unitText())
}

// gateRemarks are the lines about decisions beyond their outcomes and changes. A line of several gates is there once, with their number.
func gateRemarks(t text) {
	p, v, all := t.page, t.view, t.view.r.Decisions
	if len(all) == 0 {
		return
	}
	switch baseline := all[0].Baseline; {
	case !severalSides(all):
		p.item(fmt.Sprintf("A is %s, B is %s.", nameOf(v, baseline), nameOf(v, all[0].Treatment)))
	case !slices.ContainsFunc(all, func(d compare.Decision) bool { return d.Baseline != baseline }):
		p.item("A is " + nameOf(v, baseline) + ".")
	default:
		p.item("A is the baseline of B: " + printable.Listed(pairsOfSides(v, all), 4) + ".")
	}
	of, lines := map[string][]string{}, []string{}
	for _, d := range all {
		for _, line := range decisionLines(v, d)[2:] {
			if of[line] == nil {
				lines = append(lines, line)
			}
			name := gateWords(d)
			if severalSides(all) {
				name += " of " + nameOf(v, d.Treatment)
			}
			of[line] = append(of[line], name)
		}
	}
	for _, line := range lines {
		switch gates := of[line]; {
		case len(all) == 1:
			p.item(line)
		case len(gates) == len(all):
			p.item(fmt.Sprintf("All %d gates: %s", len(all), line))
		case len(gates) == 1:
			p.item(gates[0] + ": " + line)
		default:
			p.item(fmt.Sprintf("%d of %d gates (%s): %s", len(gates), len(all), printable.Listed(gates, 3), line))
		}
	}
}

// pairsOfSides are the sides of gates, each pair once: "none-rate100 of envoy-rate100".
func pairsOfSides(v view, decisions []compare.Decision) (all []string) {
	for _, d := range decisions {
		if s := nameOf(v, d.Baseline) + " of " + nameOf(v, d.Treatment); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
