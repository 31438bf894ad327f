package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
)

// abOptions are the flags of `tare ab`.
type abOptions struct {
	runOptions
	mesh     []string // a name, or files of definitions
	programs []string
	versions []string
	a, b     string // factor=level, with FILE
	gates    []string
	detect   string
	maxTime  time.Duration
	bisect   bool
	app      string
	rate     string
	platform string
	fixed    []string // settings of the pilot: its seed and order
	// from are results directories to decide again, and replayTime is --max-time if it was given.
	from       []string
	replayTime time.Duration
}

// defaultGate is the gate of `tare ab` without --gate.
const defaultGate = metric.CPUPerRequest + "/data < +2%"

func newABCommand(c *CommandLine) *cobra.Command {
	o := abOptions{runOptions: runOptions{report: reportOptions{format: "decision"}, gatesOnly: true}, maxTime: 10 * time.Minute}
	cmd := &cobra.Command{
		Use:   "ab [FILE]",
		Short: "Compare two builds, versions or settings of a mesh in one run, and decide gates",
		Long: `ab runs A, A again and B side by side in every block, and ends as soon as each gate
holds or is breached. Both are shown by a group-sequential t test (alpha spending of Lan
and DeMets): over all looks together, a false breach and a false hold have a probability
of 5 % at most. At --max-time the gate is undecided, with the time that it would need.
So is a gate whose blocks depend on one another, or of which one is an outlier.

Without FILE the load is one service, or --app, behind --mesh. --program, --version and
--set a.FIELD=…, b.FIELD=… set how A and B differ: FIELD is one of meshes in the
experiment file. A single --program or --version is that of B. With FILE, --a and --b
choose two levels of a factor of the file.

--from decides the gates of recorded runs again, after each of their blocks as the run
did, with --gate, --detect and --max-time if given. A gate that was chosen after seeing
the results has no bound on its error.

Exit codes: 0 every gate holds; 4 one is breached; 5 undecided (--undecided pass or fail
makes it 0 or 4); 1 failed; 2 wrong usage. With --bisect, for git bisect run: 0 holds, 1
breached, 125 undecided or failed, 255 wrong usage.`,
		Example: `  tare ab --mesh envoy --program ./old --program ./new
  tare ab --mesh envoy --set b.options.accessLog=true --gate '` + defaultGate + `'
  tare ab --mesh envoy --version 1.39.3 --version 1.40.0
  tare ab --mesh istio --version 1.29.2 --version 1.30.4 --max-time 1h
  tare ab FILE --a mesh=envoy --b mesh=envoy-new --gate '` + metric.Latency + `/p99 < +5%'
  tare ab --from runs/ab-envoy-20260301T120000Z --gate '` + defaultGate + `' --detect 1%
  git bisect run tare ab --bisect --mesh envoy --program /good/envoy --program ./envoy`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(o.from) > 0 {
				return nil // further results directories
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("max-time") {
				o.replayTime = o.maxTime
			}
			return forBisect(o.bisect, abCommand{c}.ab(cmd.Context(), args, o))
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.mesh, "mesh", nil, "mesh of A and B, by `name` or file of its definition; with FILE: a definition from a file")
	f.StringArrayVar(&o.programs, "program", nil, "`program` of the sidecar: of B, or of A and B (local)")
	f.StringArrayVar(&o.versions, "version", nil, "`version` of the mesh: of B, or of A and B; on this machine one that tare downloads")
	f.StringArrayVar(&o.Set, "set", nil, "a setting of A or B, such as `b.options.accessLog=true`, or a field of the experiment; may be repeated")
	f.StringVar(&o.a, "a", "", "`factor=level` of A, with FILE")
	f.StringVar(&o.b, "b", "", "`factor=level` of B, with FILE")
	f.StringArrayVar(&o.gates, "gate", nil, "bound the change from A to B; may be repeated (default `'"+defaultGate+"'`)")
	f.StringVar(&o.detect, "detect", "", "a gate holds if the change is shown to be below its limit plus this `share`, such as 1%; default 0%")
	f.DurationVar(&o.maxTime, "max-time", o.maxTime, "max duration of the run; gates not decided by then are undecided")
	o.decides(cmd)
	f.BoolVar(&o.bisect, "bisect", false, "exit codes for git bisect run")
	f.StringVar(&o.app, "app", "echo", "application: `name` or file of a topology")
	f.StringVar(&o.rate, "rate", "1000", "`requests` per second")
	f.StringVar(&o.platform, "platform", "", "local or kubernetes; default: the first that the mesh supports; with --version kubernetes, if it supports that")
	f.StringArrayVar(&o.from, "from", nil, "decide the gates of the runs in these results `directories` again")
	_ = cmd.MarkFlagDirname("from")
	f.StringVar(&o.out, "out", "", "results `directory`; default runs/<name>-<UTC time>")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of a screen")
	f.StringVar(&o.report.format, "format", o.report.format, "report format, as in tare report")
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

// Exit codes that git bisect run understands. Above 127 it ends.
const (
	bisectBad  = 1
	bisectSkip = 125
	bisectEnd  = 255
)

// forBisect maps the exit code of err for git bisect run.
func forBisect(bisect bool, err error) error {
	if !bisect || err == nil {
		return err
	}
	code := bisectSkip
	var exit *console.ExitError
	var usage *hint.UsageError
	switch {
	case errors.As(err, &exit) && exit.Code == console.Gate:
		code = bisectBad
	case errors.As(err, &usage), errors.Is(err, context.Canceled), errors.As(err, new(interface{ InvalidFile() })):
		code = bisectEnd
	}
	return &console.ExitError{Err: err, Code: code}
}

// abCommand is `tare ab`.
type abCommand struct{ *CommandLine }

func (c abCommand) ab(ctx context.Context, args []string, o abOptions) error {
	if err := o.checkUndecided(); err != nil {
		return err
	}
	for _, g := range o.gates {
		if _, err := analysis.ParseGate(g); err != nil {
			return gateMistake(err)
		}
	}
	if len(o.from) > 0 {
		return c.replay(slices.Concat(o.from, args), o)
	}
	study, err := c.study(args, o)
	if err != nil {
		return err
	}
	return runCommand(c).runStudy(ctx, study, o.runOptions)
}

// study is the experiment, with as many blocks as the time allows.
func (c abCommand) study(args []string, o abOptions) (*Study, error) {
	if len(o.gates) == 0 {
		o.gates = []string{defaultGate}
	}
	read := c.fromFlags
	if len(args) == 1 {
		read = func(o abOptions, blocks int) (*Study, error) { return c.fromFile(args[0], o, blocks) }
	}
	pilot, err := fewestChanges(func() (*Study, error) { return read(o, experiment.DecideFrom()) })
	if err != nil {
		return nil, err
	}
	from := experiment.DecideFrom()
	perBlock := pilot.Plan.Expected / time.Duration(from)
	if pilot.Plan.Expected > o.maxTime {
		return nil, hint.Usage(fmt.Errorf("--max-time %v is too short: a block takes about %v, and %d are needed", o.maxTime, perBlock.Round(time.Second), from),
			fmt.Sprintf("write --max-time %v, or shorten phases.measure", (pilot.Plan.Expected*3/2).Round(10*time.Second)))
	}
	o.fixed = []string{fmt.Sprintf("seed=%d", pilot.Experiment.Seed)}
	if order := pilot.Experiment.Order; order != "" {
		o.fixed = append(o.fixed, "order="+order) // with a seed, the default differs
	}
	if pilot.Plan.MeshChanges > 0 { // not in each block
		twice, err := read(o, 2*from)
		if err != nil {
			return nil, err
		}
		perBlock = (twice.Plan.Expected - pilot.Plan.Expected) / time.Duration(from)
	}
	blocks := min(from+int((o.maxTime-pilot.Plan.Expected)/max(perBlock, time.Second)), stats.MaxLooks)
	for {
		s, err := read(o, blocks)
		if err != nil {
			return nil, err
		}
		if s.Plan.Expected <= o.maxTime || blocks == from {
			c.printNotes(s)
			return s, nil
		}
		// Blocks differ in the number of meshes that are installed.
		blocks = max(from, min(blocks-1, int(int64(blocks)*int64(o.maxTime)/int64(s.Plan.Expected))))
	}
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

// decideField is the field decide of an experiment file.
func (o abOptions) decideField() map[string]any {
	d := map[string]any{"gates": o.gates, "within": experiment.Duration(o.maxTime).String()}
	if o.detect != "" {
		d["detect"] = o.detect
	}
	return d
}

// fromFile reads an experiment file, for two levels of one of its factors.
func (c abCommand) fromFile(file string, o abOptions, blocks int) (*Study, error) {
	factor, a, okA := strings.Cut(o.a, "=")
	other, b, okB := strings.Cut(o.b, "=")
	if !okA || !okB || factor != other || a == b {
		return nil, hint.Usage(fmt.Errorf("--a %q and --b %q are not two levels of one factor", o.a, o.b), "write --a mesh=envoy --b mesh=envoy-new")
	}
	if len(o.programs)+len(o.versions) > 0 {
		return nil, hint.Usage(errors.New("--program and --version cannot be used with FILE"), "write variants under meshes: in the file")
	}
	decide, err := json.Marshal(o.decideField())
	if err != nil {
		return nil, err
	}
	set := []string{fmt.Sprintf("factors.%s=[%s, %s]", factor, a, b), fmt.Sprintf("baseline={%s: %s}", factor, a), "control=true",
		fmt.Sprintf("blocks=%d", blocks), "decide=" + string(decide)}
	x := ExperimentOptions{Set: slices.Concat(set, o.fixed, o.Set), Meshes: o.mesh, quiet: true}
	s, err := c.Read(file, x)
	if err != nil {
		return nil, err
	}
	if n := len(s.Plan.Treatments); n != 3 {
		return nil, hint.Usage(fmt.Errorf("%s has %d treatments with these levels, and A, A again and B are 3", file, n), "choose one level of each other factor: --set 'factors.rate=[1000]'")
	}
	if s.Experiment.Platform.Kind == mesh.OnLocal && s.Experiment.Order != experiment.OrderInterleaved {
		s.notef("%s has no order: interleaved, which needs fewer blocks", file)
	}
	return s, nil
}

// fromFlags makes the experiment of two variants of one mesh.
func (c abCommand) fromFlags(o abOptions, blocks int) (*Study, error) {
	if len(o.mesh) != 1 || o.a != "" || o.b != "" {
		return nil, hint.Usage(errors.New("give one --mesh, or a FILE with --a and --b"), "such as: tare ab --mesh envoy --program ./old --program ./new")
	}
	x := ExperimentOptions{quiet: true, Set: slices.Clone(o.fixed)}
	if mesh.IsPath(o.mesh[0]) {
		x.Meshes = o.mesh
	}
	d, err := mesh.Load(o.mesh[0])
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	names := [2]string{d.Name + "-a", d.Name + "-b"}
	variants := [2]map[string]any{{"from": d.Name}, {"from": d.Name}}
	for field, values := range map[string][]string{"program": o.programs, "version": o.versions} {
		if err := assign(field, values, variants); err != nil {
			return nil, err
		}
	}
	different := len(o.programs)+len(o.versions) > 0
	for _, s := range o.Set {
		field := s
		for i, side := range []string{"a.", "b."} {
			if rest, ok := strings.CutPrefix(s, side); ok {
				field, different = "meshes."+names[i]+"."+rest, true
			}
		}
		x.Set = append(x.Set, field)
	}
	if !different {
		return nil, hint.Usage(errors.New("nothing differs between A and B"), "give --program, --version, or settings such as --set b.options.accessLog=true")
	}
	platform := o.platform
	if platform == "" {
		if platform = mesh.OnLocal; len(o.versions) > 0 && d.Kubernetes != nil || d.Local == nil {
			platform = mesh.OnKubernetes
		}
	}
	where := o.platformField(platform)
	e := map[string]any{
		"apiVersion": experiment.APIVersion, "kind": experiment.Kind,
		"metadata":    map[string]any{"name": "ab-" + d.Name},
		"platform":    where,
		"application": map[string]any{"topology": o.app},
		"meshes":      map[string]any{names[0]: variants[0], names[1]: variants[1]},
		"factors":     map[string]any{"mesh": names, "rate": []json.RawMessage{json.RawMessage(o.rate)}},
		"baseline":    map[string]any{"mesh": names[0]}, "control": true,
		"blocks": blocks, "decide": o.decideField(),
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
	text, err := json.Marshal(e)
	if err != nil {
		return nil, hint.Usage(fmt.Errorf("--rate %q is not a number", o.rate), "write requests per second")
	}
	return c.decode("tare ab", text, x)
}

// refusesRounds reports whether a flag has a setting that an interleaved run refuses, or another order.
func (o abOptions) refusesRounds() bool {
	return slices.ContainsFunc(o.Set, func(set string) bool {
		return strings.HasPrefix(set, "order=") || strings.HasPrefix(set, "load.from=") || strings.HasSuffix(set, "withCLI=true")
	})
}

// platformField is the field platform of the experiment. On a cluster node agents are the meter: waiting for the refreshes
// of a kubelet's counters takes longer than the trial. They need a disposable cluster, so the flags may name another meter.
func (o abOptions) platformField(kind string) map[string]any {
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

// decidedIn is the exit code of the gates of a run.
func (c abCommand) decidedIn(dir, undecided string) error {
	d, r, err := analyse(dir, reportOptions{})
	if err != nil {
		return err
	}
	defer d.Close()
	return c.decided(r.Decided(), undecided)
}

// decided is the exit code of an outcome.
func (c abCommand) decided(outcome analysis.Outcome, undecided string) error {
	switch outcome {
	case analysis.Breached:
		return &console.ExitError{Code: console.Gate}
	case analysis.Holds:
		return nil
	}
	switch undecided {
	case "pass":
		c.Notef("undecided, and passes (--undecided pass)")
		return nil
	case "fail":
		return &console.ExitError{Err: errors.New("undecided, and fails (--undecided fail)"), Code: console.Gate}
	}
	return &console.ExitError{Code: console.Undecided}
}
