package report

import (
	"fmt"
	"math"
	"slices"

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
