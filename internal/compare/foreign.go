package compare

import (
	"cmp"
	"fmt"
	"math"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// invalidateForeign invalidates the trials of a treatment beside which the CPU of other workloads was shown to differ from
// that beside its baseline, by more than the share that may be without attribution rule. All treatments together share
// the error of the intervals. Workloads that use the same beside both sides invalidate nothing.
func (run *Run) invalidateForeign() {
	trials := run.validByTreatment()
	tests := 0
	for _, t := range run.Plan.Treatments {
		if t.Baseline != "" {
			tests++
		}
	}
	limit := cmp.Or(run.File.Validity.Unattributed, experiment.DefaultUnattributed)
	for _, t := range run.Plan.Treatments {
		if t.Baseline == "" {
			continue
		}
		p := run.estimator.pairs(figures.ForeignCPU, byBlock(trials[t.ID]), byBlock(trials[t.Baseline]))
		if len(p.treatment) < stats.MinN {
			continue
		}
		total := run.estimator.pairs(metric.Of(metric.CPUCores, "cluster"), byBlock(trials[t.ID]), byBlock(trials[t.Baseline]))
		if len(total.treatment) == 0 { // nodes were not read
			total = run.estimator.pairs(metric.Of(metric.CPUCores, "total"), byBlock(trials[t.ID]), byBlock(trials[t.Baseline]))
		}
		foreign := stats.Mean(p.baseline)
		allowed := limit * (foreign + stats.Mean(total.baseline))
		change := stats.PairedDifference(p.treatment, p.baseline, 1-run.estimator.alpha()/float64(tests))
		if len(total.baseline) == 0 || !(math.Abs(change.Estimate) > allowed) || change.Known() && !change.Excludes(0) {
			continue
		}
		w := figures.Warning{Code: "foreign-changed", Invalidates: true,
			Message: fmt.Sprintf("other workloads of the cluster used %.3f cores beside %s and %.3f beside its baseline (%s; limit %.3f, %.1f %% of all CPU)",
				stats.Mean(p.treatment), t.ID, foreign, differenceIn(change), allowed, 100*limit),
			Hint: "measure while they are steady, or add attribution rules if they are parts of the mesh"}
		for i := range run.Trials {
			if trial := &run.Trials[i]; trial.Treatment == t.ID && trial.Valid {
				trial.Valid, trial.Warnings = false, append(trial.Warnings, w)
			}
		}
	}
}

// differenceIn formats a difference in cores with its interval.
func differenceIn(r stats.Result) string {
	if !r.Known() {
		return fmt.Sprintf("%+.3f", r.Estimate)
	}
	return fmt.Sprintf("%+.3f, %+.3f to %+.3f", r.Estimate, *r.Low, *r.High)
}
