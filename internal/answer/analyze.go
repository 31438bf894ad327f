package answer

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
)

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
		Lines: run.Lines(), Slopes: run.Slopes(), Noise: run.Noise(), Weights: run.StandardWeights(),
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
