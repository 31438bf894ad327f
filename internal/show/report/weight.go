package report

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
)

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
