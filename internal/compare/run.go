// Package compare estimates treatments and compares them: within a run with their baselines, from run to run, and over
// a history of runs. It has the families of tests, gates, and their looks during a run.
//
// The trial is the unit, and treatments are paired within blocks. An interval that cannot be given is absent, with
// a warning in its place. docs/explanation/methodology.md has the rules with their sources.
package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
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
		Gates  []string            `yaml:"gates"`
		Detect experiment.Share    `yaml:"detect"`
		AtEnd  bool                `yaml:"atEnd"`
		Within experiment.Duration `yaml:"within"`
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
	var rows map[string][]result.Slice
	var err error
	if run.Records, rows, err = result.RecordsAndSlices(d); err != nil {
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
	of := figures.Options{Published: x.method == AsPublished, Attribute: o.Attribute, File: d.TrialFile, Slices: rows}
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

// imported is the platform of results that another tool measured.
const ImportPlatform = "import"

// methodFor is the requested method, or the one that suits the run.
func methodFor(run *Run, requested Method) (Method, error) {
	foreign := run.File.Platform.Kind == ImportPlatform
	switch {
	case requested == "" && (foreign || run.Plan.Order == experiment.OrderOnce):
		return Unpaired, nil
	case requested == "":
		return Paired, nil
	case !slices.Contains(Methods(), requested):
		return "", hint.New("methods: paired, unpaired, as-published", "unknown method %q", requested)
	case requested == Paired && foreign:
		return "", hint.New("leave the method out, or use unpaired", "imported runs were not interleaved: nothing pairs within blocks")
	case requested == AsPublished && !slices.ContainsFunc(run.Records, figures.IsSampled):
		return "", hint.New("leave the method out", "as-published needs imported results with sampled figures, and there are none")
	}
	return requested, nil
}

const (
	// Unpaired compares means of runs that were not interleaved.
	Unpaired Method = "unpaired"
	// AsPublished reduces sampled figures by the method of the project that published
	// them. Like that project, it gives no intervals and no comparisons.
	AsPublished Method = "as-published"
)

// Methods lists what [Options.Method] may be.
func Methods() []Method { return []Method{Paired, Unpaired, AsPublished} }

// settleBaselines makes the requested levels the baseline. Imported results
// without one are compared with the first mesh they name, so that something can
// be compared. A warning reports that this mesh is not a chosen baseline.
func settleBaselines(run *Run, requested map[string]string) error {
	if len(requested) == 0 {
		if run.File.Platform.Kind != ImportPlatform || slices.ContainsFunc(run.Plan.Treatments, func(t plan.Treatment) bool { return t.Baseline != "" }) {
			return nil
		}
		first, several := firstMesh(run)
		if !several {
			return nil
		}
		run.Assumed, requested = true, map[string]string{experiment.MeshFactor: first}
	}
	run.Plan.Treatments = slices.Clone(run.Plan.Treatments)
	found := false
	for i := range run.Plan.Treatments {
		t := &run.Plan.Treatments[i]
		if t.Control {
			continue
		}
		t.Baseline = ""
		for _, b := range run.Plan.Treatments {
			if !b.Control && b.ID != t.ID && levelsAre(b.Factors, requested) && equalBut(t.Factors, b.Factors, requested) {
				t.Baseline, found = b.ID, true
			}
		}
	}
	if !found {
		return hint.New("levels: "+run.levels(requested), "no treatment has the baseline %s and another treatment to compare", levelList(requested))
	}
	run.File.Baseline = map[string]any{}
	for _, t := range run.Plan.Treatments {
		if levelsAre(t.Factors, requested) {
			for f := range requested {
				run.File.Baseline[f] = t.Factors[f]
			}
		}
	}
	return nil
}

func firstMesh(run *Run) (first string, several bool) {
	for _, t := range run.Plan.Treatments {
		switch m, ok := t.Factors[experiment.MeshFactor].(string); {
		case ok && first == "":
			first = m
		case ok && m != first:
			several = true
		}
	}
	return first, several
}

// levels lists the levels of the factors of requested.
func (run *Run) levels(requested map[string]string) string {
	var s []string
	for _, f := range slices.Sorted(maps.Keys(requested)) {
		for _, t := range run.Plan.Treatments {
			if v, ok := t.Factors[f]; ok && !slices.Contains(s, f+"="+LevelText(v)) {
				s = append(s, f+"="+LevelText(v))
			}
		}
	}
	if s == nil {
		return "none of these factors is in the results"
	}
	return strings.Join(s, ", ")
}

// keyOf identifies a treatment by the levels of all factors, or where a plan
// does not hold them (an import) by those it names.
func keyOf(plans ...plan.Plan) func(plan.Treatment) string {
	typed := true
	for _, p := range plans {
		for _, t := range p.Treatments {
			typed = typed && t.Levels.Mesh != ""
		}
	}
	return func(t plan.Treatment) string {
		var what any = t.Factors
		if typed {
			what = t.Levels
		}
		b, err := json.Marshal(what) // maps are written in the order of their keys
		if err != nil {
			return t.ID
		}
		return fmt.Sprint(t.Control, string(b))
	}
}

// levelsAre reports whether the factors have all wanted levels.
func levelsAre(f plan.Factors, want map[string]string) bool {
	for name, level := range want {
		v, ok := f[name]
		if !ok || LevelText(v) != level {
			return false
		}
	}
	return true
}

// equalBut reports whether a and b agree in every factor that but does not name.
func equalBut(a, b plan.Factors, but map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if _, named := but[name]; !named && b[name] != v {
			return false
		}
	}
	return true
}

func levelList(m map[string]string) string {
	return strings.Join(lists.Map(slices.Sorted(maps.Keys(m)), func(f string) string { return f + "=" + m[f] }), ",")
}

// LevelText is a level of a factor as text: numbers without exponent.
func LevelText(v any) string {
	switch v := v.(type) {
	case nil:
		return "unknown"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// WithoutRate returns the factors but for the rate.
func WithoutRate(f plan.Factors) plan.Factors { return without(f, experiment.RateFactor) }

func without(f plan.Factors, factor string) plan.Factors {
	rest := plan.Factors{}
	for name, v := range f {
		if name != factor {
			rest[name] = v
		}
	}
	return rest
}

// Role is a part of a treatment's data or control plane: node proxies apart from
// waypoints, a control plane's own proxies apart from its servers, and the load
// generator's own sidecars apart from the others. If a source has only namespaces,
// each namespace is a role.
type Role struct {
	Plane     metric.Plane        `json:"plane"`
	Role      string              `json:"role"`
	Component string              `json:"component,omitempty"`
	Metrics   map[string]Estimate `json:"metrics"` // by base name, e.g. of CPU cores
}

// roles estimates each role of the data plane over the trials.
func (x *estimator) roles(trials []figures.Measured) []Role {
	values := map[figures.TaskRole]map[string][]float64{}
	var order []figures.TaskRole
	for _, t := range trials {
		for r, metrics := range t.Roles {
			if values[r] == nil {
				values[r] = map[string][]float64{}
				order = append(order, r)
			}
			for name, v := range metrics {
				values[r][name] = append(values[r][name], v)
			}
		}
	}
	slices.SortFunc(order, func(a, b figures.TaskRole) int {
		return cmp.Or(cmp.Compare(b.Plane, a.Plane), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Component, b.Component)) // data before control
	})
	var out []Role
	for _, r := range order {
		role := Role{Plane: r.Plane, Role: r.Role, Component: r.Component, Metrics: map[string]Estimate{}}
		for name, v := range values[r] {
			if row, ok := metric.LookupBase(name); ok {
				role.Metrics[name] = x.estimate(metric.Metric{Name: name, Unit: row.Unit}, v, trials[:len(v)], warnedOf(trials[:len(v)]))
			}
		}
		out = append(out, role)
	}
	return out
}

// sidecars counts the pods with a sidecar in each valid trial of a treatment: a sidecar may have several processes. It
// returns 0 if trials differ, or if the data plane has tasks with another role.
func sidecars(run *Run, treatment string) int {
	count := -1
	for i := range run.Records {
		r := &run.Records[i]
		if r.Treatment != treatment || !run.Trials[i].Valid {
			continue
		}
		pods := map[string]bool{}
		for _, t := range r.Tasks {
			switch {
			case t.Plane != metric.Data:
			case t.Role != "sidecar":
				return 0
			default:
				pods[t.Pod] = true
			}
		}
		if count >= 0 && len(pods) != count {
			return 0
		}
		count = len(pods)
	}
	return max(count, 0)
}
