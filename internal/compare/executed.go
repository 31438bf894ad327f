package compare

import (
	"slices"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// executedMetrics are the metrics of programs that end which every report compares.
var executedMetrics = []string{metric.WallTime, metric.CPUTime, metric.PeakOfExecution, metric.BenchmarkTime}

// Executed are the changes of programs that end, of all that is compared, as gates of +0 % would be judged: if a run ends by its
// gates, the intervals hold over all looks. Otherwise they come from the comparisons cs. Servers have none.
func (run *Run) Executed(cs []Comparison) (all []Decision) {
	trials := run.validByTreatment()
	for i := range cs {
		c := &cs[i]
		if c.Ratio == nil || c.Control || !slices.Contains(executedMetrics, metric.Base(c.Metric)) {
			continue
		}
		g := Gate{Text: c.Metric + " < +0%", Metric: c.Metric, Upper: true, Relative: true}
		w := gateTest{gate: g, looks: max(run.Planned, run.Plan.Blocks), breach: decisionError, side: decisionError / 2, last: isLastLook(run)}
		d, _ := w.judge(run, c.Treatment, c.Baseline, trials)
		if len(run.File.Decide.Gates) == 0 {
			d.Change = percent(*c.Ratio)
		}
		if run.Method() == Unpaired { // an import: blocks only number its trials
			a, b := stats.Mean(valuesOf(trials[c.Baseline], c.Metric)), stats.Mean(valuesOf(trials[c.Treatment], c.Metric))
			d.A, d.B = &a, &b
		}
		if d.Treatment, d.Factors, d.Baseline = c.Treatment, c.Factors, c.Baseline; d.Change != nil {
			all = append(all, d)
		}
	}
	return all
}
