package report

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/stats"
)

// outcomeStyles are the colours of outcomes.
var outcomeStyles = map[compare.Outcome]string{compare.Holds: green, compare.Breached: red, compare.Undecided: yellow}

// outcomeVerbs are outcomes as verbs.
var outcomeVerbs = map[compare.Outcome]string{compare.Holds: "holds", compare.Breached: "is breached", compare.Undecided: "is undecided"}

// decisionSection is a table of the gates that end a run, with remarks on each.
func decisionSection(t text) {
	if len(t.view.r.Decisions) == 0 {
		return
	}
	t.page.heading(strings.TrimSuffix(fmt.Sprintf("Gates (%s)", pairsWords(t.view.r.Decisions)), " ()"))
	gatesTable(t)
	gateRemarks(t)
}

// unseenLevel is the probability that blocks of another kind are more frequent than printed, though no pair shows them.
const unseenLevel = 0.05

// ChangeWords are a change with its interval, and the mark of memory that was still growing: "+6.4 % (+3.1 to +9.8)".
func ChangeWords(d compare.Decision) string {
	return spaced(changeInterval(d), growthMark(d.MemoryGrowth))
}

func changeInterval(d compare.Decision) string {
	q := quantityOf(d.Metric)
	unit := q.differenceUnit()
	if d.Unit == "%" {
		q.scale, unit = 1, " %"
	}
	half, known := d.Change.HalfWidth()
	allowed := decimals(d.Change.Estimate*q.scale, half*q.scale, known)
	write := func(v float64) string {
		switch v *= q.scale; {
		case d.Unit == "%":
			return signed(v, min(1, allowed))
		case v == math.Trunc(v):
			return signed(v, min(0, allowed))
		}
		return signed(v, max(min(0, allowed), 1-magnitude(v)))
	}
	s := write(d.Change.Estimate) + unit
	if d.Change.Known() {
		s += fmt.Sprintf(" (%s to %s)", write(*d.Change.Low), write(*d.Change.High))
	}
	return s
}

func writeDecision(w io.Writer, r *answer.Report, o Options) error {
	t := text{page: newPage(Options{Width: o.Width}, false, ""), view: newView(r)}
	for _, s := range otherAnswers(r) {
		t.page.prose(s.Sentence)
	}
	said := map[string]bool{}
	for _, d := range gatesByOutcome(r) {
		for _, s := range decisionLines(t.view, d) {
			t.page.prose(s)
		}
		for _, c := range effectClaims(t.view, t.view.treatment(d.Treatment)) { // beside the CPU: the response time
			if c.Metric != d.Metric && !said[c.Sentence] {
				t.page.prose(c.Sentence)
			}
			said[c.Sentence] = true
		}
	}
	executedSection(t)
	if len(r.Decisions) == 0 {
		t.page.prose("No gates: write decide in the experiment file, or use tare ab.")
	}
	t.page.line("")
	differing(t)
	t.page.prose(trialsSentence(t) + ".")
	t.page.prose(errorSentence(r))
	for _, s := range warningLines(r) {
		t.page.prose(s)
	}
	return t.page.writeTo(w, "decision")
}

// differing lists the differences between the configurations of both sides.
func differing(t text) {
	p := t.page
	for _, c := range t.view.r.Configurations {
		p.prose(fmt.Sprintf("What differs between %s and %s:", nameOf(t.view, c.A), nameOf(t.view, c.B)))
		for _, s := range ConfigurationLines(c) {
			p.item(s)
		}
		if p.markdown {
			p.line("")
		}
	}
}

// doubtingWarnings are about the pairs of all decisions of a run.
var doubtingWarnings = []string{"pairs-dependent", "effect-drifts", "outlier-block"}

// notWarm is the warning of programs that need more CPU for a request than later.
const notWarm = "not-warm"

// errorSentence is the error of the decisions, or the doubt of it.
func errorSentence(r *answer.Report) string {
	doubted := func(codes ...string) bool {
		return slices.ContainsFunc(r.Decisions, func(d compare.Decision) bool {
			return slices.ContainsFunc(d.Doubts, func(doubt string) bool {
				code, _, _ := strings.Cut(doubt, ": ")
				return slices.Contains(codes, code)
			})
		})
	}
	switch {
	case doubted(doubtingWarnings...), slices.ContainsFunc(gateWarnings(r), func(w figures.Warning) bool { return slices.Contains(doubtingWarnings, w.Code) }):
		return "The error of these intervals is unknown: blocks depend on one another, the difference drifts, or one block differs from all others."
	case doubted(notWarm):
		return "Intervals are of programs that were not warm: warm ones may differ less, or more."
	}
	return "Each end of an interval is wrong with probability 5 % at most, however often the gates were checked, if blocks are independent and alike."
}

// outcomeRank puts what does not hold first.
var outcomeRank = map[compare.Outcome]int{compare.Breached: 0, compare.Undecided: 1, compare.Holds: 2}

func gatesByOutcome(r *answer.Report) []compare.Decision {
	return slices.SortedStableFunc(slices.Values(r.Decisions), func(a, b compare.Decision) int { return outcomeRank[a.Outcome] - outcomeRank[b.Outcome] })
}

// gateClaims are the gates in at most two claims, those that do not hold first. There are none without gates.
func gateClaims(v view) (all []Claim) {
	ordered := gatesByOutcome(v.r)
	all = lists.Map(ordered, func(d compare.Decision) Claim {
		words := settleWords(v.r, d)
		if len(ordered) > 1 || d.Pairs == 0 { // one alone has a claim about it
			words = cmp.Or(words, openWords(v, d))
		}
		return gateOf(v, d, words)
	})
	switch len(all) {
	case 0, 2:
		return all
	case 1:
	default:
		return append(all[:1:1], Claim{Form: gatesClaim, Of: all[1:]}.fill(sentenceWords{"outcomes": OutcomesInWords(ordered[1:])}))
	}
	first, second := ordered[0], all[0]
	second.Amount = nil
	switch {
	case first.Doubts != nil:
		second.Form, second.Relation = gateDoubt, compare.Verdict(first.Doubted)
		second.Reason, _, _ = strings.Cut(first.Doubts[0], ": ")
		return append(all, second.fill(sentenceWords{"doubt": figures.Cause(second.Reason), "outcome": string(first.Doubted)}))
	case first.Pairs == 0 || first.Outcome == compare.Holds || first.Outcome == compare.Undecided && first.MorePairs > 0: // the sentence has what would settle it
	case len(decisionLines(v, first)) > 2:
		second.Form, second.Reason, second.Sentence = gateRemark, first.Why, decisionLines(v, first)[2]
		return append(all, second)
	}
	return all
}

// openWords are why a gate is undecided that more pairs would not settle: " No pair: the peak of memory is too small."
func openWords(v view, d compare.Decision) string {
	switch {
	case d.Outcome != compare.Undecided:
	case d.Doubts != nil:
		code, _, _ := strings.Cut(d.Doubts[0], ": ")
		return " " + filled(gateDoubt.words, sentenceWords{"doubt": figures.Cause(code), "outcome": string(d.Doubted)})
	case d.Why != "":
		return " " + capital(named(v, d.Why)) + "."
	case d.Pairs == 0 && len(d.Lost) > 0:
		return " No pair: " + figures.Cause(d.Lost[0].Reason) + "."
	case d.Pairs < experiment.DecideFrom():
		return fmt.Sprintf(" A gate is decided from %d pairs on, and it has %d.", experiment.DecideFrom(), d.Pairs)
	}
	return ""
}

// gateOf is a gate with its outcome and change: "The gate “p99 < +5%” holds: +2.5 % (-1.0 to +6.1), 4.1 ms with b (envoy) instead of
// 4.0 ms with a." Treatments have their names. settle is the time that would decide it.
func gateOf(v view, d compare.Decision, settle string) Claim {
	side := func(id string) string {
		name := nameOf(v, id)
		if of := v.r.Setup.Variants[name]; len(of) <= mostVariant {
			return sideWords(name, of)
		}
		return name
	}
	c := Claim{Form: gateClaim, Subject: d.Treatment, Baseline: d.Baseline, Metric: d.Metric, Relation: compare.Verdict(d.Outcome), Amount: d.Change, Unit: d.Unit}
	words := sentenceWords{"gate": GateWords(d), "outcome": outcomeVerbs[d.Outcome], "settle": settle, "sides": side(d.Treatment) + " against " + side(d.Baseline)}
	if d.Change != nil {
		words["change"] = ChangeWords(d) + ", "
	}
	if q := quantityOf(d.Metric); d.A != nil && d.B != nil {
		words["sides"] = fmt.Sprintf("%s%s %s instead of %s%s %s", rough(*d.B*q.scale), q.unitText(), with(side(d.Treatment)), rough(*d.A*q.scale), q.unitText(), with(side(d.Baseline)))
	}
	return c.fill(words)
}

// settleWords are the time that would decide an undecided gate: " About 3 more minutes would settle it: `--max-time 12m`." A file without
// a time is run again with more blocks.
func settleWords(r *answer.Report, d compare.Decision) string {
	first, last := r.Setup.FirstStart, r.Setup.LastEnd
	if d.Outcome != compare.Undecided || d.Doubts != nil || d.MorePairs == 0 || first == nil || last == nil {
		return ""
	}
	whole := int(math.Ceil(last.Sub(*first).Minutes() + d.Minutes))
	if d.Timed {
		return fmt.Sprintf(" About %s would settle it: `--max-time %dm`.", printable.Counted(int(math.Ceil(d.Minutes)), "more minute"), whole)
	}
	return fmt.Sprintf(" About %s would settle it: `%s`.", printable.Counted(whole, "minute"), RunCommand(r.Directory, []string{fmt.Sprintf("blocks=%d", d.Max+d.MorePairs)}))
}

// mostVariant is the largest number of characters of a definition in a sentence.
const mostVariant = 60

// GateWords is a gate with the name that reports have for its metric: "CPU/request, data plane < +25%".
func GateWords(d compare.Decision) string {
	return strings.Replace(d.Gate, d.Metric, quantityOf(d.Metric).name, 1)
}

// JUnit's XML, as CI systems read it.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
		Output   string      `xml:"system-out,omitempty"` // what doubts all of them
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitOutcome `xml:"failure,omitempty"`
		Skipped *junitOutcome `xml:"skipped,omitempty"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitOutcome struct {
		Message string `xml:"message,attr"`
	}
)

func writeJUnit(w io.Writer, r *answer.Report) error {
	s := junitSuite{Name: "tare " + r.Experiment, Tests: len(r.Decisions)}
	v := newView(r)
	for _, d := range r.Decisions {
		lines := strings.Join(decisionLines(v, d), "\n")
		c := junitCase{Class: nameOf(v, d.Treatment), Name: d.Gate, Output: lines}
		switch d.Outcome {
		case compare.Breached:
			s.Failures++
			c.Failure = &junitOutcome{lines}
		case compare.Undecided:
			s.Skipped++
			c.Skipped = &junitOutcome{lines}
		}
		s.Cases = append(s.Cases, c)
	}
	s.Output = strings.Join(warningLines(r), "\n")
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write report as JUnit XML: %w", err)
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := errors.Join(e.Encode(s), e.Close()); err != nil {
		return fmt.Errorf("write report as JUnit XML: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// decisionLines are a gate in a few lines: the outcome, the change, the A/A pair.
func decisionLines(v view, d compare.Decision) []string {
	lines := []string{gateOf(v, d, "").Sentence, capital(pairsWords([]compare.Decision{d})) + "."}
	for _, doubt := range d.Doubts {
		lines = append(lines, fmt.Sprintf("Warning %s. Without this doubt: %s.", named(v, doubt), d.Doubted))
	}
	switch {
	case d.Doubts != nil:
	case d.Why != "":
		lines = append(lines, capital(named(v, d.Why))+".")
	case d.Pairs < experiment.DecideFrom():
		lines = append(lines, fmt.Sprintf("A gate is decided from %d pairs on.", experiment.DecideFrom()))
	case d.Outcome == compare.Undecided && d.MorePairs > 0:
		minutes := int(math.Ceil(d.Minutes))
		lines = append(lines, fmt.Sprintf("It would need about %s (%s).", printable.Counted(minutes, "more minute"), printable.Counted(d.MorePairs, "pair")))
	case d.Outcome == compare.Undecided:
		lines = append(lines, "The difference is close to the limit: more time hardly helps. Use another limit, or --detect.")
	case d.Outcome == compare.Holds && d.Detect > 0:
		lines = append(lines, fmt.Sprintf("Shown to be within %+g %s (limit and --detect).", d.Limit+sideOf(d)*d.Detect, d.Unit))
	}
	if d.Outcome == compare.Holds {
		lines = append(lines, fmt.Sprintf("%s may miss a change that occurs in fewer than %.0f %% of blocks.",
			printable.Counted(d.Pairs, "pair"), 100*stats.ShareBound(0, int64(d.Pairs), unseenLevel)))
	}
	lines = append(lines, lostLines(v, d.Lost)...)
	if d.Control != nil {
		lines = append(lines, nameOf(v, d.Baseline)+" against itself, which is noise: "+ChangeWords(compare.Decision{Change: d.Control, Unit: d.Unit, Metric: d.Metric})+".")
	}
	return lines
}

// lostLines are the blocks without a pair, a line for each reason with its first message.
func lostLines(v view, lost []compare.LostPair) []string {
	blocks, first := map[string][]string{}, []compare.LostPair{}
	for _, l := range lost {
		if blocks[l.Reason] == nil {
			first = append(first, l)
		}
		blocks[l.Reason] = append(blocks[l.Reason], strconv.Itoa(l.Block))
	}
	var lines []string
	for _, l := range first {
		in := blocks[l.Reason]
		words := "block " + in[0]
		if len(in) > 1 {
			words = fmt.Sprintf("%d blocks (%s)", len(in), printable.Listed(in, maxBlocks))
		}
		line := fmt.Sprintf("No pair from %s: %s", words, figures.Cause(l.Reason))
		if l.Message != "" {
			line += fmt.Sprintf(" (%s: %s)", nameOf(v, l.Treatment), strings.TrimRight(shortened(l.Message, maxReason), "."))
		}
		if i := slices.IndexFunc(v.r.Warnings, func(w figures.Warning) bool { return w.Code == l.Reason && w.Hint != "" }); i >= 0 {
			line += ". For one: " + v.r.Warnings[i].Hint
		}
		lines = append(lines, line+".")
	}
	return lines
}

// Bounds of the lines about lost pairs.
const (
	maxReason = 160 // characters of a message
	maxBlocks = 8   // numbers
)

// shortened is the first line of a text, of n characters at most.
func shortened(text string, n int) string {
	text, _, _ = strings.Cut(text, "\n")
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

func sideOf(d compare.Decision) float64 {
	if d.Upper {
		return 1
	}
	return -1
}

// decisionWarnings doubt a decision otherwise.
var decisionWarnings = []string{"treatments-same", "invalid-trials", "aa-differs", notWarm}

// gateWarnings are the warnings that doubt a decision. Without gates they are about any treatment.
func gateWarnings(r *answer.Report) []figures.Warning {
	v, of := newView(r), []string(nil)
	for _, d := range r.Decisions {
		of = lists.Add(of, d.Treatment, d.Baseline)
	}
	return lists.Where(r.Warnings, func(w figures.Warning) bool {
		return (slices.Contains(decisionWarnings, w.Code) || slices.Contains(doubtingWarnings, w.Code)) && concernsSome(v, w, of)
	})
}

func warningLines(r *answer.Report) []string {
	v := newView(r)
	return lists.Map(gateWarnings(r), func(w figures.Warning) string { return "Warning " + w.Code + ": " + named(v, w.Message) })
}

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

// gatesTable has a row for each gate. Gates on several treatments have theirs. Columns that do not fit beside a gate are below it: the
// change is the result, and is never left out.
func gatesTable(t text) {
	p, decisions := t.page, t.view.r.Decisions
	if len(decisions) == 0 {
		return
	}
	g := gridOf([]int{0, 1, 2}, "gate", "B", "result", "change", "from A to B", "pairs")
	for _, d := range decisions {
		change := unknown
		if d.Change != nil {
			change = ChangeWords(d)
		}
		g.row(GateWords(d), nameOf(t.view, d.Treatment), string(d.Outcome), change, sides(d), fmt.Sprintf("%d of %d", d.Pairs, d.Max))
	}
	if !p.markdown && pairsWords(decisions) != "" { // the heading has them
		g = g[:5]
	}
	if !severalSides(decisions) {
		g = slices.Delete(g, 1, 2)
	}
	labels := slices.IndexFunc(g, func(c column) bool { return c.heads[0] == "result" })
	if room := p.width - len(tableIndent); p.markdown || p.width == 0 || fitting(g[:labels], g[labels:], room) == len(g)-labels {
		p.table(g, labels)
	} else {
		p.table(narrowed(underTitles(g), room), 1)
	}
	if p.markdown { // a list follows
		p.line("")
	}
}

// underTitles is a table whose first column is a line above the rows that have it.
func underTitles(g grid) grid {
	rest := gridOf(nil, lists.Map(g[1:], func(c column) string { return c.heads[0] })...)
	for i := range rest {
		rest[i].left = g[i+1].left
	}
	for _, title := range lists.Add(nil, g[0].cells...) {
		rest.row(title)
		for i, of := range g[0].cells {
			if of == title {
				cells := lists.Map(g[1:], func(c column) string { return c.cells[i] })
				cells[0] = "  " + cells[0]
				rest.row(cells...)
			}
		}
	}
	return rest
}

// pairsWords are the pairs of all gates in words, "" if they differ: "after 12 of at most 40 pairs".
func pairsWords(decisions []compare.Decision) string {
	d := decisions[0]
	if slices.ContainsFunc(decisions, func(o compare.Decision) bool { return o.Pairs != d.Pairs || o.Max != d.Max }) {
		return ""
	}
	if d.Last {
		return fmt.Sprintf("at the end of the run: %d of at most %s", d.Pairs, printable.Counted(d.Max, "pair"))
	}
	return fmt.Sprintf("after %d of at most %s", d.Pairs, printable.Counted(d.Max, "pair"))
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
			name := GateWords(d)
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
		case len(gates) == 2 && len(all) == 2:
			p.item("Both gates: " + line)
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
