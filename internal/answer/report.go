// Package answer makes the report of a results directory: figures of every trial, estimates of every treatment,
// comparisons, the noise, costs in money, and warnings with their fixes. Its JSON form is a
// public contract. The package runs nothing.
package answer

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
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
	return lists.First(r.Comparisons, func(c compare.Comparison) bool { return c.Treatment == treatment && c.Metric == name })
}

// Metrics lists the metrics known for any treatment, in the order of the metric table.
func (r *Report) Metrics() []metric.Metric {
	all := lists.Map(r.Treatments, func(t compare.Treatment) map[string]compare.Estimate { return t.Metrics })
	return metric.Known(all...)
}

// Decided is the outcome of the gates of the run.
func (r *Report) Decided() compare.Outcome { return compare.Decided(r.Decisions) }

// Analysis is a report with what it was computed from, for output that shows more of a run than its report.
type Analysis struct {
	Report  *Report
	Dir     *result.Dir
	Options compare.Options
}

// Analyze computes the report of a results directory. The directory may be of a
// run in progress or of an interrupted run: missing trials are counted.
func Analyze(d *result.Dir, o compare.Options) (*Report, error) {
	run, err := compare.Read(d, o)
	if err != nil {
		return nil, err
	}
	r := newReport(run)
	r.Directory = d.Path()
	if o.Ladder || run.File.Ladder {
		if r.Ladders, err = run.Ladders(); err != nil && o.Ladder {
			return nil, fmt.Errorf("analyse %s: %w", d.Path(), err)
		}
	}
	if r.Decisions, err = run.Decisions(); err != nil {
		return nil, fmt.Errorf("analyse %s: %w", d.Path(), err)
	}
	r.Executed = run.Executed(r.Comparisons)
	for i := range r.Decisions {
		x := &r.Decisions[i]
		if c, ok := r.Find(x.Treatment, x.Metric); ok {
			x.MemoryGrowth = r.GrowingApart(c)
		}
	}
	r.Configurations = configurations(run, func(id string) string { return d.TrialFile(id, result.ProvenanceDir) })
	r.Warnings = append(r.Warnings, sameConfigurations(r.Configurations)...)
	return r, nil
}

func newReport(run *compare.Run) *Report {
	compared := run.Compare()
	r := &Report{
		Schema: Schema, Experiment: run.Name(), Description: run.File.Metadata.Description, Names: run.File.Metadata.Names, Method: run.Method(),
		Confidence: run.Confidence(), Setup: run.Setup(), Count: run.Count(), Order: run.Plan.Order, Baseline: run.Baseline(),
		Treatments: run.Treatments(), Comparisons: compared.All(), Questions: compared.Questions(), Families: compared.Families, Floor: compared.Floor(),
		Lines: run.Lines(), Slopes: run.Slopes(), Weights: run.StandardWeights(),
		Expectations: expectations(run), Latencies: meanings(run.Records), Verified: verified(run),
	}
	r.Trials = make([]figures.Trial, len(run.Trials))
	for i, t := range run.Trials {
		r.Trials[i] = t.Trial
	}
	seconds := compare.LoadedSeconds(run.Records)
	r.addTrends(run.Confidence(), seconds)
	r.markGrowth(seconds)
	r.addChangeParts(run.Confidence())
	r.addControlTimes(run.Confidence())
	r.ChangeTimes = changeTimes(run, r.Treatments)
	r.ChangeMedians = changeMedians(&run.File)
	r.VersionMoves = versionMoves(run)
	r.Unrestarted = unrestarted(run)
	r.Stopping = stopping(run, r)
	r.Warnings = append(reportWarnings(run, r), compared.Diagnoses()...)
	return r
}
