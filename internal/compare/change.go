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

// Change is one metric of one treatment in the new run against the base run.
type Change struct {
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	Control   bool         `json:"control,omitempty"`
	// Reference marks a treatment that others are compared with in its own run. It
	// holds no mesh, as a rule: when it moves the machine or the application did.
	Reference bool     `json:"reference,omitempty"`
	Metric    string   `json:"metric"`
	Unit      string   `json:"unit"`
	Base      *float64 `json:"base,omitempty"` // mean over valid trials, or over the means of several runs
	New       *float64 `json:"new,omitempty"`
	// BaseRuns is the number of base runs that have the metric, and BetweenRuns the standard deviation of their means.
	BaseRuns    int             `json:"base_runs,omitempty"`
	BetweenRuns *float64        `json:"between_runs,omitempty"`
	NBase       int             `json:"n_base"`
	NNew        int             `json:"n_new"`
	Difference  *stats.Interval `json:"difference,omitempty"` // new minus base
	Ratio       *stats.Interval `json:"ratio,omitempty"`      // new over base
	P           *float64        `json:"p,omitempty"`
	// OnRatio: P is of the ratio instead, as for latencies.
	OnRatio    bool              `json:"on_ratio,omitempty"`
	PAdjusted  *float64          `json:"p_adjusted,omitempty"`
	Family     Family            `json:"family"`
	Detectable *float64          `json:"detectable,omitempty"`
	Smallest   *Smallest         `json:"smallest,omitempty"`
	Verdict    Verdict           `json:"verdict"`
	Warnings   []figures.Warning `json:"warnings"`

	constant bool // neither side has any spread
	several  bool // several base runs are compared
	test     stats.Result
}

// changes are all metrics of one treatment known on at least one side.
func (a *Across) changes(t plan.Treatment, reference bool, base [][]figures.Measured, next []figures.Measured) {
	all := slices.Concat(base...)
	for _, m := range metric.Known(append(metricsOf(all), metricsOf(next)...)...) {
		var runs [][]float64
		var means []float64
		for _, trials := range base {
			if v := valuesOf(trials, m.Name); len(v) > 0 {
				runs, means = append(runs, v), append(means, stats.Mean(v))
			}
		}
		n := valuesOf(next, m.Name)
		c := Change{
			Treatment: t.ID, Factors: t.Factors, Control: t.Control, Reference: reference, Metric: m.Name, Unit: m.Unit,
			NBase: len(slices.Concat(runs...)), NNew: len(n), Base: number(stats.Mean(means)), New: number(stats.Mean(n)),
			BaseRuns: len(runs), BetweenRuns: number(stats.SD(means)), several: len(base) > 1,
			Family: familyOf(m, t.Control), Verdict: Insufficient,
			Warnings: figures.UnionWarnings(metricWarnings(all, m.Name), metricWarnings(next, m.Name)),
		}
		c.fill(runs, n, a.Confidence, m.Judged)
		a.Changes = append(a.Changes, c)
	}
}

func (c *Change) fill(runs [][]float64, next []float64, confidence float64, judged metric.Judgement) {
	if len(runs) == 0 || len(next) == 0 {
		c.Warnings = append(c.Warnings, figures.Warning{Code: "unknown-on-one-side", Message: c.Metric + " is known in one of the two runs only",
			Hint: "see the reports of the two runs"})
		return
	}
	base := slices.Concat(runs...)
	d, r, exact := stats.Welch(next, base, confidence), stats.WelchRatio(next, base, confidence), stats.ExactApart(len(next), len(base))
	if c.several {
		d, r, exact = stats.AgainstRuns(next, runs, confidence), stats.AgainstRunsRatio(next, runs, confidence), stats.ExactApart(1, len(runs))
	}
	c.Difference, c.P, c.test = &d.Interval, d.P, d
	if v, ok := stats.WelchDetectable(next, base, 1-confidence, stats.Power); ok && !c.several {
		c.Detectable = &v
	}
	switch w, ok := absent(d.Why, d.N, "trial of the run that has fewer"); {
	case ok && c.several && d.Why == stats.TooFew:
		c.Warnings = append(c.Warnings, figures.Warning{Code: "few-runs", Message: fmt.Sprintf("no interval: %s, and it needs %d", printable.Counted(d.N, "base run"), stats.MinN),
			Hint: "give more base runs"})
	case ok:
		c.Warnings = append(c.Warnings, w)
	}
	if !math.IsNaN(r.Estimate) {
		c.Ratio = &r.Interval
		if judged == metric.ByRatio && r.P != nil {
			c.P, c.OnRatio, c.test = r.P, true, r
		}
	}
	if d.Why == stats.NoSpread {
		c.constant, c.Verdict = true, NotShown
		if !isZero(d.Estimate, next[0], base[0]) {
			c.P = &exact
		}
	}
}

// direction is above zero if the new run is higher.
func (c *Change) direction() float64 {
	if c.OnRatio {
		return c.Ratio.Estimate - 1
	}
	return c.Difference.Estimate
}
