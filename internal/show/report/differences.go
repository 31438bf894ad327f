package report

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
)

// differencesSection has a block of lines for every treatment with a baseline.
func differencesSection(t text) {
	if t.r.Method == analysis.AsPublished {
		return
	}
	if !slices.ContainsFunc(t.r.Comparisons, func(c analysis.Comparison) bool { return !c.Control }) {
		t.heading("Differences: none. No treatment has a baseline with valid trials.")
		return
	}
	n, uniform := t.pairs()
	each := ""
	if uniform {
		each = fmt.Sprintf(", %d pairs each", n)
	}
	if t.imported() {
		t.heading(fmt.Sprintf("Differences (unpaired, since the runs were not interleaved; %s intervals)", t.percent()))
	} else {
		t.heading(fmt.Sprintf("Difference to the baseline (paired within blocks%s; %s intervals)", each, t.percent()))
	}
	var table differenceTable
	for _, tr := range t.r.Treatments {
		if tr.Baseline == "" || tr.Control {
			continue
		}
		table.group(fmt.Sprintf("%s against %s", t.label.of(tr.Factors), t.label.against(tr, t.r)))
		cs := t.comparisons(tr.ID)
		for _, c := range cs {
			table.add(c)
		}
		if len(cs) == 0 {
			table.group("  nothing to compare")
		}
	}
	t.tableAt(table.columns(t.o, uniform), 1, "")
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

// columns ends with the verdict if all fit. On a narrow terminal the verdict
// precedes the ratio, and only --all and JSON have the ratio's interval.
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
