package analysis

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Options of [Analyze]. The zero value is the experiment's own.
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
	// Gates are decided instead of the experiment's, with Detect. Without any, those of the experiment are.
	Gates  []string
	Detect float64 // share
	// LastLook marks the look after the last of Blocks as the last one of the gates: the run ended there by time.
	LastLook bool
	// Ladder adds what each treatment adds to the one before it. Without it, the ladder of the experiment file is used.
	Ladder bool
}

const defaultConfidence = 0.95

// header is the part of the experiment file that analysis reads. Everything
// else it needs is in the plan and the records.
type header struct {
	Metadata struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	} `yaml:"metadata"`
	Baseline   map[string]any `yaml:"baseline"`
	Confidence float64        `yaml:"confidence"`
	Ladder     bool           `yaml:"ladder"`
	// Meshes as the rendered file has them.
	Meshes map[string]map[string]any `yaml:"meshes"`
	// Equivalence as the rendered file has it: a share.
	Equivalence experiment.Share `yaml:"equivalence"`
	Platform    struct {
		Kind string `yaml:"kind"`
	} `yaml:"platform"`
	Decide struct {
		Gates  []string         `yaml:"gates"`
		Detect experiment.Share `yaml:"detect"`
	} `yaml:"decide"`
}

// Analyze computes the answer of a results directory. The directory may be of a
// run in progress or of an interrupted run: missing trials are counted.
func Analyze(d *result.Dir, opts Options) (*Report, error) {
	a, err := measured(d, opts)
	if err != nil {
		return nil, err
	}
	r := a.report()
	r.options = opts
	if opts.Ladder || a.run.header.Ladder {
		if r.Ladders, err = a.ladders(a.run.validByTreatment()); err != nil && opts.Ladder {
			return nil, fmt.Errorf("analyse %s: %w", d.Path(), err)
		}
	}
	if r.Decisions, err = a.decisions(); err != nil {
		return nil, fmt.Errorf("analyse %s: %w", d.Path(), err)
	}
	r.Configurations = a.configurations(func(id string) string { return d.TrialFile(id, result.ProvenanceDir) })
	r.Warnings = append(r.Warnings, sameConfigurations(r.Configurations)...)
	return r, nil
}

// Options returns the options of [Analyze]. They are zero for a report that was read.
func (r *Report) Options() Options { return r.options }

// measured reads a results directory, and computes the metrics of its trials.
func measured(d *result.Dir, opts Options) (*analysis, error) {
	var head header
	if err := yaml.Unmarshal(d.Experiment(), &head); err != nil {
		return nil, fmt.Errorf("analyse %s: read %s: %w", d.Path(), result.ExperimentFile, err)
	}
	if len(opts.Gates) > 0 {
		head.Decide.Gates, head.Decide.Detect = opts.Gates, experiment.Share(opts.Detect)
	}
	records, err := d.Records()
	if err != nil {
		return nil, fmt.Errorf("analyse: %w", err)
	}
	separateNodes(records)
	reattribute(records, opts.Attribute)
	a := &analysis{
		run:       run{plan: d.Plan(), header: head, environment: d.Environment(), records: records},
		estimator: estimator{confidence: opts.Confidence},
	}
	if err := a.run.stopped(d); err != nil {
		return nil, fmt.Errorf("analyse: %w", err)
	}
	a.run.limit(opts.Blocks)
	if opts.LastLook {
		a.run.lastLook = a.run.plan.Blocks
	}
	if a.estimator.margin = opts.SameWithin; a.estimator.margin == 0 {
		a.estimator.margin = float64(head.Equivalence)
	}
	if a.estimator.confidence == 0 {
		a.estimator.confidence = head.Confidence
	}
	if a.estimator.confidence == 0 {
		a.estimator.confidence = defaultConfidence
	}
	if !(a.estimator.confidence > 0 && a.estimator.confidence < 1) {
		return nil, fmt.Errorf("analyse %s: confidence is %v, expected a number between 0 and 1 such as 0.95", d.Path(), a.estimator.confidence)
	}
	a.estimator.ratiosOnly = a.run.plan.Order == experiment.OrderTogether
	method, err := methodFor(&a.run, opts.Method)
	if err := errors.Join(err, a.run.settleBaselines(opts.Baseline)); err != nil {
		return nil, fmt.Errorf("analyse %s: %w", d.Path(), err)
	}
	a.estimator.method, a.estimator.blocks = method, a.run.plan.Blocks
	a.estimator.places = a.run.positions()
	fileOf := func(name string) func(string) string {
		return func(id string) string { return d.TrialFile(id, name) }
	}
	a.measure(fileOf(result.LatencyFile), fileOf(result.SlicesFile))
	a.estimator.work = a.machineWork()
	return a, nil
}

// reattribute changes the planes of recorded tasks, in memory only. The warnings of the run remain.
func reattribute(records []result.Record, attribute func(mesh.Task) mesh.Task) {
	if attribute == nil {
		return
	}
	for i := range records {
		for j := range records[i].Tasks {
			t := &records[i].Tasks[j]
			t.Task = attribute(t.Task)
		}
		if s := records[i].Sampled; s != nil {
			for j := range s.Tasks {
				s.Tasks[j] = attribute(s.Tasks[j])
			}
		}
	}
}

// run is the plan, the records and the analysed trials.
type run struct {
	plan        plan.Plan
	header      header
	environment result.Environment
	records     []result.Record
	trials      []Trial // as records, in the same order
	assumed     bool    // the baseline is the first mesh, since there is none without a mesh
	planned     int     // blocks, though a run that stopped early has fewer
	lastLook    int     // block after which gates are decided for the last time, 0 if none
	why         string  // the reason for stopping early
}

// estimator computes estimates, differences and verdicts from the values of trials.
type estimator struct {
	confidence float64
	margin     float64 // of ratios that count as the same, 0 for none
	ratiosOnly bool    // differences have no meaning
	method     Method
	blocks     int
	places     map[string]int // position of a trial in its block, by ID, nil if positions are not used
	work       *machineWork   // nil: the machine's speed is not used
}

// alpha is the level of tests.
func (x *estimator) alpha() float64 { return 1 - x.confidence }

// analysis is the state of one [Analyze].
type analysis struct {
	run       run
	estimator estimator
}

// measure computes the metrics of every trial, many at a time: decoding
// latency logs is most of the work of a report.
func (a *analysis) measure(latencyLog, sliceFile func(id string) string) {
	a.run.trials = make([]Trial, len(a.run.records))
	unsummed := a.run.makeUp()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range a.run.records {
		group.Go(func() error {
			r := &a.run.records[i]
			f := trialFigures(r, a.estimator.method)
			if a.estimator.ratiosOnly { // the machine had the load of the others too
				delete(f.values, metric.NodeCPU)
			}
			latencyFigures(f, r, latencyLog(r.ID), a.estimator.method)
			stageFigures(f, r)
			requestFigures(f, r)
			failureFigures(f, r, latencyLog(r.ID))
			costs := sliceFigures(f, r, sliceFile(r.ID))
			f.withhold(r.Warnings)
			f.unsum(unsummed[i])
			a.run.trials[i] = Trial{
				ID: r.ID, Ordinal: r.Ordinal, Block: r.Block, Treatment: r.Treatment, Factors: r.Factors, Control: r.Control,
				Valid: r.Valid && r.Error == "", Error: r.Error, Metrics: f.values, roles: f.roles, slices: costs,
				Warnings: append(append([]Warning{}, recorded(r)...), f.warnings...),
			}
			return nil
		})
	}
	_ = group.Wait() // no trial fails the report: what it lacks is among its warnings
	a.run.unlikeProbes()
}

func (a *analysis) report() *Report {
	r := &Report{
		Schema: Schema, Experiment: a.run.name(), Description: a.run.header.Metadata.Description, Method: a.estimator.method,
		Confidence: a.estimator.confidence, Setup: a.run.setup(), Count: a.run.count(), Order: a.run.plan.Order, RatiosOnly: a.estimator.ratiosOnly, Baseline: a.run.baseline(),
		Trials: a.run.trials, Comparisons: []Comparison{}, Floor: []Floor{}, Lines: []Line{},
	}
	byTreatment := a.run.validByTreatment()
	for _, t := range a.run.plan.Treatments {
		r.Treatments = append(r.Treatments, a.treatment(t, byTreatment[t.ID]))
	}
	planned := map[string]plan.Treatment{}
	for _, t := range a.run.plan.Treatments {
		planned[t.ID] = t
	}
	compared := make([][]Comparison, len(a.run.plan.Treatments))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range a.run.plan.Treatments {
		if t.Baseline == "" || a.estimator.method == AsPublished {
			continue
		}
		base := planned[t.Baseline]
		group.Go(func() error {
			compared[i] = a.estimator.compare(t, base, byTreatment[t.ID], byTreatment[base.ID])
			return nil
		})
	}
	_ = group.Wait() // none of them can fail
	for _, cs := range compared {
		r.Comparisons = append(r.Comparisons, cs...)
	}
	r.Questions = a.questions(r.Comparisons, byTreatment)
	r.Families = a.estimator.adjust(r.Comparisons, r.Questions)
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; c.Control {
			r.Floor = append(r.Floor, floor(c))
		}
	}
	if a.estimator.method != AsPublished && !a.estimator.ratiosOnly {
		r.Lines = a.estimator.lines(a.run.plan.Treatments, byTreatment)
		r.Slopes = a.slopes(byTreatment)
		r.Noise = a.estimator.noiseSources(a.run.plan.Treatments, byTreatment, a.price())
		r.Weights = a.standardWeights(byTreatment)
	}
	r.Stopping = a.stopping(r)
	r.Expectations = a.run.expectations()
	r.Latencies = meanings(a.run.records)
	r.Warnings = a.reportWarnings(r)
	r.Warnings = append(r.Warnings, diagnoses(r.Comparisons)...)
	return r
}

func (d *run) name() string {
	if d.plan.Experiment != "" {
		return d.plan.Experiment
	}
	return d.header.Metadata.Name
}

func (d *run) validByTreatment() map[string][]Trial {
	by := map[string][]Trial{}
	for _, t := range d.trials {
		if t.Valid {
			by[t.Treatment] = append(by[t.Treatment], t)
		}
	}
	return by
}

// baseline returns the baseline of the experiment file. Without one, it returns the
// levels that all baselines of the plan share and some other treatment lacks.
func (d *run) baseline() map[string]any {
	if len(d.header.Baseline) > 0 {
		return d.header.Baseline
	}
	isBase := map[string]bool{}
	for _, t := range d.plan.Treatments {
		if !t.Control {
			isBase[t.Baseline] = true
		}
	}
	common := map[string]any{}
	for _, t := range d.plan.Treatments {
		if !isBase[t.ID] {
			continue
		}
		for factor, level := range t.Factors {
			if d.distinguishes(factor, level, isBase) {
				common[factor] = level
			}
		}
	}
	return common
}

// distinguishes reports whether every baseline has this level of the factor and some other treatment another.
func (d *run) distinguishes(factor string, level any, isBase map[string]bool) bool {
	other := false
	for _, t := range d.plan.Treatments {
		same := t.Factors[factor] == level
		if isBase[t.ID] && !same {
			return false
		}
		other = other || !same
	}
	return other
}

func (d *run) count() Count {
	c := Count{Blocks: d.plan.Blocks, Planned: len(d.plan.Trials)}
	for _, t := range d.trials {
		switch {
		case t.Error != "":
			c.Failed++
		case !t.Valid:
			c.Invalid++
		default:
			c.Used++
		}
	}
	c.Missing = c.Planned - len(d.trials)
	return c
}

func (d *run) setup() Setup {
	e := d.environment
	s := Setup{
		Tare: e.Tare, Platform: e.Platform, OS: e.OS, Kernel: e.Kernel, CPUModel: e.CPUModel, CPUs: e.CPUs,
		MemoryMB: e.MemoryMB, Governor: e.Governor, Versions: e.Versions, Variants: e.Variants, Seed: d.plan.Seed, Way: d.plan.Way, Probe: probeWork(d.records),
	}
	for i := range d.records {
		r := &d.records[i]
		if !r.Started.IsZero() && !r.Ended.IsZero() { // imports may have no times
			if s.FirstStart == nil || r.Started.Before(*s.FirstStart) {
				s.FirstStart = &r.Started
			}
			if s.LastEnd == nil || r.Ended.After(*s.LastEnd) {
				s.LastEnd = &r.Ended
			}
		}
		if l := r.Load; l != nil {
			s.load(l)
		}
	}
	if d.header.Platform.Kind == imported && s.MeasureS != nil {
		// Worked out from requests over their rate: it is no better than a second.
		s.MeasureS = number(math.Round(*s.MeasureS))
	}
	return s
}

// mixed is the value of a property in which trials differ.
const mixed = "mixed"

// load takes over what all trials agree on.
func (s *Setup) load(l *result.Load) {
	if s.Generator == "" {
		s.Generator, s.Loop, s.Arrivals = l.Generator, l.Loop, l.Arrivals
		s.WarmupS, s.MeasureS = &l.WarmupSeconds, &l.MeasureSeconds
		return
	}
	if s.Generator != l.Generator {
		s.Generator = mixed
	}
	if l.WarmupSeconds < *s.WarmupS {
		s.WarmupS = &l.WarmupSeconds
	}
	if s.Loop != l.Loop {
		s.Loop = mixed
	}
	if s.Arrivals != l.Arrivals {
		s.Arrivals = mixed
	}
}
