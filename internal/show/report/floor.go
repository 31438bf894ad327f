package report

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
)

// floorSection shows the differences of identical treatments.
func floorSection(t text) {
	if len(t.view.r.Floor) == 0 {
		return
	}
	first := t.view.r.Floor[0]
	t.page.heading(fmt.Sprintf("Noise (%s against itself, %s: any difference here is noise)", t.view.label.describe(first.Factors), printable.Counted(first.N, "pair")))
	g := gridOf([]int{0}, "", "difference", "interval")
	treatment := first.Treatment
	for _, c := range floorComparisons(t) {
		if c.Treatment != treatment {
			treatment = c.Treatment
			g.row(t.view.label.describe(c.Factors) + " against itself")
		}
		q := quantityOf(c.Metric)
		name := "  " + q.name
		if isShown(c.Verdict) {
			name += " " + mark
		}
		g.row(name, difference(*c.Difference, q.scale)+q.differenceUnit(), bounds(*c.Difference, q.scale, signed))
	}
	if g.empty() {
		t.page.line("  no difference at all")
		return
	}
	t.page.tableAt(g, 1, "")
}

// floorComparisons returns the shown A/A comparisons, treatment by treatment.
func floorComparisons(t text) []compare.Comparison {
	var cs []compare.Comparison
	for _, tr := range t.view.r.Treatments {
		if !tr.Control {
			continue
		}
		for _, c := range t.view.comparisons(tr.ID) {
			if c.Difference != nil {
				cs = append(cs, c.Judged(t.view.r.Confidence))
			}
		}
	}
	return cs
}

// smallestSection has the smallest difference that each comparison would show, the A/A
// pairs included.
func smallestSection(t text) {
	g := gridOf([]int{0}, "", "smallest", "share", "range")
	shown := t.view.shownGroups()
	for _, tr := range t.view.r.Treatments {
		if !tr.Control && !slices.Contains(shown, tr.ID) {
			continue
		}
		group := false
		for _, c := range t.view.comparisons(tr.ID) {
			if c.Smallest == nil {
				continue
			}
			if !group {
				group = true
				g.row(t.view.pairWords(tr))
			}
			value, share, between := smallestWords(c, tr)
			g.row("  "+quantityOf(c.Metric).name, value, share, between)
		}
	}
	if g.empty() {
		return
	}
	t.page.heading("Smallest difference that 4 of 5 such runs show (range: 95 of 100 such runs have it in there)")
	t.page.tableAt(g, 1, "")
}

// smallestWords are the smallest difference, its share of the treatment's mean and its range.
func smallestWords(c compare.Comparison, tr compare.Treatment) (value, share, between string) {
	s, q := c.Smallest, quantityOf(c.Metric)
	scale, unit := q.scale, q.differenceUnit()
	if s.Relative {
		scale, unit = 100, " %"
	}
	value = rough(s.Estimate*scale) + unit
	if s.Known() {
		between = rough(*s.Low*scale) + " to " + rough(*s.High*scale) + unit
	}
	if e, ok := tr.Metrics[c.Metric]; ok && e.Estimate > 0 && !s.Relative {
		share = rough(100*s.Estimate/e.Estimate) + " %"
	}
	return value, share, between
}
