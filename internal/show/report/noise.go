package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
)

// partsSection divides the CPU per request of interleaved trials.
func partsSection(t text) {
	g := gridOf([]int{0}, "", "for requests,\nin its slices", "deferred, in\nthose of others", "idle, in\nits slices", "\nsum", "idle rate,\nmillicores")
	for _, tr := range t.view.r.Treatments {
		cost, ok1 := tr.Metrics[metric.Of(metric.CPUPerRequest, "total")]
		deferred, ok2 := tr.Metrics[metric.Of(metric.DeferredPerRequest, "total")]
		idle, ok3 := tr.Metrics[metric.Of(metric.IdlePerRequest, "total")]
		cores, ok4 := tr.Metrics[metric.Of(metric.IdleCPU, "total")]
		if tr.Control || !ok1 || !ok2 || !ok3 || !ok4 {
			continue
		}
		cells := []string{t.view.label.describe(tr.Factors)}
		for _, v := range []float64{cost.Estimate - deferred.Estimate - idle.Estimate, deferred.Estimate, idle.Estimate, cost.Estimate, 1000 * cores.Estimate} {
			cells = append(cells, fmt.Sprintf("%.1f", math.Round(10*v)/10+0)) // +0: no -0.0
		}
		g.row(cells...)
	}
	if g.empty() {
		return
	}
	t.page.heading("Parts of CPU/request, total (µs; they add up)")
	t.page.tableAt(g, 1, "")
}

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
	t.page.heading(fmt.Sprintf("Smallest detectable difference (80 %% power; range: %s interval)", t.view.percent()))
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

// weightSection gives costs in standard weights.
func weightSection(t text) {
	for _, w := range t.view.r.Weights {
		g := gridOf([]int{0, 2}, "", "standard weights", "interval")
		byPair(t.view, g, func(tr compare.Treatment) (rows [][]string) {
			for _, c := range w.Costs {
				if c.Treatment != tr.ID {
					continue
				}
				half, known := c.Weights.HalfWidth()
				rows = append(rows, []string{"  " + quantityOf(c.Metric).name, fixed(c.Weights.Estimate, decimals(c.Weights.Estimate, half, known)), ratioBounds(c.Weights)})
			}
			return rows
		})
		if g.empty() {
			continue
		}
		half, known := w.Weight.HalfWidth()
		t.page.heading(fmt.Sprintf("Costs in standard weights (the reference proxy: %s µs of CPU/request here %s, %s)",
			fixed(w.Weight.Estimate, decimals(w.Weight.Estimate, half, known)), ratioBounds(w.Weight), printable.Counted(w.N, "block")))
		t.page.tableAt(g, 1, "")
	}
}

func fixed2(v float64, _ int) string { return fixed(v, 2) }
