package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"go.yaml.in/yaml/v3"
)

// Options of a report. The zero value is the experiment's own.
type Options struct {
	// Confidence of intervals, 0..1. 0 means the experiment file's, or else 0.95.
	Confidence float64
	// SameWithin is the margin of ratios that count as the same, such as 0.02. 0 means the experiment file's.
	SameWithin float64
	// Blocks limits the report to the first N blocks. 0 means all.
	Blocks int
	// Method of estimates and comparisons. Empty means the method that the results support.
	Method Method
	// Attribute reassigns tasks to planes. Nil means as recorded.
	Attribute func(mesh.Task) mesh.Task
	// Baseline names levels, by factor, that every other treatment is compared with. Empty means the plan's.
	Baseline map[string]string
	// Gates replace the experiment's gates, with Detect. Without any, the experiment's gates are decided.
	Gates  []string
	Detect float64 // share
	// LastLook marks the look after the last of Blocks as the last one of the gates: the run ended there by time.
	LastLook bool
	// Ladder adds what each treatment adds to the one before it. Without it, the ladder of the experiment file is used.
	Ladder bool
}

const defaultConfidence = 0.95

// File is the part of the experiment file that reports need. Everything
// else they need is in the plan and the records.
type File struct {
	Metadata struct {
		Name        string            `yaml:"name"`
		Description string            `yaml:"description"`
		Names       map[string]string `yaml:"names"`
	} `yaml:"metadata"`
	Baseline   map[string]any `yaml:"baseline"`
	Confidence float64        `yaml:"confidence"`
	Ladder     bool           `yaml:"ladder"`
	// Meshes as the rendered file has them.
	Meshes map[string]map[string]any `yaml:"meshes"`
	// Applications are the programs of the user that are compared, by name.
	Applications map[string]map[string]any `yaml:"applications"`
	// Equivalence as the rendered file has it: a share.
	Equivalence experiment.Share `yaml:"equivalence"`
	Platform    struct {
		Kind string `yaml:"kind"`
	} `yaml:"platform"`
	Validity struct {
		Unattributed float64 `yaml:"unattributed"`
		ErrorRatio   float64 `yaml:"errorRatio"`
	} `yaml:"validity"`
	Changes experiment.Changes `yaml:"changes"`
	Phases  struct {
		Measure experiment.Duration `yaml:"measure"`
		Soak    string              `yaml:"soak"`
	} `yaml:"phases"`
	Decide struct {
		Gates  []string         `yaml:"gates"`
		Detect experiment.Share `yaml:"detect"`
		AtEnd  bool             `yaml:"atEnd"`
	} `yaml:"decide"`
}

// Run is a results directory with the figures of its trials.
type Run struct {
	Plan        plan.Plan
	File        File
	Environment result.Environment
	Records     []result.Record
	Trials      []figures.Measured // as Records, in the same order
	Assumed     bool               // the baseline is the first mesh, since there is none without a mesh
	Planned     int                // blocks, though a run that stopped early has fewer
	Why         string             // the reason for stopping early

	lastLook  int // block after which gates are decided for the last time, 0 if none
	estimator estimator
}

// estimator computes estimates, differences and verdicts from the values of trials.
type estimator struct {
	confidence float64
	margin     float64 // of ratios that count as the same, 0 for none
	method     Method
	blocks     int
	places     map[string]int // position of a trial in its block, by ID, nil if positions are not used
	speed      *machineSpeed  // nil: the machine's speed is not used
}

// Read reads a results directory, and computes the metrics of its trials. The directory may be of a run in progress
// or of an interrupted run.
func Read(d *result.Dir, o Options) (*Run, error) {
	run := &Run{Plan: d.Plan(), Environment: d.Environment()}
	if err := yaml.Unmarshal(d.Experiment(), &run.File); err != nil {
		return nil, fmt.Errorf("analyse %s: read %s: %w", d.Path(), result.ExperimentFile, err)
	}
	if len(o.Gates) > 0 {
		run.File.Decide.Gates, run.File.Decide.Detect = o.Gates, experiment.Share(o.Detect)
	}
	if run.Plan.Order == "together" { // treatments were loaded at once: none has a cost of its own
		return nil, fmt.Errorf("analyse %s: order together is not supported", d.Path())
	}
	var err error
	if run.Records, err = d.Records(); err != nil {
		return nil, fmt.Errorf("analyse: %w", err)
	}
	if err := run.stopped(d); err != nil {
		return nil, fmt.Errorf("analyse: %w", err)
	}
	run.limit(o.Blocks)
	if o.LastLook {
		run.lastLook = run.Plan.Blocks
	}
	x := &run.estimator
	x.margin = cmp.Or(o.SameWithin, float64(run.File.Equivalence))
	x.confidence = cmp.Or(o.Confidence, run.File.Confidence, defaultConfidence)
	if !(x.confidence > 0 && x.confidence < 1) {
		return nil, fmt.Errorf("analyse %s: confidence is %v, expected a number between 0 and 1 such as 0.95", d.Path(), x.confidence)
	}
	x.method, err = methodFor(run, o.Method)
	if err := errors.Join(err, settleBaselines(run, o.Baseline)); err != nil {
		return nil, fmt.Errorf("analyse %s: %w", d.Path(), err)
	}
	x.blocks, x.places = run.Plan.Blocks, positionsIn(run)
	of := figures.Options{Published: x.method == AsPublished, Attribute: o.Attribute, File: d.TrialFile}
	if run.File.Phases.Soak != "" {
		of.Soak = x.confidence
	}
	run.Trials = figures.Measure(run.Environment, run.Records, of)
	run.invalidateForeign()
	x.speed = run.machineSpeed()
	return run, nil
}

// Confidence of all intervals, 0..1.
func (run *Run) Confidence() float64 { return run.estimator.confidence }

// Method of estimates and comparisons.
func (run *Run) Method() Method { return run.estimator.method }

// hasCosts reports whether figures are of treatments alone, with intervals.
func (x *estimator) hasCosts() bool { return x.method != AsPublished }

// alpha is the level of tests.
func (x *estimator) alpha() float64 { return 1 - x.confidence }

// stopped cuts the plan at the block after which the run stopped early.
func (run *Run) stopped(dir *result.Dir) error {
	run.Planned, run.lastLook = run.Plan.Blocks, run.Plan.Blocks
	s, err := dir.Stopped()
	if err != nil || s == nil {
		return err
	}
	if run.Why, run.lastLook = s.Why, 0; s.Last {
		run.lastLook = s.Block
	}
	run.limit(s.Block)
	return nil
}

// limit leaves out the later blocks. 0 means none.
func (run *Run) limit(blocks int) {
	if blocks <= 0 || blocks >= run.Plan.Blocks {
		return
	}
	run.Plan.Blocks = blocks
	run.Plan.Trials = slices.DeleteFunc(slices.Clone(run.Plan.Trials), func(t plan.Trial) bool { return t.Block > blocks })
	run.Records = slices.DeleteFunc(run.Records, func(r result.Record) bool { return r.Block > blocks })
}
