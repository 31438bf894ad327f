package answer

import (
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"

	"github.com/tare-mesh/tare/internal/compare"
)

// Schema of a [Report] as JSON.
const Schema = "tare.report/v1"

// Report is the answer of an experiment. Its JSON form is a public contract
// (schema tare.report/v1). Unknown figures are absent, never zero.
type Report struct {
	Schema      string `json:"schema"`
	Experiment  string `json:"experiment"`
	Description string `json:"description,omitempty"`
	// Directory is the results directory, as it was named.
	Directory string `json:"directory,omitempty"`
	// Names of levels, by level. Other levels are named by themselves.
	Names      map[string]string `json:"names,omitempty"`
	Method     compare.Method    `json:"method"`
	Confidence float64           `json:"confidence"` // of every interval, 0..1
	Baseline   map[string]any    `json:"baseline"`
	Setup      compare.Setup     `json:"setup"`
	Count      compare.Count     `json:"count"`
	// Order of the trials if it was not random within each block: balanced, turns, once, interleaved.
	Order string `json:"order,omitempty"`
	// Families are the numbers of tests, by [compare.Family]. p_adjusted accounts for the tests of the
	// comparison's question, or without a question for all of them.
	Families map[compare.Family]int `json:"families"`
	// Questions are families of their own, in the order of the treatments.
	Questions   []compare.Question   `json:"questions,omitempty"`
	Treatments  []compare.Treatment  `json:"treatments"`
	Comparisons []compare.Comparison `json:"comparisons"`
	Trials      []figures.Trial      `json:"trials"`
	Floor       []compare.Floor      `json:"floor"`
	Lines       []compare.Line       `json:"lines"`
	// Ladders are present if the experiment has ladder: true, or if they were asked for.
	Ladders []compare.Ladder `json:"ladders,omitempty"`
	// Slopes are present if variants of a mesh differ in a number.
	Slopes []compare.Slope `json:"slopes,omitempty"`
	// Trends are present with phases.soak.
	Trends []Trend `json:"trends,omitempty"`
	// ChangeTimes are of changes that are too few for a median.
	ChangeTimes []ChangeTimes `json:"change_times,omitempty"`
	// ChangeMedians are the settings for medians of changes, present if an experiment has too few changes for them.
	ChangeMedians *ChangeMedians `json:"change_medians,omitempty"`
	// VersionMoves are the versions of a mesh before and after version changes.
	VersionMoves []VersionMove `json:"version_moves,omitempty"`
	// Unrestarted are the restarts that ended no process, because there is no mesh.
	Unrestarted []Unrestarted `json:"unrestarted,omitempty"`
	// ChangeParts is where the time of changes went, as control plane and proxies count it.
	ChangeParts []ChangeParts `json:"change_parts,omitempty"`
	// ControlTimes are stages of control planes as they count them, present with changes on a cluster.
	ControlTimes []ControlTimes `json:"control_times,omitempty"`
	// Noise is present with interleaved trials.
	Noise []compare.NoiseSource `json:"noise,omitempty"`
	// Weights are present with reference: true.
	Weights  []compare.StandardWeight `json:"standard_weights,omitempty"`
	Warnings []figures.Warning        `json:"warnings"`
	// Configurations compare what treatments with variants of one mesh really ran.
	Configurations []Configuration `json:"configurations,omitempty"`
	// Decisions are present if the experiment has gates that end it.
	Decisions []compare.Decision `json:"decisions,omitempty"`
	// Executed are the changes of programs that end, absent for servers.
	Executed []compare.Decision `json:"executed,omitempty"`
	// Stopping is present if the number of blocks depends on the results.
	Stopping *Stopping `json:"stopping,omitempty"`
	// Latencies define the latencies of other generators than tare's own.
	Latencies []LatencyMeaning `json:"latencies,omitempty"`
	// Verified is how traffic through proxies was verified, absent without any.
	Verified []Verified `json:"verified,omitempty"`
	// Cost is present if prices were given: see [Report.AddCost].
	Cost *Cost `json:"cost,omitempty"`
	// Expectations are absent where the experiment has none.
	Expectations []Expectation `json:"expectations,omitempty"`
}

// Find returns the comparison of a treatment's metric.
func (r *Report) Find(treatment, name string) (compare.Comparison, bool) {
	for _, c := range r.Comparisons {
		if c.Treatment == treatment && c.Metric == name {
			return c, true
		}
	}
	return compare.Comparison{}, false
}

// Metrics lists the metrics known for any treatment, in the order of the metric table.
func (r *Report) Metrics() []metric.Metric {
	var all []map[string]compare.Estimate
	for _, t := range r.Treatments {
		all = append(all, t.Metrics)
	}
	return metric.Known(all...)
}

// Decided is the outcome of the gates of the run.
func (r *Report) Decided() compare.Outcome { return compare.Decided(r.Decisions) }
