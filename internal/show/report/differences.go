package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
)

// differences is a block of lines for every treatment that has a baseline.
func (t *text) differences() {
	if t.r.Method == analysis.AsPublished {
		return
	}
	if !slices.ContainsFunc(t.r.Comparisons, func(c analysis.Comparison) bool { return !c.Control }) {
		t.title("Differences: none, since no treatment has a baseline with valid trials to be compared with.")
		return
	}
	n, uniform := t.pairs()
	each := ""
	if uniform {
		each = fmt.Sprintf(", %d pairs each", n)
	}
	if t.isImported() {
		t.title(fmt.Sprintf("Differences (unpaired: the runs were not interleaved; %s intervals)", t.percent()))
	} else {
		t.title(fmt.Sprintf("What it adds to the baseline (paired within blocks%s; %s intervals)", each, t.percent()))
	}
	var table differenceTable
	for _, tr := range t.r.Treatments {
		if tr.Baseline == "" || tr.Control {
			continue
		}
		table.group(fmt.Sprintf("%s against %s", t.label.of(tr.Factors), t.label.against(tr, t.r)))
		shown := 0
		for _, c := range t.ordered(tr.ID) {
			table.add(c)
			shown++
		}
		if shown == 0 {
			table.group("  nothing to compare")
		}
	}
	t.table(table.columns(t.o, uniform), 1, "")
	t.normalised()
}

// normalised says what the calibration probe was used for.
func (t *text) normalised() {
	metrics := compared
	if t.o.All {
		metrics = nil
		for _, m := range t.r.Metrics() {
			metrics = append(metrics, m.Name)
		}
	}
	u, ok := t.r.Probed(metrics)
	if !ok || u.Of == 0 {
		return
	}
	if t.markdown {
		t.line("")
	}
	s := fmt.Sprintf("The calibration probe beside each trial narrows none of these %d intervals of CPU and time: they stand as measured.", u.Of)
	if len(u.Normalised) > 0 {
		var narrower []string
		for _, c := range u.Normalised {
			narrower = append(narrower, fmt.Sprintf("%s of %s %s", quantityOf(c.Metric).name, t.label.of(c.Factors), c.Narrowed()))
		}
		s = fmt.Sprintf("Normalised by the calibration probe beside each trial, which makes the interval narrower: %s. The other intervals stand as measured; --format json has all of them without it.",
			strings.Join(narrower, "; "))
	}
	if len(u.Differs) > 0 {
		s += fmt.Sprintf(" Not used for %s: there the probe itself differs from that beside the baseline.", strings.Join(u.Differs, ", "))
	}
	t.wrapped(s)
}

// pairs is the number of pairs of the comparisons shown, if they all have as many.
func (t *text) pairs() (n int, uniform bool) {
	n = -1
	for _, c := range t.r.Comparisons {
		switch {
		case c.Control || !t.shows(c):
		case n < 0:
			n = c.N
		case c.N != n:
			return 0, false
		}
	}
	return n, n >= 0
}

// ordered are the comparisons of a treatment that are shown: the headline
// metrics in their own order, then the others in that of the metric table.
func (t *text) ordered(treatment string) []analysis.Comparison {
	var cs []analysis.Comparison
	for _, c := range t.r.Comparisons {
		if c.Treatment == treatment && t.shows(c) {
			cs = append(cs, c)
		}
	}
	slices.SortStableFunc(cs, func(a, b analysis.Comparison) int { return place(a.Metric) - place(b.Metric) })
	return cs
}

// place of a metric among the headline ones; the others stand together behind them.
func place(name string) int {
	if i := slices.Index(compared, name); i >= 0 {
		return i
	}
	return len(compared)
}

// shows says whether the differences list c: headline metrics unless all are
// asked for, and never zero against zero.
func (t *text) shows(c analysis.Comparison) bool {
	if c.Difference != nil && !c.Difference.Known() && c.Difference.Estimate == 0 {
		return false
	}
	return t.o.All || slices.Contains(compared, c.Metric)
}

// differenceTable gathers the columns of the differences.
type differenceTable struct {
	names, values, intervals, ratios, ratioIntervals, pairs, verdicts []string
}

func (d *differenceTable) row(cells ...string) {
	for i, to := range []*[]string{&d.names, &d.values, &d.intervals, &d.ratios, &d.ratioIntervals, &d.pairs, &d.verdicts} {
		*to = append(*to, at(cells, i))
	}
}

func (d *differenceTable) group(name string) { d.row(name) }

func (d *differenceTable) add(c analysis.Comparison) {
	q := quantityOf(c.Metric)
	value, interval, rat, ratInterval := unknown, "", none, ""
	if c.Difference != nil {
		value = difference(*c.Difference, q.scale) + q.unitText()
		interval = bounds(*c.Difference, q.scale, signed)
	}
	if c.Ratio != nil {
		rat, ratInterval = ratio(*c.Ratio), bounds(*c.Ratio, 1, fixed)
	}
	name := "  " + q.name
	if flagged(c.Warnings) {
		name += " " + mark
	}
	d.row(name, value, interval, rat, ratInterval, fmt.Sprint(c.N), verdictWords(c))
}

// columns ends with the verdict where all fit. On a narrow terminal the verdict
// comes before the ratio, and the ratio's interval is left to --all and JSON.
func (d *differenceTable) columns(o Options, uniform bool) []column {
	labels := []column{{heads: []string{""}, cells: d.names, left: true}}
	values := []column{{heads: []string{"difference"}, cells: d.values}, {heads: []string{"interval"}, cells: d.intervals}}
	ratio := []column{{heads: []string{"ratio"}, cells: d.ratios}}
	ratioInterval := []column{{heads: []string{"interval"}, cells: d.ratioIntervals}}
	verdict := []column{{heads: []string{"verdict"}, cells: d.verdicts, left: true}}
	var pairs []column
	if !uniform {
		pairs = []column{{heads: []string{"pairs"}, cells: d.pairs}}
	}
	all := slices.Concat(values, ratio, ratioInterval, pairs, verdict)
	if fitting(labels, all, o.Width) < len(all) {
		all = slices.Concat(values, verdict, ratio, pairs)
		if o.All {
			all = slices.Concat(all, ratioInterval)
		}
	}
	return slices.Concat(labels, all)
}

func verdictWords(c analysis.Comparison) string {
	if c.Verdict == analysis.Insufficient {
		return "too few trials"
	}
	if e := c.Equivalence; e != nil && e.Within {
		margin := rough(100*e.Margin) + " %"
		if c.Verdict == analysis.Same {
			return "same to within " + margin
		}
		return string(c.Verdict) + ", by less than " + margin
	}
	if c.N >= stats.MinN && c.Difference != nil && !c.Difference.Known() {
		return string(c.Verdict) + ", the same in every block"
	}
	return string(c.Verdict)
}

// floor shows what two identical treatments differed by.
func (t *text) floor() {
	if len(t.r.Floor) == 0 {
		return
	}
	first := t.r.Floor[0]
	t.title(fmt.Sprintf("The noise floor (A/A: %s against itself, %d pairs; a difference here is noise)", t.label.of(first.Factors), first.N))
	var names, values, intervals, detectable []string
	row := func(cells ...string) {
		for i, to := range []*[]string{&names, &values, &intervals, &detectable} {
			*to = append(*to, at(cells, i))
		}
	}
	treatment := first.Treatment
	for _, c := range t.floors() {
		if c.Treatment != treatment {
			treatment = c.Treatment
			row(t.label.of(c.Factors) + " against itself")
		}
		q := quantityOf(c.Metric)
		name := "  " + q.name
		if c.Verdict == analysis.Higher || c.Verdict == analysis.Lower {
			name += " " + mark
		}
		row(name, difference(*c.Difference, q.scale)+q.unitText(), bounds(*c.Difference, q.scale, signed), t.detectable(c, q))
	}
	if len(names) == 0 {
		t.line("  no difference at all")
		return
	}
	t.table([]column{
		{heads: []string{""}, cells: names, left: true},
		{heads: []string{"difference"}, cells: values},
		{heads: []string{"interval"}, cells: intervals},
		{heads: []string{"smallest this", "run could show"}, cells: detectable},
	}, 1, "")
}

// floors are the A/A comparisons that are shown, treatment by treatment.
func (t *text) floors() []analysis.Comparison {
	var cs []analysis.Comparison
	for _, tr := range t.r.Treatments {
		if !tr.Control {
			continue
		}
		for _, c := range t.ordered(tr.ID) {
			if c.Difference != nil {
				cs = append(cs, c)
			}
		}
	}
	return cs
}

// detectable is the smallest difference the run could show, with its share of the baseline.
func (t *text) detectable(f analysis.Comparison, q quantity) string {
	if f.Detectable == nil {
		return unknown
	}
	s := rough(*f.Detectable*q.scale) + q.unitText()
	for _, tr := range t.r.Treatments {
		if e, ok := tr.Metrics[f.Metric]; tr.ID == f.Treatment && ok && e.Estimate > 0 {
			return s + fmt.Sprintf(" (%s %%)", rough(100**f.Detectable/e.Estimate))
		}
	}
	return s
}
