package report

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/answer/analysis"
)

// floorSection shows the differences of identical treatments.
func floorSection(t text) {
	if len(t.r.Floor) == 0 {
		return
	}
	first := t.r.Floor[0]
	t.heading(fmt.Sprintf("Noise floor (A/A pair: %s against itself, %d pairs; any difference here is noise)", t.label.of(first.Factors), first.N))
	var names, values, intervals, detectable []string
	row := func(cells ...string) {
		for i, to := range []*[]string{&names, &values, &intervals, &detectable} {
			*to = append(*to, at(cells, i))
		}
	}
	treatment := first.Treatment
	for _, c := range floorComparisons(t) {
		if c.Treatment != treatment {
			treatment = c.Treatment
			row(t.label.of(c.Factors) + " against itself")
		}
		q := quantityOf(c.Metric)
		name := "  " + q.name
		if c.Verdict == analysis.Higher || c.Verdict == analysis.Lower {
			name += " " + mark
		}
		row(name, difference(*c.Difference, q.scale)+q.unitText(), bounds(*c.Difference, q.scale, signed), detectableWords(t, c, q))
	}
	if len(names) == 0 {
		t.line("  no difference at all")
		return
	}
	t.tableAt([]column{
		{heads: []string{""}, cells: names, left: true},
		{heads: []string{"difference"}, cells: values},
		{heads: []string{"interval"}, cells: intervals},
		{heads: []string{"smallest", "detectable"}, cells: detectable},
	}, 1, "")
}

// floorComparisons returns the shown A/A comparisons, treatment by treatment.
func floorComparisons(t text) []analysis.Comparison {
	var cs []analysis.Comparison
	for _, tr := range t.r.Treatments {
		if !tr.Control {
			continue
		}
		for _, c := range t.comparisons(tr.ID) {
			if c.Difference != nil {
				cs = append(cs, c)
			}
		}
	}
	return cs
}

// detectableWords is the smallest difference the run can detect, with its share of the baseline.
func detectableWords(t text, f analysis.Comparison, q quantity) string {
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
