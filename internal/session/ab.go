package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/stats"
)

// Gates of `tare ab` without --gate, for a mesh and for two programs.
const (
	DefaultGate        = metric.CPUPerRequest + "/data < +2%"
	DefaultProgramGate = metric.CPUPerRequest + "/total < +2%"
)

// AB are the options of an experiment that compares two variants of a mesh, or two programs.
type AB struct {
	File      string   // experiment file, "" for one service behind Mesh
	Mesh      []string // a name, or files of definitions
	Programs  []string // of B, or of A and B
	Versions  []string // of B, or of A and B
	Set       []string // a.FIELD=…, b.FIELD=… and fields of the experiment
	A, B      string   // factor=level, with File
	Gates     []string // default [DefaultGate]
	Detect    string   // share
	MaxTime   time.Duration
	App, Rate string     // Rate "": searched, for Commands
	Platform  string     // "" for the first that the mesh supports
	Commands  [][]string // programs A and B, each with its arguments
	Request              // to them
	Ready     string     // path of their readiness
	Ending               // of programs that end

	fixed   []string      // settings of the pilot: its seed and order
	measure time.Duration // of the executions of a program in a block
}

// AB returns an experiment of A, A again and B, with as many blocks as the time allows.
func (p *Program) AB(ctx context.Context, o AB) (*Study, error) {
	read := p.abOfMesh
	switch {
	case len(o.Commands) > 0:
		if err := p.searchAB(ctx, &o); err != nil {
			return nil, err
		}
		read = p.abOfCommands
	case o.Path != "" || o.Ready != "" || o.Method != "" || o.Prepare != "" || len(o.Headers)+len(o.Body) > 0:
		return nil, hint.Usage(errors.New("--path, --method, --data, --header, --ready and --prepare are for two programs; a FILE has load.requests"), "such as: tare ab --path /items -- ./old {port} -- ./new {port}")
	case o.File != "":
		read = p.abOfFile
	}
	if len(o.Gates) == 0 {
		o.Gates = []string{DefaultGate}
		if o.File != "" {
			first, err := read(ctx, o, experiment.DecideFrom())
			if err != nil {
				return nil, err
			}
			o.Gates = []string{first.defaultGate()}
		}
	}
	pilot, err := fewestChanges(func() (*Study, error) { return read(ctx, o, experiment.DecideFrom()) })
	if err != nil {
		return nil, err
	}
	from := experiment.DecideFrom()
	perBlock := pilot.Plan.Expected / time.Duration(from)
	if pilot.Plan.Expected > o.MaxTime {
		return nil, hint.Usage(fmt.Errorf("--max-time %v is too short: a block takes about %v, and %d are needed", o.MaxTime, perBlock.Round(time.Second), from),
			fmt.Sprintf("write --max-time %v, or shorten phases.measure", (pilot.Plan.Expected*3/2).Round(10*time.Second)))
	}
	o.fixed = []string{fmt.Sprintf("seed=%d", pilot.Experiment.Seed)}
	if order := pilot.Experiment.Order; order != "" {
		o.fixed = append(o.fixed, "order="+order) // with a seed, the default differs
	}
	if pilot.Plan.MeshChanges > 0 { // not in each block
		twice, err := read(ctx, o, 2*from)
		if err != nil {
			return nil, err
		}
		perBlock = (twice.Plan.Expected - pilot.Plan.Expected) / time.Duration(from)
	}
	blocks := min(from+int((o.MaxTime-pilot.Plan.Expected)/max(perBlock, time.Second)), stats.MaxLooks)
	for {
		s, err := read(ctx, o, blocks)
		if err != nil {
			return nil, err
		}
		if s.Plan.Expected <= o.MaxTime || blocks == from {
			after := func(n int) time.Duration {
				return (s.Plan.Expected * time.Duration(n) / time.Duration(blocks)).Round(time.Second)
			}
			least := compare.LeastToHold(blocks)
			s.notef("at most %d blocks in about %v%s: a gate may be breached from block %d (about %v), by failed requests from block 1, and hold from block %d (about %v)",
				blocks, after(blocks), s.Busy(), from, after(from), least, after(least))
			return s, nil
		}
		// Blocks differ in the number of meshes that are installed.
		blocks = max(from, min(blocks-1, int(int64(blocks)*int64(o.MaxTime)/int64(s.Plan.Expected))))
	}
}

// defaultGate is the gate of an experiment file without --gate: that of the same two programs, or meshes, without a file.
func (s *Study) defaultGate() string {
	switch {
	case s.Experiment.Batch != nil:
		return DefaultEndsGate
	case len(experiment.LevelsOf[string](s.Experiment.Factors, experiment.ApplicationFactor)) > 1:
		return DefaultProgramGate
	}
	return DefaultGate
}

// seedsTried are the random orders of which the one with the fewest changes of meshes is taken.
const seedsTried = 16

// fewestChanges reads a study with a random order again, for an order that installs meshes as seldom as possible: on a
// cluster a change takes longer than a trial. The choice precedes all measurements.
func fewestChanges(read func() (*Study, error)) (best *Study, err error) {
	for range seedsTried {
		s, err := read()
		if err != nil || s.Plan.MeshChanges == 0 || !s.Drawn { // a given seed has one order
			return s, err
		}
		if best == nil || s.Plan.MeshChanges < best.Plan.MeshChanges {
			best = s
		}
	}
	return best, nil
}

// abOfFile reads an experiment file, for two levels of one of its factors.
func (p *Program) abOfFile(ctx context.Context, o AB, blocks int) (*Study, error) {
	factor, a, okA := strings.Cut(o.A, "=")
	other, b, okB := strings.Cut(o.B, "=")
	if !okA || !okB || factor != other || a == b {
		return nil, hint.Usage(fmt.Errorf("--a %q and --b %q are not two levels of one factor", o.A, o.B), "write --a mesh=envoy --b mesh=envoy-new")
	}
	if len(o.Programs)+len(o.Versions) > 0 {
		return nil, hint.Usage(errors.New("--program and --version cannot be used with FILE"), "write variants under meshes: in the file")
	}
	decide, err := json.Marshal(o.decideField())
	if err != nil {
		return nil, err
	}
	set := []string{fmt.Sprintf("factors.%s=[%s, %s]", factor, a, b), fmt.Sprintf("baseline={%s: %s}", factor, a), "control=true",
		fmt.Sprintf("blocks=%d", blocks), "decide=" + string(decide)}
	s, err := p.Read(ctx, o.File, Options{Set: slices.Concat(set, o.fixed, o.Set), Meshes: o.Mesh})
	if err != nil {
		return nil, err
	}
	if n := len(s.Plan.Treatments); n != 3 {
		return nil, hint.Usage(fmt.Errorf("%s has %d treatments with these levels, and A, A again and B are 3", o.File, n), "choose one level of each other factor: --set 'factors.rate=[1000]'")
	}
	if s.Experiment.Platform.Kind == mesh.OnLocal && s.Experiment.Order != experiment.OrderInterleaved {
		s.notef("%s has no order: interleaved, which needs fewer blocks", o.File)
	}
	return s, nil
}

// abOfMesh makes the experiment of two variants of one mesh.
func (p *Program) abOfMesh(ctx context.Context, o AB, blocks int) (*Study, error) {
	if len(o.Mesh) != 1 || o.A != "" || o.B != "" {
		return nil, hint.Usage(errors.New("give one --mesh, or a FILE with --a and --b"), "such as: tare ab --mesh envoy --program ./old --program ./new")
	}
	d, err := mesh.Load(o.Mesh[0])
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	names := [2]string{d.Name + "-a", d.Name + "-b"}
	variants := [2]map[string]any{{"from": d.Name}, {"from": d.Name}}
	for field, values := range map[string][]string{"program": o.Programs, "version": o.Versions} {
		if err := assign(field, values, variants); err != nil {
			return nil, err
		}
	}
	if len(o.Programs)+len(o.Versions) == 0 && !slices.ContainsFunc(o.Set, func(s string) bool { _, side := o.sideOf(s); return side >= 0 }) {
		return nil, hint.Usage(errors.New("nothing differs between A and B"), "give --program, --version, or settings such as --set b.options.accessLog=true")
	}
	platform := o.Platform
	if platform == "" {
		if platform = mesh.OnLocal; len(o.Versions) > 0 && d.Kubernetes != nil || d.Local == nil {
			platform = mesh.OnKubernetes
		}
	}
	where := o.platformField(platform)
	e := map[string]any{
		"metadata":    map[string]any{"name": "ab-" + d.Name},
		"platform":    where,
		"application": map[string]any{"topology": o.App},
		"meshes":      map[string]any{names[0]: variants[0], names[1]: variants[1]},
		"factors":     map[string]any{"mesh": names, "rate": []json.RawMessage{json.RawMessage(o.Rate)}},
		"baseline":    map[string]any{"mesh": names[0]},
	}
	switch {
	case platform == mesh.OnLocal:
		e["order"] = experiment.OrderInterleaved
		e["phases"] = map[string]any{"warmup": "1s", "measure": "3s", "drain": "1s"}
	case d.Kubernetes != nil && d.Kubernetes.Revisions != nil && where["meter"] != nil && !o.refusesRounds(): // both stay installed, as revisions
		e["order"], e["slices"] = experiment.OrderInterleaved, map[string]any{"length": "500ms"}
		e["phases"] = map[string]any{"warmup": "2s", "measure": "10s", "drain": "2s"}
	default:
		e["order"] = experiment.OrderByMesh // each mesh is installed once a block
		e["phases"] = map[string]any{"warmup": "5s", "measure": "15s", "drain": "2s"}
	}
	return p.decodeAB(ctx, o, e, blocks, "meshes", names)
}

// decodeAB reads an experiment that the flags describe: its own fields, and the fields of every A, A again and B. A setting of one
// side is a field of its entry below a field of the file.
func (p *Program) decodeAB(ctx context.Context, o AB, fields map[string]any, blocks int, below string, entries [2]string) (*Study, error) {
	maps.Copy(fields, map[string]any{"apiVersion": experiment.APIVersion, "kind": experiment.Kind, "control": true, "blocks": blocks, "decide": o.decideField()})
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, hint.Usage(fmt.Errorf("--rate %q is not a number", o.Rate), "write requests per second")
	}
	x := Options{Set: slices.Clone(o.fixed)}
	if len(o.Mesh) > 0 && mesh.IsPath(o.Mesh[0]) {
		x.Meshes = o.Mesh
	}
	for _, set := range o.Set {
		if field, side := o.sideOf(set); side >= 0 {
			set = below + "." + entries[side] + "." + field
		}
		x.Set = append(x.Set, set)
	}
	s, err := p.Decode(ctx, "", text, x)
	mistakes, _ := errors.AsType[strict.Problems](err)
	for i := range mistakes { // positions in a file that the user does not have
		mistakes[i].File, mistakes[i].Line, mistakes[i].Column = "", 0, 0
	}
	return s, err
}

// sideOf returns the setting of one side, and the side: 0 is A. It is negative for a setting of both.
func (AB) sideOf(set string) (field string, side int) {
	for side, prefix := range []string{"a.", "b."} {
		if field, ok := strings.CutPrefix(set, prefix); ok {
			return field, side
		}
	}
	return set, -1
}

func (o AB) decideField() map[string]any {
	d := map[string]any{"gates": o.Gates, "within": experiment.Duration(o.MaxTime).String()}
	if o.Detect != "" {
		d["detect"] = o.Detect
	}
	return d
}

// refusesRounds reports whether a flag has a setting that an interleaved run refuses, or another order.
func (o AB) refusesRounds() bool {
	return slices.ContainsFunc(o.Set, func(set string) bool {
		return strings.HasPrefix(set, "order=") || strings.HasPrefix(set, "load.from=")
	})
}

// platformField returns the field platform of the experiment. On a cluster node agents are the meter: waiting for the refreshes
// of a kubelet's counters takes longer than the trial. They need a disposable cluster, so the flags may name another meter.
func (o AB) platformField(kind string) map[string]any {
	p := map[string]any{"kind": kind}
	other := func(set string) bool {
		return strings.HasPrefix(set, "platform.inUse=") || strings.HasPrefix(set, "platform.namespace=") || strings.HasPrefix(set, "platform.meter=")
	}
	if kind == mesh.OnKubernetes && !slices.ContainsFunc(o.Set, other) {
		p["meter"] = experiment.NodeAgent
	}
	return p
}

// assign gives a field to B, or to A and B.
func assign(field string, values []string, variants [2]map[string]any) error {
	if len(values) > 2 {
		return hint.Usage(fmt.Errorf("%d times --%s", len(values), field), "give it once, for B, or twice, for A and B")
	}
	for i, v := range values {
		if field == "program" && strings.Contains(v, "/") {
			abs, err := filepath.Abs(v)
			if err != nil {
				return err
			}
			v = abs
		}
		variants[2-len(values)+i][field] = v
	}
	return nil
}

// searchAB checks the options for two programs. Of servers without a rate it finds one, and the slices that suit the answers.
func (p *Program) searchAB(ctx context.Context, o *AB) error {
	const usage = "such as: tare ab -- ./server-old --port {port} -- ./server-new --port {port}"
	switch {
	case len(o.Commands) != 2 || len(o.Commands[0]) == 0 || len(o.Commands[1]) == 0:
		return hint.Usage(fmt.Errorf("%d programs, each after a --: two are compared", len(o.Commands)), usage)
	case o.File != "" || len(o.Mesh)+len(o.Programs)+len(o.Versions) > 0 || o.A != "" || o.B != "":
		return hint.Usage(errors.New("two programs are compared without a mesh and without FILE"), usage)
	case o.Platform != "" && o.Platform != "local":
		return hint.Usage(fmt.Errorf("two programs are compared on this machine, and not on %s", o.Platform), "remove --platform")
	}
	if o.ends() {
		return p.tryAB(ctx, o)
	}
	if len(o.Gates) == 0 {
		o.Gates = []string{DefaultProgramGate}
	}
	switch {
	case o.Prepare != "":
		return hint.Usage(errors.New("--prepare is for programs that end"), "remove it, or {port} and the flags of requests")
	case o.Rate != "":
		return nil
	}
	o.Rate = "1"
	study, err := p.abOfCommands(ctx, *o, experiment.DecideFrom())
	if err != nil {
		return err
	}
	found, err := searchRate(ctx, study, newDir(study.Experiment.Metadata.Name, time.Now().UTC()), 0)
	if err != nil {
		return err
	}
	o.Rate = strconv.FormatFloat(found.rate, 'f', -1, 64)
	switch length, ok := sliceFor(found.slowest); {
	case !ok:
		o.fixed = append(o.fixed, "order="+experiment.OrderBalanced)
	case length != sliceLengths[0]:
		o.fixed = append(o.fixed, "slices.length="+length.String(), "slices.guard="+(length/10).String())
	}
	return nil
}

func (p *Program) abOfCommands(ctx context.Context, o AB, blocks int) (*Study, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	names := differingNames(o.Commands[0], o.Commands[1])
	if names[0] == names[1] || slices.ContainsFunc(names[:], func(name string) bool { return name == "" || slices.Contains(app.Names(), name) }) {
		names = [2]string{programName(o.Commands[0], "program") + "-a", programName(o.Commands[1], "program") + "-b"}
	}
	expanded := programWords
	if o.ends() {
		expanded = literals
	}
	applications := map[string]any{}
	for i, name := range names {
		words, err := expanded(o.Commands[i])
		if err != nil {
			return nil, err
		}
		applications[name] = map[string]any{"command": words, "dir": dir, "ready": o.Ready}
	}
	e := map[string]any{
		"metadata": map[string]any{"name": label("ab-" + names[1])}, "applications": applications,
		"baseline": map[string]any{experiment.ApplicationFactor: names[0]}, "order": experiment.OrderInterleaved,
	}
	if o.ends() {
		if e["batch"], err = o.batch(); err != nil {
			return nil, err
		}
		e["factors"], e["phases"] = map[string]any{"application": names}, map[string]any{"measure": o.measure.String()}
		return p.decodeAB(ctx, o, e, blocks, "applications", names)
	}
	factors := map[string]any{"application": names, "mesh": []string{"none"}, "rate": []json.RawMessage{json.RawMessage(o.Rate)}, "connections": []int{abConnections}}
	requests, route, err := o.load(app.HTTP1)
	if err != nil {
		return nil, err
	}
	if route != nil {
		factors["route"] = route
	}
	e["factors"], e["load"], e["phases"] = factors, requests, map[string]any{"warmup": "1s", "measure": "3s", "drain": "1s"}
	return p.decodeAB(ctx, o, e, blocks, "applications", names)
}

// abConnections of the load of two programs: the same as of tare weigh.
const abConnections = 4

// DefaultEndsGate is the gate of `tare ab` for two programs that end.
const DefaultEndsGate = metric.WallTime + " < +2%"

// Ending describes executions of programs that end, by flags.
type Ending struct {
	Prepare string // command before each execution, as a shell reads it
	Input   string // file on standard input
}

func (e Ending) batch() (*experiment.Batch, error) {
	b := &experiment.Batch{Input: e.Input}
	if e.Prepare == "" {
		return b, nil
	}
	words, err := shellWords("--prepare", e.Prepare)
	b.Prepare = words
	return b, err
}

// ends reports whether the programs end by themselves: none is given a port, and no flag describes requests to them.
func (o AB) ends() bool {
	return o.Rate == "" && o.Path == "" && o.Ready == "" && o.Method == "" && len(o.Headers) == 0 && !slices.ContainsFunc(slices.Concat(o.Commands...), portMark.MatchString)
}

// literals are the words of a program that ends: they have no addresses.
func literals(args []string) ([]string, error) {
	return lists.Map(args, func(word string) string { return strings.ReplaceAll(word, "${", "$${") }), nil
}

// leastSeries is the shortest time for the executions of a program in a block.
const leastSeries = time.Second

// leastTry is the shortest time after which a first execution is killed.
const leastTry = 10 * time.Second

// tryAB executes both programs once, for the time of a block.
func (p *Program) tryAB(ctx context.Context, o *AB) error {
	if len(o.Body) > 0 && o.Input == "" {
		return hint.Usage(errors.New("--data is the standard input of a program that ends, and is not a file"), "write --data @FILE")
	}
	o.measure = leastSeries
	trial := *o
	trial.Gates = []string{DefaultEndsGate} // for the plan, if there is none
	study, err := p.abOfCommands(ctx, trial, experiment.DecideFrom())
	if err != nil {
		return err
	}
	limit := max(leastTry, o.MaxTime/time.Duration(experiment.DecideFrom()*len(study.Plan.Treatments)))
	var readings []execution.Reading
	if o.measure, readings, err = tryOnce(ctx, study, limit, "--max-time"); err != nil || len(o.Gates) > 0 {
		return err
	}
	o.Gates = gatesOf(readings)
	return nil
}

// gatesOf are the gates without --gate: of each Go benchmark that all programs print, or of the wall time.
func gatesOf(readings []execution.Reading) (gates []string) {
	for _, name := range slices.Sorted(maps.Keys(readings[0].Benchmarks)) {
		if !slices.ContainsFunc(readings, func(r execution.Reading) bool { return r.Benchmarks[name] == nil }) {
			gates = append(gates, metric.Of(metric.BenchmarkTime, name)+" < +2%")
		}
	}
	if gates == nil {
		gates = []string{DefaultEndsGate}
	}
	return gates
}

// ends makes the experiment one of executions.
func (w *weighFile) ends(o Weigh) (err error) {
	w.Batch, err = o.batch()
	w.Factors, w.Load = weighFactors{Application: w.Factors.Application}, weighLoad{}
	w.Phases = weighPhases{Measure: experiment.Duration(leastSeries)}
	return err
}

// fitEnding chooses the time of a block and the number of blocks by executing each program once.
func (w *WeighStudy) fitEnding(ctx context.Context) error {
	measure, _, err := tryOnce(ctx, w.Study, w.o.Time, "--time")
	if err != nil {
		return err
	}
	w.file.Phases.Measure = experiment.Duration(measure)
	blocks := int(w.o.Time / (measure * time.Duration(len(w.Study.Plan.Treatments))))
	w.file.Blocks = repeated(min(maxWeighBlocks, max(minWeighBlocks, blocks)))
	return nil
}

// tryOnce executes each program of a study once. It returns the time that the executions of one program in a block need, and the
// readings. A baseline that fails is an error.
func tryOnce(ctx context.Context, s *Study, limit time.Duration, flag string) (measure time.Duration, readings []execution.Reading, err error) {
	s.Program.Sweep()
	if err := generator.CheckAgent(ctx, s.Program.Version); err != nil {
		return 0, nil, err
	}
	var programs []app.Topology
	var of []plan.Treatment
	for _, t := range s.Plan.Treatments {
		if t.Control {
			continue
		}
		topology, err := s.Experiment.TopologyOf(t.Levels)
		if err != nil {
			return 0, nil, err
		}
		programs, of = append(programs, topology), append(of, t)
	}
	series := runner.Executions(s.Experiment, s.Experiment.Seed, programs...)
	series.Time, series.Limit = 0, limit
	begun := time.Now()
	all, err := series.By(ctx, generator.AgentPath(), s.Experiment.Platform.CPUs[string(metric.App)])
	if err != nil {
		return 0, nil, err
	}
	longest, outside := time.Duration(0), time.Since(begun)
	for i, t := range of {
		first, words := all[i][0], command(series.Programs[i])
		readings = append(readings, first)
		wall := time.Duration(first.Wall)
		longest, outside = max(longest, wall), outside-wall
		switch {
		case first.Exit == 0:
		case wall >= limit:
			return 0, nil, hint.New("if it is a server, write {port} where it takes its port, such as `env PORT={port} node server.js`; else raise "+flag,
				"%s did not end within %v", words, limit.Round(time.Second))
		case t.Baseline == "":
			return 0, nil, hint.New("run it by hand, with the same input and directory", "%s failed: %s", words, first.Failure())
		default:
			s.Program.Note(fmt.Sprintf("%s failed: %s", words, first.Failure()))
		}
	}
	const step = 100 * time.Millisecond
	longest += outside / time.Duration(len(of)) // to prepare and to start
	return max(leastSeries, (longest+step-1)/step*step), readings, nil
}

func command(p execution.Program) string {
	return proc.Command{Path: p.Command[0], Args: p.Command[1:]}.String()
}
