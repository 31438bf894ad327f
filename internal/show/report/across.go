package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/stats"
)

// AcrossForms lists every form of a comparison of two runs. The first is the default.
func AcrossForms(o Options) []Form[*compare.Across] {
	return Safe(
		Form[*compare.Across]{"text", "tables for the terminal", func(w io.Writer, a *compare.Across) error { return writeAcross(w, a, o, newPage(o, false, "")) }},
		Form[*compare.Across]{"json", "everything, schema " + compare.AcrossSchema, func(w io.Writer, a *compare.Across) error {
			return WriteAnswered(w, briefOfClaim(acrossClaims(a)[0], o.ExitCode), a)
		}},
		Form[*compare.Across]{"markdown", "for a pull request's comment or a job's summary", func(w io.Writer, a *compare.Across) error { return writeAcross(w, a, o, newPage(o, true, "###")) }},
	)
}

// across is the state of writing one comparison of two runs.
type across struct {
	*page
	a *compare.Across
	o Options
	l labels
}

func writeAcross(w io.Writer, a *compare.Across, o Options, p *page) error {
	x := across{p, a, o, acrossLabels(a)}
	sentences := AcrossAnswer(a)
	x.styled(bold, func() { x.prose(sentences[0]) })
	for _, sentence := range sentences[1:] {
		x.prose(sentence)
	}
	x.head()
	x.gates()
	x.differing()
	x.changes()
	x.history()
	x.warnings()
	x.foot()
	return p.writeTo(w, "comparison")
}

func acrossLabels(a *compare.Across) labels {
	return labelsOf(nil, factorsOf(a.Changes, func(c compare.Comparison) plan.Factors { return c.Factors }))
}

func (x across) head() {
	if n := len(x.a.BaseRuns); n > 1 {
		x.heading(fmt.Sprintf("Changes from %d base runs to %s", n, x.a.New.Dir))
		for _, s := range x.a.BaseRuns {
			x.side("base "+s.Dir, s)
		}
	} else {
		x.heading("Changes from " + x.a.Base.Dir + " to " + x.a.New.Dir)
		x.side("base", x.a.Base)
	}
	x.side("new", x.a.New)
}

func (x across) side(name string, s compare.Side) {
	line := fmt.Sprintf("%s: %s, %d of %s used", name, s.Experiment, s.Count.Used, printable.Counted(s.Count.Planned, "trial"))
	if at := s.Setup.FirstStart; at != nil {
		line += ", started " + at.UTC().Format(time.DateTime) + " UTC"
	}
	x.item(line)
}

func (x across) differing() {
	if len(x.a.Obstacles) > 0 {
		x.heading("Different conditions (compared because of --anyway)")
		x.distinctions(x.a.Obstacles)
	}
	if len(x.a.Distinctions) > 0 {
		x.heading("Differences between the runs")
		x.distinctions(x.a.Distinctions)
	}
}

func (x across) distinctions(ds []compare.Distinction) {
	g := gridOf([]int{0, 1, 2}, "", "base", "new")
	for _, d := range ds {
		g.row(d.What, cmp.Or(d.Base, unknown), cmp.Or(d.New, unknown))
	}
	x.table(g, 1)
}

// gates come first: a pipeline reads them.
func (x across) gates() {
	if len(x.a.Gates) == 0 {
		return
	}
	x.heading("Gates")
	table := gridOf([]int{0, 1, 4}, "gate", "treatment", "change", "interval", "outcome")
	for _, g := range x.a.Gates {
		change, interval := unknown, ""
		if g.Change != nil {
			scale, unit := 1.0, " "+g.Unit
			if g.Unit != "%" {
				unit = quantityOf(g.Metric).differenceUnit()
				scale = quantityOf(g.Metric).scale
			}
			change, interval = difference(*g.Change, scale)+unit, bounds(*g.Change, scale, signed)
			if g.Growing {
				change += " " + upward
			}
		}
		outcome := string(g.Outcome)
		if g.Why != "" {
			outcome += ": " + g.Why
		}
		table.row(g.Gate, x.l.withControl(compare.Treatment{ID: g.Treatment, Factors: g.Factors}), change, interval, outcome)
	}
	x.table(table, 2)
}

func (x across) changes() {
	method := "Changes (Welch's %s %% intervals over the trials of both runs, not paired)"
	if len(x.a.BaseRuns) > 1 {
		method = "Changes (Student's %s %% intervals over runs: one new run against the base runs)"
	}
	x.heading(fmt.Sprintf(method, fixed(100*x.a.Confidence, decimalsOf(100*x.a.Confidence))))
	g := gridOf([]int{0, 7}, "", "base", "new", "change", "interval", "ratio", "interval", "verdict")
	treatment := ""
	for _, c := range x.shown() {
		if c.Treatment != treatment {
			treatment = c.Treatment
			g.row(x.l.withControl(compare.Treatment{ID: c.Treatment, Factors: c.Factors, Control: c.Control}))
		}
		g.row(x.cells(c)...)
	}
	x.table(g, 1)
}

// shown keeps the order of treatments and puts headline metrics first in each.
func (x across) shown() []compare.Comparison {
	rank := map[string]int{}
	var list []compare.Comparison
	for _, c := range x.a.Changes {
		if x.shows(c) {
			if _, ok := rank[c.Treatment]; !ok {
				rank[c.Treatment] = len(rank)
			}
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b compare.Comparison) int {
		if d := rank[a.Treatment] - rank[b.Treatment]; d != 0 {
			return d
		}
		return place(a.Metric) - place(b.Metric)
	})
	return list
}

func (x across) shows(c compare.Comparison) bool {
	zero := func(v *float64) bool { return v != nil && *v == 0 }
	if zero(c.Base) && zero(c.New) {
		return false
	}
	return x.o.All || slices.Contains(headlines, c.Metric) || isAcrossResult(c.Metric)
}

func (x across) cells(c compare.Comparison) []string {
	q := quantityOf(c.Metric)
	mean := func(v *float64) string {
		if v == nil {
			return unknown
		}
		d := decimals(*v*q.scale, 0, false)
		if c.Difference != nil {
			if half, ok := c.Difference.HalfWidth(); ok {
				d = decimals(*v*q.scale, half*q.scale, true)
			}
		}
		return nonzero(*v*q.scale, d)
	}
	w := comparisonWords(c)
	name := "  " + q.name
	if flagged(c.Warnings) {
		name += " " + mark
	}
	words := string(c.Verdict)
	if c.Verdict == compare.Insufficient {
		words = fmt.Sprintf("too few trials (%d and %d, each needs %d)", c.NBase, c.NNew, stats.MinN)
		if len(x.a.BaseRuns) > 1 {
			words = fmt.Sprintf("too few base runs (%d, needs %d)", c.BaseRuns, stats.MinN)
		}
	}
	return []string{name, spaced(mean(c.Base), growthMark(c.BaseGrowth)), spaced(mean(c.New), growthMark(c.NewGrowth)), w.Difference, w.Interval, w.Ratio, w.RatioInterval, words}
}

func (x across) warnings() {
	rest := slices.DeleteFunc(slices.Clone(x.a.Warnings), func(w figures.Warning) bool { return w.Code == "not-comparable" }) // it is a table
	if len(rest) == 0 {
		return
	}
	x.heading("Warnings")
	for _, w := range rest {
		x.warning(w.Code+": "+w.Message, w.Hint)
	}
}

func (x across) foot() {
	words := "The trials of two runs share no block and are not paired: intervals cover the variation within the runs. Any other change between " +
		"them (another day, other neighbours) is part of the difference, and shows in the treatment without a mesh. " +
		"So gates need at least 3 base runs. Verdicts are adjusted by Holm's method."
	if len(x.a.BaseRuns) > 1 {
		words = "The run is the unit: intervals cover the variation from run to run, as the base runs have it, and that within runs. " +
			"Verdicts are adjusted by Holm's method; gates use the interval alone."
	}
	x.note(words + signsOf(x.text()))
}
