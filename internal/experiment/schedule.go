package experiment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
)

// Orders of the trials.
const (
	OrderRandom   = "random"   // all treatments of a block in random order
	OrderBalanced = "balanced" // the same, each treatment in each position and after each other equally often
	OrderByMesh   = "by-mesh"  // within a block, consecutive trials of one mesh; meshes in random order
	OrderOnce     = "once"     // the same over all blocks: each mesh is installed once per run
	// OrderInterleaved deploys treatments to be compared at once and moves the load between them.
	OrderInterleaved = "interleaved"
)

// orders lists the orders, the default first.
var orders = []string{OrderRandom, OrderBalanced, OrderByMesh, OrderOnce, OrderInterleaved}

// minSequential is the number of blocks before which a run does not stop early.
// With fewer, the standard deviation is often too small by chance, and the
// interval covers less than its confidence. The simulation in
// internal/stats shows by how much.
const minSequential = 5

type scheduleRules struct{ validation }

func (v scheduleRules) validate() {
	if p := v.e.Phases; v.doc.Has("phases.soak") && p.Measure != p.Soak { // rendered files have both
		v.report("phases.measure", "remove one of them", "%v is not the length of the soak, %v, which is the measure phase", p.Measure, p.Soak)
	}
	v.repetition()
	v.decide()
}

func (v scheduleRules) repetition() {
	v.blocks()
	v.order()
	v.interleaved()
	v.reference()
	v.ladder()
	v.oneAtATime()
	if !v.doc.Sound("factors") || !v.doc.Sound("blocks") || !v.doc.Sound("control") {
		return
	}
	v.trials()
}

const blocksHint = "a block runs every treatment once; intervals need 6 or more"

func (v scheduleRules) blocks() {
	b := v.e.Blocks
	if !v.doc.Has("blocks.min") && !v.doc.Has("blocks.max") && !v.doc.Has("blocks.until") {
		return
	}
	if b.Min > b.Max {
		v.report("blocks.max", "", "%d is less than the %d of min", b.Max, b.Min)
	}
	if b.Min < minSequential && (b.Until == nil || !b.Until.Valid) {
		v.report("blocks.min", "with fewer blocks an interval can be narrow by chance", "%d is not between %d and %d", b.Min, minSequential, MaxTrials)
	}
	if b.Until == nil {
		v.report("blocks", `add until: "`+precisionExample+`", or write blocks: 6`, "min and max need until, the precision at which the run stops, or valid")
	}
}

func (v scheduleRules) order() {
	if v.e.Order != "" || v.doc.Has("order") {
		v.check("order", v.e.Order, oneOf("order", orders...))
	}
	if v.e.Order == OrderOnce && v.e.Blocks.Until != nil {
		v.report("order", "write order: by-mesh, or a number of blocks", "with order once no block ends before the last mesh, and blocks.until needs complete blocks")
	}
}

// ladder checks that there are steps to compare.
func (v scheduleRules) ladder() {
	switch {
	case !v.e.Ladder:
	case v.e.Baseline == nil:
		v.report("ladder", "write a baseline, such as baseline: {mesh: none}", "the first step is the baseline, and there is none")
	case len(v.e.meshes()) < 2:
		v.report("ladder", "write the steps in factors.mesh, in their order", "a ladder needs two meshes or more")
	}
}

// oneAtATime checks that there are factors to vary.
func (v scheduleRules) oneAtATime() {
	if v.e.OneAtATime && len(v.e.Baseline) < 2 {
		v.report("oneAtATime", "write a baseline with the level of each factor that varies, such as baseline: {backgroundProxies: 10, backgroundServices: 100}",
			"fewer than two factors are in the baseline, so that nothing is left out")
	}
}

// trials bounds the product of factors, controls and blocks.
func (v scheduleRules) trials() {
	treatments, controls, alone := 1, 1, 1
	var product []string
	for _, f := range v.e.Factors.Named() {
		n := len(f.Levels)
		product = append(product, fmt.Sprintf("%d %s", n, f.Name))
		// Capped, so that seven long lists do not overflow.
		treatments = min(treatments*n, 1e12)
		if _, fixed := v.e.Baseline[f.Name]; fixed {
			alone += n - 1
		} else {
			controls = min(controls*n, 1e12)
		}
	}
	if v.e.OneAtATime {
		treatments = min(treatments, controls*alone)
	}
	times := strings.Join(product, " × ")
	total := treatments * v.e.Blocks.Max
	if v.e.ControlAll {
		controls = treatments
	}
	if (v.e.Control || v.e.ControlAll) && v.e.Baseline != nil {
		total += controls * v.e.Blocks.Max
		times += " with controls"
	}
	if total > MaxTrials {
		v.report("factors", "remove levels or blocks, or split the experiment", "%s × %d blocks is %d trials, max %d",
			times, v.e.Blocks.Max, total, MaxTrials)
	}
}

// Decide are gates on the differences to the baseline. The run ends when one is breached or all hold, unless they are decided at its end.
type Decide struct {
	// Gates are conditions such as "cpu_us_per_request/data < +2%".
	Gates []string `yaml:"gates,omitempty" json:"gates,omitempty"`
	// Detect widens what counts as holding: a gate holds if the difference is shown to be below its limit plus this
	// share. Default 0.
	Detect Share `yaml:"detect,omitempty" json:"detect,omitempty"`
	// Within ends the run undecided when the next block would last longer. 0 means after the last block.
	Within Duration `yaml:"within,omitempty" json:"within,omitempty"`
	// AtEnd runs all blocks: the gates are decided once, so that every figure has the planned blocks.
	AtEnd bool `yaml:"atEnd,omitempty" json:"atEnd,omitempty"`
}

// minDecide is the number of blocks from which a gate may be decided: with fewer, the spread is known too badly.
const minDecide = 4

// DecideFrom is the first block after which gates are decided.
func DecideFrom() int { return minDecide }

func (v scheduleRules) decide() {
	d := v.e.Decide
	if len(d.Gates) == 0 {
		if v.doc.Has("decide") {
			v.report("decide.gates", "add gates: [\""+metric.CPUPerRequest+"/data < +2%\"]", "no gate is given")
		}
		return
	}
	switch {
	case v.e.Blocks.Until != nil:
		v.report("decide", "remove until from blocks: the gates end the run", "blocks.until and decide exclude each other")
	case v.e.Blocks.Max < minDecide:
		v.report("decide", "raise blocks to 10 or more", "gates are decided from %d blocks on, and there are %d", minDecide, v.e.Blocks.Max)
	case v.e.Baseline == nil:
		v.report("decide", "write a baseline, such as baseline: {mesh: envoy}", "a gate bounds the difference to a baseline, and there is none")
	case d.AtEnd && d.Within > 0:
		v.report("decide.within", "remove within or atEnd", "within ends the run early, and atEnd runs all blocks")
	case v.e.Order == OrderOnce:
		v.report("decide", "write another order", "with order once no block ends before the last mesh")
	}
}

func decideRows() []fieldRow {
	return []fieldRow{
		{"decide", "Gates on differences to the baseline that end the run when each holds or is breached, by a group-sequential test.", nil, nil},
		{"decide.gates", "Conditions: " + metric.CPUPerRequest + "/data < +2%, or " + metric.Latency + "/p99{mesh=envoy-new} < +0.5ms.", nil, form(levelList)},
		{"decide.detect", "A gate holds if the difference is shown to be below its limit plus this share.", 0, nil},
		{"decide.within", "Time after which the run ends undecided, without pauses of over five minutes before a resume; default: all blocks.", nil, between(0, Duration(24*7*time.Hour), "10m decides most gates")},
		{"decide.atEnd", "Runs all blocks, and decides the gates once, after the last: other figures have all blocks.", false, nil},
	}
}

// ReferenceMesh is the mesh of the standard weight: the reference proxy without added cost.
const ReferenceMesh = "reference"

// reference checks reference: true. The reference proxy runs beside each baseline.
func (v scheduleRules) reference() {
	if !v.e.Reference {
		return
	}
	switch {
	case !v.local():
		v.report("reference", "remove it, or write platform: {kind: local}", "the reference proxy runs on platform local only")
	case v.e.Baseline == nil:
		v.report("reference", "name a baseline, such as {mesh: none}", "a standard weight needs a baseline")
	case slices.Contains(v.e.meshes(), ReferenceMesh):
		v.report("reference", "remove it, or the mesh", "mesh %s is among the levels already", ReferenceMesh)
	case !v.plainHTTP():
		v.report("reference", "use protocol http1 for the load and all services", "the reference proxy forwards HTTP/1.1 only")
	}
}

func (v scheduleRules) plainHTTP() bool {
	protocols := v.e.protocols()
	all, err := v.e.Topologies()
	for _, t := range all {
		for _, s := range t.Services {
			protocols = append(protocols, s.Protocol)
		}
	}
	return err == nil && !slices.ContainsFunc(protocols, func(p string) bool { return p != "" && p != app.HTTP1 })
}

// Blocks is the number of repetitions of every treatment: fixed, until an interval has a given precision, or until as many
// as min have valid trials only.
type Blocks struct {
	Min   int        `yaml:"min" json:"min"`
	Max   int        `yaml:"max" json:"max"` // planned
	Until *Precision `yaml:"until,omitempty" json:"until,omitempty"`
}

// bound is the number of planned blocks.
func (b Blocks) bound() any { return b.Max }

// ShortForm reads a number.
func (b *Blocks) ShortForm() (any, func()) {
	n := new(int)
	return n, func() { *b = Fixed(*n) }
}

// Fixed returns a number of blocks that does not depend on results.
func Fixed(n int) Blocks { return Blocks{Min: n, Max: n} }

// MarshalYAML writes a number, or the mapping.
func (b Blocks) MarshalYAML() (any, error) {
	if b.Until == nil {
		return b.Max, nil
	}
	type plain Blocks
	return plain(b), nil
}

func (b Blocks) MarshalJSON() ([]byte, error) {
	if b.Until == nil {
		return json.Marshal(b.Max)
	}
	type plain Blocks
	return json.Marshal(plain(b))
}

// Precision is half of the largest width of a metric's interval. Valid is the other rule: min blocks without an invalid
// trial.
type Precision struct {
	Valid    bool
	Metric   string
	Half     float64 // in percent, or in the metric's unit
	Relative bool    // to the treatment's estimate
	text     string
}

func (p Precision) String() string { return p.text }

func (p Precision) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// precisionExample is a valid Precision for messages and help.
const precisionExample = metric.CPUPerRequest + "/total ±2%"

func (Precision) Wants() string {
	return "a metric and half of a width, such as " + precisionExample
}

// UntilValid is the text of a [Precision] that is Valid.
const UntilValid = "valid"

// UnmarshalScalar reads "<metric> ±<number>[%|unit]", or "valid". "+-" will do for "±".
func (p *Precision) UnmarshalScalar(text string) error {
	if text == UntilValid {
		*p = Precision{Valid: true, text: text}
		return nil
	}
	name, width, ok := strings.Cut(strings.Replace(text, "+-", "±", 1), "±")
	if !ok {
		return fmt.Errorf("found %.60q, expected %s", text, p.Wants())
	}
	name, width = strings.TrimSpace(name), strings.TrimSpace(width)
	m, ok := metric.Lookup(name)
	if !ok {
		return fmt.Errorf("there is no metric %.40q: `tare list metrics` lists them", name)
	}
	digits := width[:len(width)-len(strings.TrimLeft(width, "0123456789."))]
	half, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(half > 0) || half > 1e12 {
		return fmt.Errorf("%.40q is not a number above 0, with %% or a unit of %s", width, name)
	}
	unit := strings.TrimSpace(strings.TrimPrefix(width, digits))
	out := Precision{Metric: name, Half: half, Relative: unit == "%", text: text}
	if !out.Relative {
		scale, ok := m.Scale(unit)
		if !ok {
			return fmt.Errorf("%.20q is not a unit of %s", unit, name)
		}
		out.Half *= scale
	}
	*p = out
	return nil
}

// Slices are the time slices of order interleaved.
type Slices struct {
	Length Duration `yaml:"length,omitempty" json:"length,omitzero"` // default 100ms
	// Guard is the end of each slice without load: answers arrive, counters are read.
	Guard Duration `yaml:"guard" json:"guard"`
}

var defaultSlices = Slices{Length: Duration(100 * time.Millisecond), Guard: Duration(10 * time.Millisecond)}

// soakSlice is the default length in a soak: an hour of shorter slices has more readings than it needs.
const soakSlice = Duration(time.Second)

// refreshedSlice is the default length without node agents: it has three refreshes of kubelets with cAdvisor.
const refreshedSlice = Duration(time.Minute)

// Bounds of a slice. Deployments of a round are loaded for the same time, so a slice is at most as long as
// a measure phase.
const (
	minSlice = Duration(10 * time.Millisecond)
	maxSlice = Duration(time.Minute)
)

// completeSlices fills in the defaults of order interleaved.
func (f *File) completeSlices() {
	e := f.Experiment
	if e.Order != OrderInterleaved || e.Batch != nil {
		return
	}
	if !f.Has("slices.length") {
		if e.Slices.Length = sliceLength(e); e.onCluster() && !e.ByNodeAgent() {
			e.Slices.Length = refreshedSlice
		}
	}
	if !f.Has("slices.guard") {
		e.Slices.Guard = min(defaultSlices.Guard, e.Slices.Length/10)
	}
}

// interleaving lists what treatments deployed at once cannot have, each with its remedy. Rows without a
// remedy only keep interleaving from being the default.
var interleaving = []obstacle{
	{(*Experiment).onCluster, "a cluster is interleaved only with order: interleaved, because it needs node agents", ""},
	{func(e *Experiment) bool { return !e.onCluster() && e.Platform.Kind != mesh.OnLocal },
		"only platforms local and kubernetes deploy several trials at once", "write order: balanced"},
	{func(e *Experiment) bool { return e.onCluster() && e.Outside() },
		"a load from outside has no clock in common with the nodes", "remove order, or load.from"},
	{func(e *Experiment) bool { return e.onCluster() && e.Platform.Namespace != "" },
		"each treatment needs a namespace of its own", "remove order, or platform.namespace"},
	{func(e *Experiment) bool { return e.onCluster() && e.foreign() },
		"applications of others are deployed one at a time", "remove order, or use a topology"},
	{func(e *Experiment) bool {
		return e.Blocks.Until != nil && strings.HasPrefix(e.Blocks.Until.Metric, metric.PeakMemory)
	},
		"peaks of memory need a trial alone on the machine", ""},
	{func(e *Experiment) bool { return e.Load.Profile.Cycle() > 0 },
		"the rate changes with time, and answers to a burst may arrive in slices of other treatments", ""},
	{func(e *Experiment) bool { return e.Batch == nil && e.Phases.Measure%sliceLength(e) != 0 },
		"phases.measure is not a whole number of slices", ""},
	{func(e *Experiment) bool { return e.waits() > sliceLength(e)/2 },
		"answers wait longer than half of a slice, so that they would arrive in slices of other treatments", ""},
	{func(e *Experiment) bool { return len(e.Faults) > 0 },
		"a fault would also change the figures of other treatments", "remove order, or the faults"},
	{(*Experiment).Changing,
		"a change is probed all the time, and in slices of others a treatment has no load", "remove order, or the changes"},
	{func(e *Experiment) bool {
		services := backgroundOf(e).services
		return e.onCluster() && slices.Max(services) > 0
	},
		"the control planes of a cluster would know the background services of all treatments", "remove order, or background.services"},
	{changesBehind,
		"background services change all the time, also in slices of others", "remove order, or background.changes"},
	{func(e *Experiment) bool { return len(e.Expect) > 0 },
		"expectations are checked second by second, and a second has the load of several treatments", "remove order, or the expectations"},
	{limited,
		"a throttled sidecar answers in slices of other treatments", "remove order, or the limits of CPU"},
	{(*Experiment).closedLoop, "rate: max has no schedule to share", "give a rate, or remove order"},
	{(*Experiment).searches, "each treatment has a highest rate of its own, which is searched alone on the machine", "give a rate, or remove order"},
	{func(e *Experiment) bool { return otherGenerator(e) != "" }, "only the generator tare can share a schedule", "remove order, or the other generators"},
}

// sliceLength is the length of a slice on this machine: as written, or by default.
func sliceLength(e *Experiment) Duration {
	if e.Phases.Soak > 0 {
		return cmp.Or(e.Slices.Length, soakSlice)
	}
	return cmp.Or(e.Slices.Length, defaultSlices.Length)
}

// limited reports whether sidecars on this machine have limits of CPU.
func limited(e *Experiment) bool {
	return e.Platform.Kind == mesh.OnLocal && slices.ContainsFunc(e.meshes(), func(name string) bool { return e.MeshSettings(name).Resources.Limits.CPU > 0 })
}

// obstacle is a property of an experiment that an order of trials excludes, with its remedy.
type obstacle struct {
	has       func(*Experiment) bool
	why, hint string
}

// waits is the longest mean time that answers of an application wait, or 0 if an application is unknown.
func (e *Experiment) waits() Duration {
	all, err := e.Topologies()
	if err != nil {
		return 0
	}
	return Duration(lists.Most(all, app.Topology.Waits))
}

// NotInterleaved returns why the trials are not interleaved by default, or "" if nothing forbids it.
func (e *Experiment) NotInterleaved() string {
	first, _ := lists.First(interleaving, func(o obstacle) bool { return o.has(e) })
	return first.why
}

// ByNodeAgent reports whether node agents read the counters of a cluster, so that nothing waits for their refresh.
func (e *Experiment) ByNodeAgent() bool {
	return e.onCluster() && (e.Platform.Meter == NodeAgent || e.Platform.Meter == "" && e.Order == OrderInterleaved)
}

func (v scheduleRules) interleaved() {
	if v.e.Order != OrderInterleaved {
		if v.doc.Has("slices") {
			v.report("slices", "write order: interleaved", "slices need order interleaved")
		}
		return
	}
	if why, hint := refusal(v.e); why != "" {
		v.report("order", hint, "the treatments cannot be interleaved: %s", why)
	}
	if v.sideBySide(); v.e.Batch != nil { // whole executions
		return
	}
	s := v.e.Slices
	if s.Guard < 0 || s.Guard > s.Length/2 {
		v.report("slices.guard", "a tenth of the length is usual", "%v is not between 0 and half of a slice (%v)", s.Guard, s.Length/2)
	}
	if s.Length >= minSlice && v.e.Phases.Measure%s.Length != 0 {
		v.report("phases.measure", "write a multiple of "+s.Length.String(), "%v is not a whole number of slices of %v", v.e.Phases.Measure, s.Length)
	}
}

// refusal returns the first reason with a remedy why the trials cannot be interleaved, or "" if there is none.
func refusal(e *Experiment) (why, hint string) {
	first, _ := lists.First(interleaving, func(o obstacle) bool { return o.hint != "" && o.has(e) })
	return first.why, first.hint
}

// sideBySide refuses meshes that cannot be in one cluster at the same time.
func (v scheduleRules) sideBySide() {
	if !v.e.onCluster() {
		return
	}
	var all []mesh.Definition
	for _, name := range v.e.meshes() {
		if d, ok := v.definition(name); ok {
			all = append(all, d)
		}
	}
	if err := mesh.Coexist(all...); err != nil {
		v.report("order", "write order: by-mesh, one batch per mesh", "the treatments cannot be interleaved: %v", err)
	}
}

// Batch makes the programs of the user programs that end, such as a compiler. A trial is executions without a port and
// without a load.
type Batch struct {
	// Prepare is a command before each execution, which is not measured.
	Prepare []string `yaml:"prepare,flow,omitempty" json:"prepare,omitempty"`
	// Input is the file on standard input, relative to the experiment file. Empty means no input.
	Input string `yaml:"input,omitempty" json:"input,omitempty"`
	// Warmup are executions of each program before its first trial, which are not measured.
	Warmup int `yaml:"warmup,omitempty" json:"warmup,omitempty"`
}

const maxWarmup = 1000

// completeBatch removes the phases that only a load has.
func (f *File) completeBatch() {
	if f.Experiment.Batch == nil {
		return
	}
	p := &f.Experiment.Phases
	for path, phase := range map[string]*Duration{"phases.warmup": &p.Warmup, "phases.drain": &p.Drain, "phases.prewarm": &p.Prewarm} {
		if !f.Has(path) {
			*phase = 0
		}
	}
}

type batchRules struct{ validation }

func (v batchRules) validate() {
	if v.e.Batch == nil {
		return
	}
	if !v.local() {
		v.report("batch", "write platform: {kind: local}", "programs that end run on this machine")
	}
	refuse(v.validation, "", []string{"load.requests", "load.targets", "load.headers", "load.webSocket", "load.profile", "faults", "expect", "changes", "background", "starts",
		"reference", "phases.soak", "slices", "factors.rate", "factors.connections", "factors.route"},
		"remove it", "a program that ends has no load")
	for i, name := range v.e.meshes() {
		if name != "none" {
			v.report("factors.mesh", "remove it", "a program that ends has no traffic, and level %d is mesh %s", i, clip(name))
		}
	}
	all, _ := v.e.Topologies() // errors are reported elsewhere
	for _, t := range all {
		path := "application"
		if len(v.e.applications()) > 0 {
			path = "applications." + t.Name
		}
		for _, s := range t.Services {
			port := app.BesideProcess{Command: slices.Concat(s.Prefix, s.Command), Env: s.Env}
			switch {
			case len(t.Services) > 1 || len(s.Command) == 0:
				v.report(path, "write command: [PROGRAM, ARGUMENT, …]", "batch needs one program of your own")
			case s.UsesHost() || port.UsesPort():
				v.report(path+".command", "remove batch, if it is a server", "a program that ends has no port")
			case slices.ContainsFunc(s.Beside, func(b app.BesideProcess) bool { return b.Attaches(s.Name) }):
				v.report(path+".beside", "let it start the program, as prefix: py-spy record -- PROGRAM", "a program that ends may be over before a process attaches to it")
			}
		}
	}
}

func batchRows() []fieldRow {
	return []fieldRow{
		{"batch", "The programs end, such as a compiler: a trial is executions, as many as fit into phases.measure, at least one. With order: interleaved, which is the default, the programs of a block are executed in turn, with an empty program whose time is subtracted from executions below 5 ms.", nil, nil},
		{"batch.prepare", "Command before each execution, not measured: [make, clean].", nil, nil},
		{"batch.input", "File on standard input, relative to this file; default: no input.", nil, nil},
		{"batch.warmup", "Executions of each program before the first trial, not measured.", 0, between(0, maxWarmup, "")},
	}
}
