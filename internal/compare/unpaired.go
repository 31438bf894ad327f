package compare

import (
	"slices"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// unpaired puts Welch's comparison of two treatments' trials into c.
func (x *estimator) unpaired(c *compared, trials, baseTrials []figures.Measured) {
	t, b := valuesOf(trials, c.Metric), valuesOf(baseTrials, c.Metric)
	c.Verdict = Insufficient
	d := stats.Welch(t, b, x.confidence)
	if c.N = d.N; d.Known() {
		if v, ok := stats.WelchDetectable(t, b, x.alpha(), stats.Power); ok {
			c.Detectable = &v
		}
	}
	ratio := stats.WelchRatio(t, b, x.confidence)
	c.put(d, ratio, "trial of each", stats.ExactApart(len(t), len(b)), pairs{treatment: t, baseline: b})
	x.judge(c, ratio, func(m float64) (float64, bool) { return stats.WelchWithin(t, b, m) })
}

// Boundary is the family of the comparisons of CPU cores at the boundaries of
// [metric.Boundaries].
const Boundary Family = "boundary"

func isBoundary(name string) bool {
	part, ok := metric.PartOf(metric.CPUCores, name)
	return ok && slices.ContainsFunc(metric.Boundaries(), func(p metric.Part) bool { return p.Name == part })
}

// estimatePublished is the plain mean over runs, as plotted.
func estimatePublished(m metric.Metric, values []float64) Estimate {
	e := Estimate{Unit: m.Unit, N: len(values), SD: number(stats.SD(values)), CV: number(stats.CV(values)), Warnings: []figures.Warning{}}
	e.Estimate = stats.Mean(values)
	return e
}
