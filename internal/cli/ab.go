package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/report"
)

type abOptions struct {
	runOptions
	session.AB
	// from are results directories to decide again, and replayTime is --max-time if it was given.
	from       []string
	replayTime time.Duration
	data       string // body, or @file
}

func newABCommand(c *CommandLine) *cobra.Command {
	o := abOptions{runOptions: runOptions{report: reportOptions{format: "decision"}, gatesOnly: true}, AB: session.AB{MaxTime: 10 * time.Minute}}
	cmd := &cobra.Command{
		Use:   "ab [FILE] | -- PROGRAM-A [ARGUMENT…] -- PROGRAM-B [ARGUMENT…]",
		Short: "Compare two builds of a program or mesh, versions or settings in one run, and decide gates",
		Long: `ab runs A, A again and B side by side in every block, and ends as soon as each gate
holds or is breached. Both are shown by a group-sequential t test (alpha spending of Lan
and DeMets). Over all looks together, a false breach and a false hold have a probability
of 5 % at most, if blocks are independent and of one kind. Half of the planned blocks, at
most 20, run before a gate holds. At --max-time the gate is undecided, with the time that
it would need. So is a gate whose blocks depend on one another, of which one is an
outlier, or whose programs were not warm.

Failed requests are counted, in invalid trials too. A B that fails over 0.1 % more
requests than A breaches after the first block, whatever the gates are.

Without FILE the load is one service, or --app, behind --mesh. --program, --version and
--set a.FIELD=…, b.FIELD=… set how A and B differ: FIELD is one of meshes in the
experiment file. A single --program or --version is that of B. With FILE, --a and --b
choose two levels of a factor of the file.

Two commands, each after a --, are two builds of your own program, without a mesh. Write
{port} where they take their port, as in tare weigh. tare searches for a rate that both
serve. The gate is then '` + session.DefaultProgramGate + `'; --path, --data,
--method, --header and --ready are those of tare weigh, and --set b.env.NAME=value
changes one of the two.

Without {port} and these flags, the programs end: a compiler, a test. They are executed
in turn, without a shell, each after the command of --prepare and with the file of
--data @FILE as input. The gate is '` + session.DefaultEndsGate + `'; cpu_time, peak_memory and
output_size are figures too. A B that fails breaches.

--from decides the gates of recorded runs again, after each of their blocks as the run
did, with --gate, --detect and --max-time if given. A gate that was chosen after seeing
the results has no bound on its error.

Exit codes: 0 every gate holds; 4 one is breached; 5 undecided (--undecided pass or fail
makes it 0 or 4); 1 failed; 2 wrong usage. With --bisect, for git bisect run: 0 holds, 1
breached, 125 undecided or failed, 255 wrong usage.`,
		Example: `  tare ab -- ./server-old --port {port} -- ./server-new --port {port}
  tare ab -- ./old build -- ./new build      # programs that end
  tare ab --mesh envoy --program ./old --program ./new
  tare ab --mesh envoy --set b.options.accessLog=true --gate '` + session.DefaultGate + `'
  tare ab --mesh envoy --version 1.39.3 --version 1.40.0
  tare ab --mesh istio --version 1.29.2 --version 1.30.4 --max-time 1h
  tare ab FILE --a mesh=envoy --b mesh=envoy-new --gate '` + metric.Latency + `/p99 < +5%'
  tare ab --from runs/ab-envoy-20260301T120000Z --gate '` + session.DefaultGate + `' --detect 1%
  git bisect run tare ab --bisect --mesh envoy --program /good/envoy --program ./envoy
  git bisect run tare ab --bisect -- /good/server --port {port} -- ./server --port {port}`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(o.from) > 0 || cmd.ArgsLenAtDash() >= 0 {
				return nil // further results directories, or programs
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("max-time") {
				o.replayTime = o.MaxTime
			}
			o.Input = inputOf(o.data)
			if o.data != "" {
				var err error
				if o.AB.Body, err = readBody(o.data, c.In); err != nil {
					return forBisect(o.bisect, hint.Usage(err, ""))
				}
			}
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				o.Commands, args = split(args[at:], "--"), args[:at]
				if !cmd.Flags().Changed("rate") {
					o.Rate = "" // searched
				}
			}
			return forBisect(o.bisect, abCommand{c}.ab(cmd.Context(), args, o))
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Mesh, "mesh", nil, "mesh of A and B, by `name` or file of its definition; with FILE: a definition from a file")
	f.StringArrayVar(&o.Programs, "program", nil, "`program` of the sidecar: of B, or of A and B (local)")
	f.StringArrayVar(&o.Versions, "version", nil, "`version` of the mesh: of B, or of A and B; on this machine one that tare downloads")
	f.StringArrayVar(&o.AB.Set, "set", nil, "a setting of A or B, such as `b.options.accessLog=true`, or a field of the experiment; may be repeated")
	registerRequest(f, &o.Method, &o.data, &o.Headers)
	f.StringVar(&o.A, "a", "", "`factor=level` of A, with FILE")
	f.StringVar(&o.B, "b", "", "`factor=level` of B, with FILE")
	f.StringArrayVar(&o.Gates, "gate", nil, "bound the change from A to B; may be repeated (default `'"+session.DefaultGate+"'`; of two programs /total)")
	f.StringVar(&o.Detect, "detect", "", "a gate holds if the change is shown to be below its limit plus this `share`, such as 1%; default 0%")
	f.DurationVar(&o.MaxTime, "max-time", o.MaxTime, "max duration of the run; gates not decided by then are undecided")
	undecidedFlag(cmd, &o.undecided)
	f.BoolVar(&o.bisect, "bisect", false, "exit codes for git bisect run")
	f.StringVar(&o.App, "app", "echo", "application: `name` or file of a topology")
	f.StringVar(&o.Rate, "rate", "1000", "`requests` per second; of two programs by default found by a short search")
	f.StringVar(&o.Path, "path", "", "`path` of the requests to two programs (default /)")
	f.StringVar(&o.Ready, "ready", "", "`path` that two programs answer with 2xx or 3xx once they serve (default: any answer)")
	registerPrepare(f, &o.Prepare)
	f.StringVar(&o.Platform, "platform", "", "local or kubernetes; default: the first that the mesh supports; with --version kubernetes, if it supports that")
	f.StringArrayVar(&o.from, "from", nil, "decide the gates of the runs in these results `directories` again")
	_ = cmd.MarkFlagDirname("from")
	f.StringVar(&o.out, "out", "", "results `directory`; default runs/<name>-<UTC time>")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of a screen")
	choice(cmd, &o.report.format, "format", "report format, as in tare report", formatNames())
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

func split(words []string, separator string) (all [][]string) {
	all = [][]string{nil}
	for _, word := range words {
		if word == separator {
			all = append(all, nil)
			continue
		}
		all[len(all)-1] = append(all[len(all)-1], word)
	}
	return all
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

type abCommand struct{ *CommandLine }

func (c abCommand) ab(ctx context.Context, args []string, o abOptions) error {
	for _, g := range o.Gates {
		if _, err := compare.ParseGate(g); err != nil {
			return gateMistake(err)
		}
	}
	if len(o.from) > 0 {
		return c.replay(slices.Concat(o.from, args), o)
	}
	if len(args) > 0 {
		o.File = args[0]
	}
	study, err := c.study(ctx, o.AB)
	if err != nil {
		return err
	}
	c.printNotes(study)
	return runCommand(c).runStudy(ctx, study, o.runOptions)
}

// study is [session.Program.AB]. An interrupt of a search for a rate waits until its processes have ended.
func (c abCommand) study(ctx context.Context, o session.AB) (*session.Study, error) {
	if len(o.Commands) > 0 {
		defer c.WhileInterrupted(nil, Undoing)()
	}
	return c.program.AB(ctx, o)
}

func (c abCommand) decidedIn(dir, undecided string) error {
	a, err := analyse(dir, reportOptions{})
	if err != nil {
		return err
	}
	defer a.Dir.Close()
	return c.decided(a.Report.Decided(), undecided)
}

// decided is the exit code of an outcome.
func (c abCommand) decided(outcome compare.Outcome, undecided string) error {
	switch outcome {
	case compare.Breached:
		return &console.ExitError{Code: console.Gate}
	case compare.Holds:
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

// replay decides the gates of recorded runs again: after each block, as the run did, until they are decided.
func (c abCommand) replay(dirs []string, o abOptions) error {
	options, err := o.replayOptions()
	if err != nil {
		return err
	}
	var all []session.Replayed
	var outcomes []compare.Decision
	for _, dir := range dirs {
		r, err := session.Replay(dir, options, o.replayTime)
		if err != nil {
			return gateMistake(err)
		}
		all, outcomes = append(all, r), append(outcomes, r.Decisions...)
	}
	decided := c.decided(compare.Decided(outcomes), o.undecided)
	if o.report.exit = console.Code(forBisect(o.bisect, decided)); len(all) == 1 {
		err = c.writeReplay(all[0], options, o.report)
	} else {
		err = writeReplays(c.Out, all, outcomes, o.report)
	}
	return cmp.Or(err, decided)
}

// replayOptions returns the options of the analysis. It refuses flags that describe a run.
func (o abOptions) replayOptions() (compare.Options, error) {
	options := compare.Options{Gates: o.Gates}
	if len(o.Mesh)+len(o.Programs)+len(o.Versions)+len(o.AB.Set) > 0 || o.A != "" || o.B != "" || o.out != "" || len(o.Commands) > 0 {
		return options, hint.Usage(errors.New("--from reads runs, and needs no flag that describes one"), "such as: tare ab --from runs/mine --gate '"+session.DefaultGate+"'")
	}
	if o.Detect == "" {
		return options, nil
	}
	if len(o.Gates) == 0 {
		return options, hint.Usage(errors.New("--detect needs --gate"), "with --from, gates and --detect of the run are used together, or those of the flags")
	}
	var detect experiment.Share
	if err := detect.UnmarshalScalar(o.Detect); err != nil {
		return options, hint.Usage(fmt.Errorf("--detect: %w", err), "write it as --detect 1%")
	}
	options.Detect = float64(detect)
	return options, nil
}

// writeReplay writes the report of a run as it was at the deciding look.
func (c abCommand) writeReplay(r session.Replayed, o compare.Options, format reportOptions) error {
	f, err := reportFormat(format, console.Columns(c.Out), console.Color(c.Out))
	if err != nil {
		return err
	}
	if f.Export != nil {
		return hint.Usage(fmt.Errorf("format %s is a directory of files", f.Name), "choose another format")
	}
	d, err := result.Open(r.Dir)
	if err != nil {
		return err
	}
	defer d.Close()
	o.Blocks, o.LastLook = r.Block, r.Last
	rep, err := answer.Analyze(d, o)
	if err != nil {
		return err
	}
	return f.WriteTo(c.Out, answer.Analysis{Report: rep, Dir: d, Options: o})
}

// writeReplays writes a line for each gate of each run, and the number of runs by outcome.
func writeReplays(w io.Writer, all []session.Replayed, decisions []compare.Decision, o reportOptions) error {
	var rows [][]string
	count := map[compare.Outcome]int{}
	for _, r := range all {
		count[compare.Decided(r.Decisions)]++
		for _, d := range r.Decisions {
			change := "-"
			if d.Change != nil {
				change = report.ChangeWords(d)
			}
			rows = append(rows, []string{r.Dir, d.Gate, string(d.Outcome), change, fmt.Sprint(d.Pairs), fmt.Sprint(d.Max)})
		}
	}
	sentence := fmt.Sprintf("%s: %d breached, %d hold, %d undecided", printable.Counted(len(all), "run"), count[compare.Breached], count[compare.Holds], count[compare.Undecided])
	if o.format == "json" {
		b := answer.Brief{Sentence: sentence, Verdict: compare.Verdict(compare.Decided(decisions)), ExitCode: o.exit}
		return answered(w, b, struct {
			Runs []session.Replayed `json:"runs"`
		}{all})
	}
	if err := console.Table(w, []string{"RUN", "GATE", "OUTCOME", "CHANGE", "PAIRS", "OF"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", sentence)
	return err
}
