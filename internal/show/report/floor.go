package report

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
)

// byPair adds rows about treatments to a grid, each group below the names of both sides. A treatment without rows is left out.
func byPair(v view, g grid, rows func(compare.Treatment) [][]string) {
	for _, tr := range v.r.Treatments {
		for i, cells := range rows(tr) {
			if i == 0 {
				g.row(v.pairWords(tr))
			}
			g.row(cells...)
		}
	}
}

// floorSection shows the differences of identical treatments.
func floorSection(t text) {
	if len(t.view.r.Floor) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Noise (baselines against themselves, %s: any difference here is noise)", printable.Counted(t.view.r.Floor[0].N, "pair")))
	g := gridOf([]int{0}, "", "difference", "interval")
	byPair(t.view, g, func(tr compare.Treatment) (rows [][]string) {
		for _, c := range t.view.comparisons(tr.ID) {
			if !tr.Control || c.Difference == nil {
				continue
			}
			c, q := c.Judged(t.view.r.Confidence), quantityOf(c.Metric)
			name := "  " + q.name
			if isShown(c.Verdict) {
				name += " " + mark
			}
			rows = append(rows, []string{name, difference(*c.Difference, q.scale) + q.differenceUnit(), bounds(*c.Difference, q.scale, signed)})
		}
		return rows
	})
	if g.empty() {
		t.page.line("  no difference at all")
		return
	}
	t.page.tableAt(g, 1, "")
}

// smallestSection has the smallest difference that each comparison would show, the A/A
// pairs included.
func smallestSection(t text) {
	g := gridOf([]int{0}, "", "smallest", "share", "range")
	shown := t.view.shownGroups()
	byPair(t.view, g, func(tr compare.Treatment) (rows [][]string) {
		for _, c := range t.view.comparisons(tr.ID) {
			if c.Smallest != nil && (tr.Control || slices.Contains(shown, tr.ID)) {
				value, share, between := smallestWords(c, tr)
				rows = append(rows, []string{"  " + quantityOf(c.Metric).name, value, share, between})
			}
		}
		return rows
	})
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
