package answer

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// reportWarnings are one line a code for the whole report, the gravest first.
func reportWarnings(run *compare.Run, r *Report) []figures.Warning {
	ws := append([]figures.Warning{}, answersDiffer(run)...)
	imported := run.File.Platform.Kind == compare.ImportPlatform
	if imported {
		ws = append(ws, importWarnings(run)...)
	} else {
		ws = append(ws, floorWarnings(r)...)
	}
	ws = append(ws, orderWarnings(run)...)
	ws = append(ws, unequal(run)...)
	ws = append(ws, foreign(run)...)
	ws = append(ws, lostTrials(run, r.Count)...)
	ws = append(ws, short(r.Treatments)...)
	ws = append(ws, memoryGrows(r.Treatments)...)
	ws = append(ws, outsideDiffers(r.Comparisons)...)
	ws = append(ws, r.Stopping.warnings()...)
	var t figures.Tally
	for _, trial := range r.Trials {
		if trial.Error != "" {
			continue
		}
		for _, w := range trial.Warnings {
			if !imported || w.Code != "tasks-unknown" { // a load generator measures no tasks
				t.Add(trial.ID, w)
			}
		}
	}
	return append(ws, t.Warnings()...)
}

func floorWarnings(r *Report) []figures.Warning {
	if len(r.Floor) == 0 {
		return []figures.Warning{{Code: "no-floor", Message: "the baseline was not measured twice: the noise is unknown",
			Hint: "measure the baseline twice: `control: true` in the experiment file"}}
	}
	var differ, titles []string
	for _, f := range r.Floor {
		if f.Verdict == compare.Higher || f.Verdict == compare.Lower {
			m, _ := metric.Lookup(f.Metric)
			differ, titles = append(differ, f.Metric), append(titles, "“"+m.Title()+"”")
		}
	}
	if differ == nil {
		return nil
	}
	return []figures.Warning{{Code: "aa-differs", Metrics: differ,
		Message: "the baseline differs from itself, but must not: " + printable.Listed(titles, 4) + "; ignore differences of that size elsewhere",
		Hint:    "the machine was not steady: stop other programs, pin CPUs, warm up longer, run more blocks; `tare doctor` searches for the cause"}}
}

// lostTrials names the planned trials that no estimate uses.
func lostTrials(run *compare.Run, c compare.Count) []figures.Warning {
	var invalid []string
	var failed causes
	for _, t := range run.Trials {
		switch {
		case t.Error != "":
			failed.add(t.ID, headOf(t.Error), t.Warnings)
		case !t.Valid:
			invalid = append(invalid, t.ID+reasons(&t.Trial))
		}
	}
	var ws []figures.Warning
	if len(failed) > 0 {
		ws = append(ws, figures.Warning{Code: "failed-trials", Trials: c.Failed,
			Message: "left out of every figure: " + failed.listed(3),
			Hint:    failed.hint() + "the logs are in each trial's provenance directory"})
	}
	if len(invalid) > 0 {
		ws = append(ws, figures.Warning{Code: "invalid-trials", Trials: c.Invalid,
			Message: "left out of every estimate: " + printable.Listed(invalid, 3),
			Hint:    "the reasons and fixes are among the warnings below"})
	}
	if c.Missing > 0 {
		ws = append(ws, figures.Warning{Code: "missing-trials", Trials: c.Missing,
			Message: "not recorded: the run is in progress, or was interrupted",
			Hint:    "finish it with `tare run --resume DIR`"})
	}
	return ws
}

// cause is the error of a trial, and the number of others with the same text but for words with digits: names and numbers.
type cause struct {
	trial, text, pattern string
	hint                 string // "": none
	more                 int
}

type causes []cause

func (c *causes) add(trial, text string, of []figures.Warning) {
	words := slices.DeleteFunc(strings.Fields(text), func(word string) bool { return strings.ContainsAny(word, "0123456789") })
	pattern := strings.Join(words, " ")
	for i := range *c {
		if (*c)[i].pattern == pattern {
			(*c)[i].more++
			return
		}
	}
	one := cause{trial: trial, text: text, pattern: pattern}
	if i := slices.IndexFunc(of, func(w figures.Warning) bool { return w.Code == "failed" }); i >= 0 {
		one.hint = of[i].Hint
	}
	*c = append(*c, one)
}

// hint returns the first hint of a cause, ready to precede further text.
func (c causes) hint() string {
	for _, one := range c {
		if one.hint != "" {
			return one.hint + "; "
		}
	}
	return ""
}

// listed names at most n causes.
func (c causes) listed(n int) string {
	if more := len(c) - n; more > 0 {
		word := "causes"
		if more == 1 {
			word = "cause"
		}
		return fmt.Sprintf("%s and %d more %s", strings.Join(c.texts()[:n], ", "), more, word)
	}
	return strings.Join(c.texts(), ", ")
}

func (c causes) texts() (all []string) {
	for _, one := range c {
		trials := one.trial
		if one.more > 0 {
			trials += fmt.Sprintf(" and %d more", one.more)
		}
		all = append(all, trials+": "+one.text)
	}
	return all
}

// headOf is the first line of an error, the first of its causes, which are indented below it, and the last line of the
// log below that.
func headOf(s string) string {
	line, rest, _ := strings.Cut(s, "\n")
	cause, log, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(cause, "  ") {
		return line
	}
	line += ": " + strings.TrimSpace(cause)
	last := ""
	for below := range strings.Lines(log) {
		logged, ok := strings.CutPrefix(strings.TrimSpace(below), "| ")
		if !ok {
			break
		}
		last = logged
	}
	if last != "" {
		line += "; its log ends: " + last
	}
	return line
}

// reasons are the causes that made the trial invalid.
func reasons(t *figures.Trial) string {
	var words []string
	for _, w := range t.Warnings {
		if cause := figures.Cause(w.Code); w.Invalidates && !slices.Contains(words, cause) {
			words = append(words, cause)
		}
	}
	if words == nil {
		return " (no reason recorded)"
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// short names the treatments that have too few valid trials.
func short(ts []compare.Treatment) []figures.Warning {
	var few []string
	for _, t := range ts {
		if t.N < stats.MinN {
			few = append(few, fmt.Sprintf("%s has %d", t.ID, t.N))
		}
	}
	if few == nil {
		return nil
	}
	return []figures.Warning{{Code: "few-trials", Message: fmt.Sprintf("an interval needs %d valid trials: %s", stats.MinN, printable.Listed(few, 4)),
		Hint: compare.MoreBlocks}}
}

// Expectation is one condition of the experiment over the trials of a treatment.
type Expectation struct {
	Treatment string    `json:"treatment"`
	Expect    string    `json:"expect"`
	Unit      string    `json:"unit,omitempty"`
	N         int       `json:"n"`                   // valid trials it was evaluated on
	Held      int       `json:"held"`                // trials of these in which it held
	Undecided int       `json:"undecided,omitempty"` // trials of these whose bounds contain the limit
	Values    []float64 `json:"values"`              // of times of changes both bounds, where they are known
	// Detail is from the first trial in which it did not hold. Empty means that it held in all.
	Detail string `json:"detail,omitempty"`
}

// expectations gathers the expectations of the valid trials: treatments in the
// order of the plan, conditions in the order of the file.
func expectations(run *compare.Run) []Expectation {
	var all []Expectation
	for _, t := range run.Plan.Treatments {
		var own []Expectation
		for i, r := range run.Records {
			if r.Treatment != t.ID || !run.Trials[i].Valid {
				continue
			}
			for j, o := range r.Expectations {
				if j == len(own) {
					own = append(own, Expectation{Treatment: t.ID, Expect: o.Expect, Unit: o.Unit, Values: []float64{}})
				}
				own[j].add(o, r.ID)
			}
		}
		all = append(all, own...)
	}
	return all
}

func (e *Expectation) add(o expect.Outcome, trial string) {
	e.N++
	if o.Value != nil {
		e.Values = append(e.Values, *o.Value)
	}
	if o.AtMost != nil {
		e.Values = append(e.Values, *o.AtMost)
	}
	if o.Undecided {
		e.Undecided++
	}
	if o.OK {
		e.Held++
	} else if e.Detail == "" {
		e.Detail = o.Detail + " (" + trial + ")"
	}
}

// Brief is the field answer of every result as JSON: what a program needs to act on the result.
type Brief struct {
	Sentence   string          `json:"sentence"`
	Verdict    compare.Verdict `json:"verdict"`
	Subject    string          `json:"subject,omitempty"`
	Baseline   string          `json:"baseline,omitempty"`
	Metric     string          `json:"metric,omitempty"`
	Unit       string          `json:"unit,omitempty"`
	Difference *stats.Interval `json:"difference,omitempty"`
	OfRatio    bool            `json:"of_ratio,omitempty"`
	Figure     *stats.Interval `json:"figure,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Minutes    float64         `json:"minutes_needed,omitempty"`
	ExitCode   int             `json:"exit_code"`
}

// Verdicts of results that compare nothing. Comparisons, trends and gates have types of their own.
const (
	Measured  compare.Verdict = "measured"
	Predicted compare.Verdict = "predicted"
	Planned   compare.Verdict = "planned"
	Missed    compare.Verdict = "missed" // a target
)

// Verdicts lists all verdicts of a [Brief].
func Verdicts() []compare.Verdict {
	return []compare.Verdict{
		compare.Higher, compare.Lower, compare.NotShown, compare.Same, compare.Insufficient,
		compare.Verdict(compare.Holds), compare.Verdict(compare.Breached), compare.Verdict(compare.Undecided),
		Measured, Predicted, Planned, Missed,
		compare.Verdict(StillGrowing), compare.Verdict(StillFalling), compare.Verdict(Growing), compare.Verdict(Falling), compare.Verdict(Steady), compare.Verdict(NoTrendShown),
	}
}

// BriefFields describe the fields of a [Brief] in their order.
func BriefFields() [][2]string {
	return [][2]string{
		{"sentence", "the first result in words"},
		{"verdict", "of a difference, a trend, a gate or a check; without one how the figure came about"},
		{"subject", "treatment, program, or directory"},
		{"baseline", "what it is compared with"},
		{"metric", "name, as `tare list metrics` prints it, or of another figure"},
		{"unit", "of the amounts; absent of a ratio"},
		{"difference", "subject minus baseline, with the interval of the verdict"},
		{"of_ratio", "difference is subject over baseline"},
		{"figure", "amount of a result without a baseline"},
		{"reason", "for no verdict, an undecided gate, or a doubt: a code or words"},
		{"minutes_needed", "that would decide it: more of a run with gates, in all of another one"},
		{"exit_code", "of this command"},
	}
}

// BriefSchema returns the JSON Schema (draft 2020-12) of a result with its field answer. Other fields depend on the command.
func BriefSchema() ([]byte, error) {
	brief := jsonschema.Of(reflect.TypeFor[Brief](), "json", func(t reflect.Type) *jsonschema.Schema {
		if t != reflect.TypeFor[compare.Verdict]() {
			return nil
		}
		s := &jsonschema.Schema{Type: "string"}
		for _, v := range Verdicts() {
			s.Enum = append(s.Enum, v)
		}
		return s
	})
	brief.AdditionalProperties = nil // later versions add fields
	brief.Required = []string{"sentence", "verdict", "exit_code"}
	for _, f := range BriefFields() {
		p, ok := brief.Properties.Get(f[0])
		if !ok {
			return nil, fmt.Errorf("build schema: there is no field %s", f[0])
		}
		p.Description = f[1]
	}
	s := &jsonschema.Schema{Version: brief.Version, Title: "answer of tare", Type: "object", Properties: jsonschema.NewProperties(), Required: []string{"answer"}}
	brief.Version = ""
	s.Properties.Set("answer", brief)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("build schema: %w", err)
	}
	return append(text, '\n'), nil
}

// importWarnings are the unknowns of an import: the noise between equal
// treatments, the application's cost without a mesh, and whether the machine
// changed from one mesh to the next.
func importWarnings(run *compare.Run) []figures.Warning {
	ws := []figures.Warning{}
	if run.Assumed {
		ws = append(ws, figures.Warning{Code: "no-baseline",
			Message: "no treatment is a baseline, such as --mesh none: what each adds is unknown; they are compared with one another, " + compare.LevelText(run.File.Baseline[experiment.MeshFactor]) + " as the baseline",
			Hint:    "choose another with --baseline mesh=NAME"})
	}
	if meshes, changes := sequence(run); meshes > 1 && changes < meshes {
		ws = append(ws, figures.Warning{Code: "not-interleaved",
			Message: fmt.Sprintf("the treatments (%d) were measured one after another: every difference includes other changes over that time, and no interval covers them", meshes),
			Hint:    "interleave them in random order, as tare run does"})
	}
	return append(ws, figures.Warning{Code: "no-floor", Message: "the baseline was not measured twice: the noise is unknown",
		Hint: "import the same treatment twice, under two names, and compare them"})
}

// sequence counts the meshes, and how often one followed another in time.
func sequence(run *compare.Run) (meshes, changes int) {
	seen := map[string]bool{}
	last := ""
	for _, r := range slices.SortedFunc(slices.Values(run.Records), func(x, y result.Record) int { return x.Started.Compare(y.Started) }) {
		m := compare.LevelText(r.Factors[experiment.MeshFactor])
		if r.Started.IsZero() || r.Factors[experiment.MeshFactor] == nil {
			continue
		}
		if last != "" && m != last {
			changes++
		}
		seen[m], last = true, m
	}
	return len(seen), changes
}

// orderWarnings warns of a nonrandom order of trials.
func orderWarnings(run *compare.Run) []figures.Warning {
	switch run.Plan.Order {
	case experiment.OrderOnce:
		return []figures.Warning{{Code: "meshes-once", Metrics: nil,
			Message: "each mesh was installed once and all its trials ran together: every difference between meshes includes changes over time, and no interval covers them",
			Hint:    "order: by-mesh runs every mesh in each block"}}
	case plan.ByMesh:
		return []figures.Warning{{Code: "meshes-in-turns",
			Message: "within a block the trials of a mesh run together: the noise does not include differences between mesh batches",
			Hint:    "order: random runs all trials of a block in random order"}}
	}
	return nil
}

// outsideDiffers names treatments with which processes outside the trial used more or less CPU than with their baseline, unless
// the baseline differs from itself too.
func outsideDiffers(all []compare.Comparison) []figures.Warning {
	var differ []string
	for _, c := range all {
		if c.Metric != metric.OutsideCPU || c.Verdict != compare.Higher && c.Verdict != compare.Lower {
			continue
		}
		if c.Control {
			return nil
		}
		if c.Difference != nil && c.Difference.Known() {
			differ = append(differ, fmt.Sprintf("%s by %+.0f µs a request (%+.0f to %+.0f)", c.Treatment, c.Difference.Estimate, *c.Difference.Low, *c.Difference.High))
		}
	}
	if differ == nil {
		return nil
	}
	return []figures.Warning{{Code: "outside-differs", Metrics: []string{metric.OutsideCPU},
		Message: "CPU of this machine outside the trial differs from the baseline: " + printable.Listed(differ, 4),
		Hint:    "a process that the trial did not start, or the kernel, works for the treatment: the cost lacks it; `tare doctor` lists busy processes"}}
}

// foreign lists the workloads of others that ran beside the trials, with their mean CPU, the largest first.
func foreign(run *compare.Run) []figures.Warning {
	cores, trials := map[string]float64{}, 0
	for _, r := range run.Records {
		beside := false
		for _, t := range r.Tasks {
			if t.Plane != metric.Foreign {
				continue
			}
			beside = true
			if wall := t.End.At.Sub(t.Start.At); t.Missing == "" && wall > 0 {
				workload, _, _ := strings.Cut(strings.TrimPrefix(figures.WorkloadOf(t.Task), t.Namespace+"/"), "/")
				cores[t.Namespace+"/"+workload] += float64(t.End.CPU-t.Start.CPU) / float64(wall)
			}
		}
		if beside {
			trials++
		}
	}
	if trials == 0 {
		return nil
	}
	listed := lists.Map(printable.MostFirst(cores), func(name string) string { return fmt.Sprintf("%s (%.3f cores)", name, cores[name]/float64(trials)) })
	return []figures.Warning{{Code: "foreign-workloads", Trials: trials,
		Message: fmt.Sprintf("%s of others ran on the cluster, in no sum: %s", printable.Counted(len(listed), "workload"), printable.Listed(listed, 10)),
		Hint:    "their CPU beside each treatment is compared with that beside its baseline; --all shows " + figures.ForeignCPU}}
}

// ability is a feature of meshes, in words.
type ability struct {
	words string
	has   func(mesh.Provides) bool
}

var abilities = []ability{
	{"mutual TLS", func(p mesh.Provides) bool { return p.MTLS }},
	{"L7 processing", func(p mesh.Provides) bool { return p.L7 }},
	{"retries", func(p mesh.Provides) bool { return p.Retries }},
	{"telemetry", func(p mesh.Provides) bool { return p.Telemetry }},
}

// unequal names the meshes of the run that do less than another one does: their figures are of less.
func unequal(run *compare.Run) []figures.Warning {
	if run.File.Ladder { // its steps are features
		return nil
	}
	of := maps.Clone(run.Environment.Provides)
	maps.DeleteFunc(of, func(_ string, p mesh.Provides) bool { return p == mesh.Provides{} }) // no mesh
	if slices.ContainsFunc(run.Plan.Treatments, func(t plan.Treatment) bool { return t.Reference }) {
		delete(of, experiment.ReferenceMesh) // it is not compared
	}
	abilities := slices.DeleteFunc(slices.Clone(abilities), func(a ability) bool { return !slices.ContainsFunc(slices.Collect(maps.Values(of)), a.has) })
	var order []string // of the missing features
	meshes := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		missing := slices.DeleteFunc(slices.Clone(abilities), func(a ability) bool { return a.has(of[name]) })
		if words := strings.Join(lists.Map(missing, func(a ability) string { return a.words }), ", "); words != "" {
			if meshes[words] == nil {
				order = append(order, words)
			}
			meshes[words] = append(meshes[words], name)
		}
	}
	if order == nil {
		return nil
	}
	list := lists.Map(order, func(words string) string {
		return printable.And(meshes[words]) + map[bool]string{true: " lacks ", false: " lack "}[len(meshes[words]) == 1] + words
	})
	return []figures.Warning{{Code: "unequal-meshes", Message: "the meshes have different features: " + strings.Join(list, "; "),
		Hint: "compare meshes with the same features, or mention the missing ones"}}
}
