package analysis

import (
	"time"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
)

// Schema of a [Report] as JSON.
const Schema = "tare.report/v1"

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

// Report is the answer of an experiment. Its JSON form is a public contract
// (schema tare.report/v1). Unknown figures are absent, never zero.
type Report struct {
	options     Options        // that it was made with
	Schema      string         `json:"schema"`
	Experiment  string         `json:"experiment"`
	Description string         `json:"description,omitempty"`
	Method      Method         `json:"method"`
	Confidence  float64        `json:"confidence"` // of every interval, 0..1
	Baseline    map[string]any `json:"baseline"`
	Setup       Setup          `json:"setup"`
	Count       Count          `json:"count"`
	// Order of the trials if it was not random within each block: balanced, turns, once, interleaved, together.
	Order string `json:"order,omitempty"`
	// RatiosOnly: treatments were loaded at once, each with a part of the rate (order together). Metrics are those of
	// treatments that competed with one another, so that comparisons have ratios and no differences.
	RatiosOnly bool `json:"ratios_only,omitempty"`
	// Families are the numbers of tests, by [Family]. p_adjusted accounts for those of the
	// comparison's question, or without a question for all of them.
	Families map[Family]int `json:"families"`
	// Questions are families of their own, in the order of the treatments.
	Questions   []Question   `json:"questions,omitempty"`
	Treatments  []Treatment  `json:"treatments"`
	Comparisons []Comparison `json:"comparisons"`
	Trials      []Trial      `json:"trials"`
	Floor       []Floor      `json:"floor"`
	Lines       []Line       `json:"lines"`
	// Ladders are present if the experiment has ladder: true, or if they were asked for.
	Ladders []Ladder `json:"ladders,omitempty"`
	// Slopes are present if variants of a mesh differ in a number.
	Slopes []Slope `json:"slopes,omitempty"`
	// Noise is present with interleaved trials.
	Noise []NoiseSource `json:"noise,omitempty"`
	// Weights are present with reference: true.
	Weights  []StandardWeight `json:"standard_weights,omitempty"`
	Warnings []Warning        `json:"warnings"`
	// Configurations compare what treatments with variants of one mesh really ran.
	Configurations []Configuration `json:"configurations,omitempty"`
	// Decisions are present if the experiment has gates that end it.
	Decisions []Decision `json:"decisions,omitempty"`
	// Stopping is present if the number of blocks depends on the results.
	Stopping *Stopping `json:"stopping,omitempty"`
	// Latencies define the latencies of other generators than tare's own.
	Latencies []LatencyMeaning `json:"latencies,omitempty"`
	// Cost is present if prices were given: see [Report.AddCost].
	Cost *Cost `json:"cost,omitempty"`
	// Expectations are absent where the experiment has none.
	Expectations []Expectation `json:"expectations,omitempty"`
}

// LatencyMeaning is the definition of one generator's latency.
type LatencyMeaning struct {
	Generator string `json:"generator"`
	Of        string `json:"of"` // "response": latency_ms; "service": service_ms
	Meaning   string `json:"meaning"`
}

// Setup is the environment of the figures. A field that was not recorded is absent.
type Setup struct {
	Tare       string            `json:"tare,omitempty"`
	Platform   string            `json:"platform,omitempty"`
	OS         string            `json:"os,omitempty"`
	Kernel     string            `json:"kernel,omitempty"`
	CPUModel   string            `json:"cpu_model,omitempty"`
	CPUs       int               `json:"cpus,omitempty"`
	MemoryMB   int64             `json:"memory_mb,omitempty"`
	Governor   string            `json:"governor,omitempty"`
	Versions   map[string]string `json:"versions,omitempty"`
	Variants   map[string]string `json:"variants,omitempty"`  // of meshes, by name: origin and changes
	Generator  string            `json:"generator,omitempty"` // by name, or mixed
	Loop       string            `json:"loop,omitempty"`      // open | paced | closed | mixed
	Arrivals   string            `json:"arrivals,omitempty"`
	Way        string            `json:"way,omitempty"`      // of the load to the application, where it is not to the entry
	WarmupS    *float64          `json:"warmup_s,omitempty"` // the shortest
	MeasureS   *float64          `json:"measure_s,omitempty"`
	Seed       uint64            `json:"seed,omitempty"`
	Probe      string            `json:"probe,omitempty"` // the work of the calibration probe, absent if none was run
	FirstStart *time.Time        `json:"first_start,omitempty"`
	LastEnd    *time.Time        `json:"last_end,omitempty"`
}

// ArrivalsOfFile are the arrivals in the words of the experiment file, which has recorded for the load
// generator's replay.
func (s Setup) ArrivalsOfFile() string {
	if s.Arrivals == load.Replay {
		return experiment.Recorded
	}
	return s.Arrivals
}

// Count divides the planned trials by outcome. The estimates use the Used
// trials. Planned = Used + Invalid + Failed + Missing.
type Count struct {
	Blocks  int `json:"blocks"`
	Planned int `json:"planned"`
	Used    int `json:"used"`
	Invalid int `json:"invalid"`
	Failed  int `json:"failed"`
	Missing int `json:"missing"` // not recorded: the run was interrupted, or goes on
}

// Warning is kept with the figures it concerns, and has a hint.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Trials it was seen in. 0 means that it is not about single trials.
	Trials int `json:"trials,omitempty"`
	// Invalidates marks a trial excluded by the warning.
	Invalidates bool `json:"invalidates,omitempty"`
	// Withholds marks metrics that were left out of this trial.
	Withholds bool `json:"withholds,omitempty"`
	// Metrics it concerns, by base name ("latency_ms") or full name. Empty means all.
	Metrics []string `json:"metrics,omitempty"`
}

// Estimate is a metric of a treatment: the mean over its valid trials, with
// Student's interval over them.
type Estimate struct {
	stats.Interval
	Unit     string    `json:"unit"`
	N        int       `json:"n"`
	SD       *float64  `json:"sd,omitempty"` // over trials
	CV       *float64  `json:"cv,omitempty"` // SD over mean
	Warnings []Warning `json:"warnings"`
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
	Warnings  []Warning           `json:"warnings"`
}

// Comparison is one metric of a treatment against its baseline.
type Comparison struct {
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	Baseline  string       `json:"baseline"`
	Against   plan.Factors `json:"against"`
	// Control marks the A/A pair: both sides are the baseline, and any difference is noise.
	Control bool   `json:"control,omitempty"`
	Metric  string `json:"metric"`
	Unit    string `json:"unit"`
	// Difference is treatment minus baseline, absent if no block has both, or with ratios only. Ratio
	// is treatment over baseline, absent if a value is not above zero.
	Difference *stats.Interval `json:"difference,omitempty"`
	Ratio      *stats.Interval `json:"ratio,omitempty"`
	N          int             `json:"n"`                    // complete pairs
	PairsLost  int             `json:"pairs_lost,omitempty"` // blocks in which a side failed, was invalid or is unknown
	P          *float64        `json:"p,omitempty"`          // two-sided, of the difference
	// OnRatio: P is of the ratio instead, as for latencies.
	OnRatio   bool     `json:"on_ratio,omitempty"`
	PAdjusted *float64 `json:"p_adjusted,omitempty"` // Holm, within Family
	// Equivalence is present if a margin was given and the ratio is defined.
	Equivalence *Equivalence `json:"equivalence,omitempty"`
	Family      Family       `json:"family"`
	// Question that the test belongs to, by [Question.ID]. Absent means that its family is that of the run.
	Question string `json:"question,omitempty"`
	// Detectable is the true difference that these pairs would show with 80 % power, if
	// this were the only comparison. Smallest has the level that applied. It is an approximation, 5 % too low
	// with three pairs ([stats.MinDetectable]), and that of Smallest is not.
	Detectable *float64  `json:"detectable,omitempty"`
	Smallest   *Smallest `json:"smallest,omitempty"`
	// BlocksNeeded is the number of blocks that would show this difference, with this
	// spread, at the level that applied. Present if the difference would be shown by itself.
	BlocksNeeded int `json:"blocks_needed,omitempty"`
	// Position is present if the positions in the block narrowed Difference or Ratio.
	Position *Positioned `json:"position,omitempty"`
	// Speed is present if the machine's speed in the blocks narrowed Difference.
	Speed    *SpeedAdjusted `json:"speed,omitempty"`
	Verdict  Verdict        `json:"verdict"`
	Warnings []Warning      `json:"warnings"`

	test   stats.Result // of the verdict: the difference, or the ratio
	values []float64    // differences, or logarithms of ratios, by block
	logs   []float64    // logarithms of ratios, by block, empty if not positive
	blocks []int        // of values
}

// Smallest is the smallest true difference that a comparison would show four times in
// five, at the level that Holm's step-down applied to it. The interval is that of the
// standard deviation.
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
	Treatment  string          `json:"treatment"` // the control
	Factors    plan.Factors    `json:"factors"`
	Metric     string          `json:"metric"`
	Unit       string          `json:"unit"`
	Difference *stats.Interval `json:"difference,omitempty"`
	Ratio      *stats.Interval `json:"ratio,omitempty"`
	Detectable *float64        `json:"detectable,omitempty"`
	Smallest   *Smallest       `json:"smallest,omitempty"`
	N          int             `json:"n"`
	P          *float64        `json:"p,omitempty"`
	PAdjusted  *float64        `json:"p_adjusted,omitempty"`
	Family     Family          `json:"family"`
	Verdict    Verdict         `json:"verdict"`
	Warnings   []Warning       `json:"warnings"`
}

// Trial is one recorded trial with its metrics. What could not be known is
// absent from Metrics.
type Trial struct {
	ID        string             `json:"id"`
	Ordinal   int                `json:"ordinal"`
	Block     int                `json:"block"`
	Treatment string             `json:"treatment"`
	Factors   plan.Factors       `json:"factors"`
	Control   bool               `json:"control,omitempty"`
	Valid     bool               `json:"valid"`
	Error     string             `json:"error,omitempty"`
	Metrics   map[string]float64 `json:"metrics"`
	Warnings  []Warning          `json:"warnings"`

	roles  map[taskRole]map[string]float64
	slices sliceCosts
}
