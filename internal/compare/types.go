package compare

import (
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Verdict is the result of a comparison in words.
type Verdict string

const (
	Higher       Verdict = "higher"
	Lower        Verdict = "lower"
	NotShown     Verdict = "no difference shown" // which is not the same as none
	Same         Verdict = "same"                // shown to be within the margin that was asked for
	Insufficient Verdict = "insufficient"        // too few pairs
)

// Method is the way in which treatments are compared.
type Method string

const Paired Method = "paired" // differences within blocks

// Estimate is a metric of a treatment: the mean over its valid trials, with
// Student's interval over them.
type Estimate struct {
	stats.Interval
	Unit     string            `json:"unit"`
	N        int               `json:"n"`
	SD       *float64          `json:"sd,omitempty"` // over trials
	CV       *float64          `json:"cv,omitempty"` // SD over mean
	Warnings []figures.Warning `json:"warnings"`
}

// Treatment is one combination of factor levels.
type Treatment struct {
	ID        string              `json:"id"`
	Factors   plan.Factors        `json:"factors"`
	Control   bool                `json:"control,omitempty"`
	Reference bool                `json:"reference,omitempty"` // the standard weight
	Baseline  string              `json:"baseline,omitempty"`  // ID of what it is compared with, absent for a baseline
	N         int                 `json:"n"`                   // valid trials
	Planned   int                 `json:"planned"`
	Metrics   map[string]Estimate `json:"metrics"`
	Roles     []Role              `json:"roles,omitempty"` // of data and control plane, where they have several
	// Sidecars is the number of sidecars, absent if the data plane has other proxies or none.
	Sidecars int               `json:"sidecars,omitempty"`
	Warnings []figures.Warning `json:"warnings"`
}

// Comparison is one metric of a treatment: within a run against its baseline, or in a new run against earlier runs.
type Comparison struct {
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	// Baseline and Against are absent between runs.
	Baseline string       `json:"baseline,omitempty"`
	Against  plan.Factors `json:"against,omitempty"`
	// Control marks the A/A pair: both sides are the baseline, and any difference is noise.
	Control bool   `json:"control,omitempty"`
	Metric  string `json:"metric"`
	Unit    string `json:"unit"`
	*Runs          // nil within a run
	// Difference is treatment minus baseline, or new minus base. It is absent if no block or run has both, or with
	// ratios only. Ratio is treatment over baseline, absent if a value is not above zero.
	Difference *stats.Interval `json:"difference,omitempty"`
	Ratio      *stats.Interval `json:"ratio,omitempty"`
	N          int             `json:"n"`                    // complete pairs; between runs the trials of the run that has fewer, or the base runs
	PairsLost  int             `json:"pairs_lost,omitempty"` // blocks in which a side failed, was invalid or is unknown
	P          *float64        `json:"p,omitempty"`          // two-sided, of the difference
	// OnRatio: P is of the ratio instead, as for latencies.
	OnRatio   bool     `json:"on_ratio,omitempty"`
	PAdjusted *float64 `json:"p_adjusted,omitempty"` // Holm, within Family
	// Equivalence is present if a margin was given and the ratio is defined.
	Equivalence *Equivalence `json:"equivalence,omitempty"`
	Family      Family       `json:"family"`
	// Question that the test belongs to, by [Question.ID]. Absent means the family of the run.
	Question string `json:"question,omitempty"`
	// Detectable is the true difference that these pairs would show with 80 % power, if
	// this were the only comparison. Smallest has the level that applied. Detectable is an approximation, 5 % too low
	// with three pairs ([stats.MinDetectable]), and Smallest is exact.
	Detectable *float64  `json:"detectable,omitempty"`
	Smallest   *Smallest `json:"smallest,omitempty"`
	// BlocksNeeded is the number of blocks that would show this difference, with this
	// spread, at the level that applied. Present if the difference would be shown by itself.
	BlocksNeeded int `json:"blocks_needed,omitempty"`
	// Position is present if the positions in the block narrowed Difference or Ratio.
	Position *Positioned `json:"position,omitempty"`
	// Speed is present if the machine's speed in the blocks narrowed Difference.
	Speed *SpeedAdjusted `json:"speed,omitempty"`
	// Limit is the part of the intervals that is not of their spread: work that may be missing in the treatments' CPU, or
	// too much in it.
	Limit    *figures.Limit    `json:"limit,omitempty"`
	Verdict  Verdict           `json:"verdict"`
	Warnings []figures.Warning `json:"warnings"`
}

// Runs has the two sides of a comparison between runs.
type Runs struct {
	// Reference marks a treatment that others are compared with in its own run. It usually has
	// no mesh: if it changes, the machine or the application changed.
	Reference bool     `json:"reference,omitempty"`
	Base      *float64 `json:"base,omitempty"` // mean over valid trials, or over the means of several runs
	New       *float64 `json:"new,omitempty"`
	// BaseRuns is the number of base runs that have the metric, and BetweenRuns the standard deviation of their means.
	BaseRuns    int      `json:"base_runs,omitempty"`
	BetweenRuns *float64 `json:"between_runs,omitempty"`
	NBase       int      `json:"n_base"` // trials
	NNew        int      `json:"n_new"`
	// BaseGrowth and NewGrowth are the growth of memory that was still growing at the end, MiB a minute.
	BaseGrowth *stats.Interval `json:"base_growth_mib_per_minute,omitempty"`
	NewGrowth  *stats.Interval `json:"new_growth_mib_per_minute,omitempty"`
	// Warm is the comparison of the trials in which programs were warm, absent if they were in all.
	Warm *Comparison `json:"warm,omitempty"`
}

// compared is a comparison with the values that it rests on.
type compared struct {
	Comparison
	test   stats.Result // of the verdict: the difference, or the ratio
	values []float64    // differences, or logarithms of ratios, by block
	logs   []float64    // logarithms of ratios, by block, empty if not positive
	blocks []int        // of values
}

// Smallest is the smallest true difference that a comparison would show four times in
// five, at the level that Holm's step-down applied to it. The interval follows the
// interval of the standard deviation.
type Smallest struct {
	stats.Interval
	// Relative: a ratio less one, where the verdict rests on the ratio.
	Relative bool    `json:"relative,omitempty"`
	Level    float64 `json:"level"`
}

// Floor is the result of an A/A pair for one metric: the difference of two
// identical treatments, and the smallest true difference a comparison as noisy
// as this one would show with 80 % power.
type Floor struct {
	Treatment  string            `json:"treatment"` // the control
	Factors    plan.Factors      `json:"factors"`
	Metric     string            `json:"metric"`
	Unit       string            `json:"unit"`
	Difference *stats.Interval   `json:"difference,omitempty"`
	Ratio      *stats.Interval   `json:"ratio,omitempty"`
	Detectable *float64          `json:"detectable,omitempty"`
	Smallest   *Smallest         `json:"smallest,omitempty"`
	N          int               `json:"n"`
	P          *float64          `json:"p,omitempty"`
	PAdjusted  *float64          `json:"p_adjusted,omitempty"`
	Family     Family            `json:"family"`
	Verdict    Verdict           `json:"verdict"`
	Warnings   []figures.Warning `json:"warnings"`
}

// Family is a set of tests adjusted together: the chance of any false claim in
// it is at most one minus the confidence.
//
// The headline metrics of all treatments against their baselines are one family, fixed before the run: a report's first lines
// name the treatments that differ. See [Question] for treatments that are levels of one change.
// About eighty others repeat them (cores for CPU per request, mesh for data plane,
// five quantiles of two latencies) and are a second family. In one family with them,
// four blocks would have almost no power, and an A/A pair that differs by a third
// would pass for equal. A/A pairs have two separate families of the same kind, since
// they make no claim.
type Family string

const (
	Headline   Family = "headline"
	Others     Family = "others"
	HeadlineAA Family = "a/a headline"
	OthersAA   Family = "a/a others"
)

func familyOf(m metric.Metric, control bool) Family {
	switch {
	case m.Headline && control:
		return HeadlineAA
	case m.Headline:
		return Headline
	case control:
		return OthersAA
	}
	return Others
}
