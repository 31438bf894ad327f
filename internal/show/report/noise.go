package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
)

// noiseSection divides the noise of interleaved trials by its source.
func noiseSection(t text) {
	g := gridOf([]int{0, 3}, "", "between\ndeployments", "between\nslices", "what narrows the interval")
	shown := t.view.shownGroups()
	byPair(t.view, g, func(tr compare.Treatment) (rows [][]string) {
		for _, n := range t.view.r.Noise {
			if n.Treatment != tr.ID || !tr.Control && !slices.Contains(shown, tr.ID) {
				continue
			}
			q, between := quantityOf(n.Metric), unknown
			if n.Deployment != nil && *n.Deployment == 0 {
				between = "0"
			} else if n.Deployment != nil {
				between = rough(*n.Deployment*q.scale) + q.unitText()
			}
			rows = append(rows, []string{"  " + q.name, between, rough(n.Slice*q.scale) + q.unitText(), cure(n, q)})
		}
		return rows
	})
	if g.empty() {
		return
	}
	t.page.heading("Sources of noise (standard deviation of a block's difference)")
	t.page.tableAt(g, 1, "")
}

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

// dominates is the share of the variance above which a source has most of the noise.
const dominates = 0.67

// cure is the remedy for the larger source. A run of one block has no interval over deployments.
func cure(n compare.NoiseSource, q quantity) string {
	if n.These != nil {
		return fmt.Sprintf("these deployments only: %s%s %s; more blocks", difference(*n.These, q.scale), q.unitText(), bounds(*n.These, q.scale, signed))
	}
	if best := n.BestSlices; best != nil && n.Price != nil {
		return bestWords(*best / float64(n.Slices))
	}
	between, within := math.Pow(*n.Deployment, 2), math.Pow(n.Slice, 2)
	switch share := between / (between + within); {
	case share > dominates:
		return "more blocks"
	case share < 1-dominates:
		return "longer blocks (phases.measure), or more"
	}
	return "more blocks, or longer ones"
}

// otherLength is the factor from which another length of blocks is worth a change: the variance that a time
// buys is within 5 % of the best.
const otherLength = 1.6

// bestWords compares the best number of slices with the number in the run.
func bestWords(factor float64) string {
	switch {
	case factor > otherLength:
		return fmt.Sprintf("longer blocks (phases.measure × %s), then more", rough(min(factor, 20)))
	case factor < 1/otherLength:
		return "more blocks, and shorter ones"
	}
	return "more blocks"
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

// weightSection gives costs in standard weights, and how much of the machine's speed cancels in them.
func weightSection(t text) {
	for _, w := range t.view.r.Weights {
		g := gridOf([]int{0, 2, 3}, "", "standard\nweights", "\ninterval", "follows the weight\nwith coefficient", "SD of a block\nµs → weights")
		byPair(t.view, g, func(tr compare.Treatment) (rows [][]string) {
			for _, c := range w.Costs {
				if c.Treatment != tr.ID {
					continue
				}
				half, known := c.Weights.HalfWidth()
				coefficient := unknown
				if c.Coefficient != nil {
					coefficient = fixed(c.Coefficient.Estimate, 2) + " " + bounds(*c.Coefficient, 1, fixed2)
				}
				rows = append(rows, []string{"  " + quantityOf(c.Metric).name, fixed(c.Weights.Estimate, decimals(c.Weights.Estimate, half, known)),
					ratioBounds(c.Weights), coefficient, spreadWords(c.CV) + " → " + spreadWords(c.CVWeights)})
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
		t.page.line("Coefficient 1: the speed of the machine cancels in standard weights; 0: dividing by the weight adds noise.")
		if w.NoiseShare != nil {
			t.page.line("%s %% of the variance of the weight between blocks is noise of its slices, which moves coefficients towards 0.", rough(100**w.NoiseShare))
		}
	}
}

func fixed2(v float64, _ int) string { return fixed(v, 2) }

// spreadWords is a relative standard deviation.
func spreadWords(cv *float64) string {
	if cv == nil {
		return unknown
	}
	return rough(100**cv) + " %"
}
