package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// changes compares all metrics of one treatment that are known on at least one side.
func changes(x *estimator, t plan.Treatment, reference bool, base [][]figures.Measured, next []figures.Measured) (cs []compared) {
	for _, m := range metric.Known(append(metricsOf(slices.Concat(base...)), metricsOf(next)...)...) {
		c := changeIn(x, t, reference, m, base, next)
		var warmBase [][]figures.Measured
		cold := 0
		for _, trials := range append(slices.Clone(base), next) {
			warm := warmIn(trials, m.Name)
			warmBase, cold = append(warmBase, warm), cold+len(trials)-len(warm)
		}
		if cold > 0 {
			warm := changeIn(x, t, reference, m, warmBase[:len(base)], warmBase[len(base)])
			c.Warm = &warm.Comparison
		}
		cs = append(cs, c)
	}
	return cs
}

// changeIn compares one metric of a treatment.
func changeIn(x *estimator, t plan.Treatment, reference bool, m metric.Metric, base [][]figures.Measured, next []figures.Measured) compared {
	var runs [][]float64
	var means []float64
	for _, trials := range base {
		if v := valuesOf(trials, m.Name); len(v) > 0 {
			runs, means = append(runs, v), append(means, stats.Mean(v))
		}
	}
	n := valuesOf(next, m.Name)
	c := compared{Comparison: Comparison{
		Treatment: t.ID, Factors: t.Factors, Control: t.Control, Metric: m.Name, Unit: m.Unit,
		Runs: &Runs{Reference: reference, NBase: len(slices.Concat(runs...)), NNew: len(n), Base: number(stats.Mean(means)),
			New: number(stats.Mean(n)), BaseRuns: len(runs), BetweenRuns: number(stats.SD(means))},
		Family: familyOf(m, t.Control), Verdict: Insufficient,
		Warnings: figures.UnionWarnings(metricWarnings(slices.Concat(base...), m.Name), metricWarnings(next, m.Name)),
	}}
	change(x, &c, runs, n, len(base) > 1)
	c.boundChange(x, base, next)
	return c
}

// change puts Welch's comparison of next with the trials of the base run into c, or of several with the runs.
func change(x *estimator, c *compared, runs [][]float64, next []float64, several bool) {
	if len(runs) == 0 || len(next) == 0 {
		c.Warnings = append(c.Warnings, figures.Warning{Code: "unknown-on-one-side", Message: c.Metric + " is known in one of the two runs only",
			Hint: "see the reports of the two runs"})
		return
	}
	base := slices.Concat(runs...)
	d, r := againstRuns(next, runs, several, x.confidence)
	exact := stats.ExactApart(len(next), len(base))
	if several {
		exact = stats.ExactApart(1, len(runs))
	}
	c.N, c.Difference, c.P, c.test = d.N, &d.Interval, d.P, d
	if v, ok := stats.WelchDetectable(next, base, x.alpha(), stats.Power); ok && !several {
		c.Detectable = &v
	}
	switch w, ok := absent(d.Why, d.N, "trial of the run that has fewer"); {
	case ok && several && d.Why == stats.TooFew:
		c.Warnings = append(c.Warnings, figures.Warning{Code: "few-runs", Message: fmt.Sprintf("no interval: %s, and it needs %d", printable.Counted(d.N, "base run"), stats.MinN),
			Hint: "give more base runs"})
	case ok:
		c.Warnings = append(c.Warnings, w)
	}
	if !math.IsNaN(r.Estimate) {
		c.Ratio = &r.Interval
		x.judge(c, r, nil)
	}
	if d.Why == stats.NoSpread {
		c.constant(d.Estimate, exact, pairs{treatment: next, baseline: base})
	}
}
