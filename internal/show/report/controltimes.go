package report

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/answer"
)

// controlTimesSection is how long the stages of the control plane took, as it counts them.
func controlTimesSection(t text) {
	all := t.view.r.ControlTimes
	if len(all) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Stages of the control plane: diagnosis by what it counts itself (ms, means with the %s interval)", t.view.percent()))
	g := gridOf([]int{0, 1}, "treatment", "stage", "mean", "half within", "99 % within", "times")
	for _, c := range all {
		g.row(t.view.label.describe(t.view.treatment(c.Treatment).Factors), c.Stage, figure(c.Mean, 1, false), withinBounds(c.P50), withinBounds(c.P99), fmt.Sprint(c.Count))
	}
	t.page.table(g, 2)
	t.page.line("")
	t.page.prose("Of all of its work in the measure phase, whatever caused it. The ranges are buckets of its histograms. " +
		"Stages can contain one another, so that they have no sum. The time until proxies follow is not in them.")
}

// withinBounds prints the bucket of a quantile.
func withinBounds(b *answer.Bounds) string {
	switch {
	case b == nil:
		return "-"
	case b.ToMS == nil:
		return "over " + rough(b.FromMS)
	case b.FromMS == 0:
		return "up to " + rough(*b.ToMS)
	}
	return rough(b.FromMS) + " to " + rough(*b.ToMS)
}
