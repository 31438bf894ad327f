package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/show/live"
)

// runOptions are the flags of `tare run`.
type runOptions struct {
	ExperimentOptions
	out    string // results directory
	resume string // results directory of an earlier run
	plain  bool
	dry    bool // print what would be done
	report reportOptions
	// start is the time until the program of a trial serves, beyond the plan.
	start time.Duration
	// sourceShown: the application's source was printed before.
	sourceShown bool
	// stop ends the run after a block. Nil means the rule of the experiment.
	stop func(block int) (result.Stopped, error)
	// finish prints the result. Nil means the report.
	finish func(dir string, o reportOptions) error
	// undecided is the outcome of an undecided gate: pass, fail, or empty for its own exit code.
	undecided string
	// gatesOnly makes trials that failed or are invalid no reason for an exit code, if each treatment has a valid one:
	// the gates take account of them.
	gatesOnly bool
	// interrupted is the message of the first interrupt, "" for that of a run that keeps its records.
	interrupted string
}

func newRunCommand(c *CommandLine) *cobra.Command {
	o := runOptions{report: defaultReport()}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run an experiment and print the report",
		Long: `run runs the trials of an experiment file one after another and prints the report.
It keeps all measurements in a results directory, from which ` + "`tare report`" + `
computes the same report again.

On a terminal a screen shows the plan, the interval so far, rates, latencies and CPU:
arrows choose a trial, Enter shows it, l shows the log, s sorts, Space pauses. With
--plain, NO_COLOR or no terminal there are lines.

The first interrupt (Ctrl-C, or q) removes the running trial and keeps every finished
one; --resume continues from there. Exit codes: 0 done; 1 failed; 2 an invalid file; 3
finished, but some trials failed or were invalid; 4 an expectation or a gate does not
hold; 5 a gate is undecided; 130 interrupted.`,
		Example: `  tare run examples/quickstart.yaml
  tare run examples/quickstart.yaml --set blocks=20 --out runs/mine
  tare run --resume runs/mine
  tare run experiment.yaml --mesh ./my-mesh.yaml
  tare run experiment.yaml --set platform.kind=kubernetes --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.resume != "" {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.resume != "" && o.out != "" {
				return hint.Usage(errors.New("--out and --resume exclude each other"), "a resumed run continues in its own directory")
			}
			file := filepath.Join(o.resume, result.ExperimentFile)
			if len(args) == 1 {
				file = args[0]
			}
			if !o.dry {
				c.sweep()
			}
			return runCommand{c}.run(cmd.Context(), file, o)
		},
	}
	o.Register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "results `directory`; default runs/<name>-<UTC time>")
	f.StringVar(&o.resume, "resume", "", "continue the interrupted run in `DIR`; FILE may be omitted, and must be unchanged")
	f.BoolVar(&o.dry, "dry-run", false, "run nothing: print manifests and commands of one trial of each treatment (kubernetes)")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of a screen")
	f.StringVar(&o.report.format, "format", o.report.format, "report format, as in tare report")
	o.report.attributed(cmd)
	o.decides(cmd)
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagDirname("resume")
	return cmd
}

// decides adds the flag of the outcome of undecided gates.
func (o *runOptions) decides(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.undecided, "undecided", "", "`outcome` of an undecided gate: pass or fail; default: exit code 5")
	_ = cmd.RegisterFlagCompletionFunc("undecided", cobra.FixedCompletions([]string{"pass", "fail"}, cobra.ShellCompDirectiveNoFileComp))
}

// checkUndecided refuses other outcomes.
func (o *runOptions) checkUndecided() error {
	if o.undecided != "" && o.undecided != "pass" && o.undecided != "fail" {
		return hint.Usage(fmt.Errorf("--undecided is %q", o.undecided), "write pass or fail")
	}
	return nil
}

// runCommand carries out experiments.
type runCommand struct{ *CommandLine }

func (c runCommand) run(ctx context.Context, file string, o runOptions) error {
	if o.resume != "" {
		o.draw = recordedSeed(o.resume)
	}
	study, err := c.Read(file, o.ExperimentOptions)
	if err != nil {
		return err
	}
	study.Plan.Expected += o.start * time.Duration(len(study.Plan.Trials))
	study.Plan.TrialTime += o.start
	return c.runStudy(ctx, study, o)
}

// runStudy runs an experiment that was read, and prints the report.
func (c runCommand) runStudy(ctx context.Context, study *Study, o runOptions) error {
	if err := o.checkUndecided(); err != nil {
		return err
	}
	if err := c.needs(study.Experiment); err != nil {
		return err
	}
	if err := study.checkSource(); err != nil {
		return err
	}
	if o.dry {
		return c.dryRun(ctx, study, o)
	}
	f, err := reportFormat(o.report, 0)
	if err != nil {
		return err
	}
	if f.Export != nil {
		return hint.Usage(fmt.Errorf("format %s is a directory of files", f.Name), "run, and then write it with `tare report DIR --format "+f.Name+" -o DIR`")
	}
	if _, err := attributionOf(o.report.attribution); err != nil {
		return err
	}
	// Missing programs and secrets are reported before a directory exists.
	generators, err := c.generatorsOf(study.Experiment)
	if err != nil {
		return err
	}
	if err := generator.Missing(generator.FindAll(ctx, study.used(generators))); err != nil {
		return err
	}
	if err := runner.CheckSecrets(study.Experiment); err != nil {
		return err
	}
	if err := encodeMessages(ctx, study.Experiment); err != nil {
		return err
	}
	on, err := c.begin(ctx, study, o)
	if err != nil {
		return err
	}
	dir := on.dir
	study.trialTimes = study.readTrialTimes(filepath.Dir(dir.Path()))
	if study.Drawn && o.resume == "" {
		fmt.Fprintf(c.Err, "%s\n", study.seedWords())
	}
	if text := study.sourceText(); text != "" && o.resume == "" && !o.sourceShown {
		fmt.Fprint(c.Err, text)
	}
	if words := study.orderWords(); words != "" && o.resume == "" {
		fmt.Fprintf(c.Err, "%s\n", words)
	}
	summary, err := c.carryOut(ctx, study, on, o)
	end := dir.Close
	if err != nil && o.resume == "" && !errors.Is(err, context.Canceled) {
		end = func() error { return result.Discard(dir) } // refused before the first trial: nothing to resume
	}
	if closed := end(); err == nil {
		err = closed
	}
	if recorded := summary.Earlier + summary.Recorded; recorded == 0 {
		return err
	}
	// Recorded trials get a report even if the run failed.
	finish := o.finish
	if finish == nil {
		finish = reporter(c).report
	}
	reported := finish(dir.Path(), o.report)
	if reported == nil {
		reported = reporter(c).page(dir.Path(), o.report)
	}
	if err == nil {
		err = reported
	}
	if err == nil {
		err = c.outcome(study.Experiment, dir, o)
	}
	return err
}

// outcome is the exit code of a run to its end, the trials of earlier sessions included: of gates, of expectations, and
// then of trials that cannot be used.
func (c runCommand) outcome(x *experiment.Experiment, dir *result.Dir, o runOptions) error {
	if len(x.Decide.Gates) > 0 {
		if err := abCommand(c).decidedIn(dir.Path(), o.undecided); err != nil {
			return err
		}
	}
	records, err := dir.Records()
	if err != nil {
		return err
	}
	if err := unmet(records); err != nil || o.gatesOnly && measured(dir.Plan(), records) {
		return err
	}
	return unusable(dir, records)
}

// measured reports whether each treatment has a valid trial.
func measured(p plan.Plan, records []result.Record) bool {
	valid := map[string]bool{}
	for i := range records {
		valid[records[i].Treatment] = valid[records[i].Treatment] || records[i].Valid
	}
	return !slices.ContainsFunc(p.Treatments, func(t plan.Treatment) bool { return !valid[t.ID] })
}

// unusable counts the trials that failed or were invalid.
func unusable(dir *result.Dir, records []result.Record) error {
	failed, invalid := 0, 0
	for i := range records {
		switch r := &records[i]; {
		case r.Error != "":
			failed++
		case !r.Valid:
			invalid++
		}
	}
	if failed+invalid == 0 {
		return nil
	}
	text := unusableText(failed, invalid, len(dir.Plan().Trials))
	return &console.ExitError{Err: fmt.Errorf("%s: see the warnings above and %s", text, filepath.Join(dir.Path(), result.TrialsDir)), Code: console.Incomplete}
}

// unusableText counts failed and invalid trials in words: "1 of 18 trials failed and 2 were invalid".
func unusableText(failed, invalid, trials int) string {
	were := "were"
	if invalid == 1 {
		were = "was"
	}
	switch {
	case failed == 0:
		return fmt.Sprintf("%d of %s %s invalid", invalid, printable.Counted(trials, "trial"), were)
	case invalid == 0:
		return fmt.Sprintf("%d of %s failed", failed, printable.Counted(trials, "trial"))
	}
	return fmt.Sprintf("%d of %s failed and %d %s invalid", failed, printable.Counted(trials, "trial"), invalid, were)
}

// recordedSeed returns the seed and order of an earlier run, for a file without a seed.
func recordedSeed(dir string) func() (uint64, string) {
	return func() (uint64, string) {
		x, err := experiment.Read(filepath.Join(dir, result.ExperimentFile), experiment.Known{Recorded: true})
		if err != nil { // opening the directory reports it
			return drawSeed(), experiment.OrderBalanced
		}
		return x.Seed, x.Order
	}
}

// dryRun prints what a run would do, where the platform can.
func (c runCommand) dryRun(ctx context.Context, s *Study, o runOptions) error {
	if kind := s.Experiment.Platform.Kind; kind != mesh.OnKubernetes {
		return hint.Usage(fmt.Errorf("--dry-run: %w on platform %s", errors.ErrUnsupported, kind), "`tare plan` prints the trials and their order")
	}
	return c.kubernetes.DryRun(ctx, c.CommandLine, s, Opening{Experiment: s.Experiment, Results: o.results(s.Experiment, time.Now().UTC()), Notices: &Notices{to: c.Err}})
}

// unmet counts the expectations that do not hold in valid trials. Of others nothing is concluded.
func unmet(records []result.Record) error {
	conditions, trials, valid := 0, 0, 0
	for _, r := range records {
		if !r.Valid {
			continue
		}
		valid++
		before := conditions
		for _, o := range r.Expectations {
			if !o.OK {
				conditions++
			}
		}
		if conditions > before {
			trials++
		}
	}
	if conditions == 0 {
		return nil
	}
	return &console.ExitError{Err: fmt.Errorf("expectations do not hold: %d times, in %d of %d trials", conditions, trials, valid), Code: console.Gate}
}

// tareRun is the command line of `tare run` with files of mesh definitions, for a person to copy.
func tareRun(definitions []string, args ...string) string {
	words := append([]string{"run"}, args...)
	for _, file := range definitions {
		words = append(words, "--mesh", file)
	}
	return proc.Command{Path: "tare", Args: words}.String()
}

// results is the directory of the run.
func (o runOptions) results(x *experiment.Experiment, now time.Time) string {
	return cmp.Or(o.resume, o.out, newRun(x.Metadata.Name, now))
}

// newRun is a directory for results that does not exist: a second run of one second has the suffix -2.
func newRun(name string, now time.Time) string {
	base := filepath.Join("runs", name+"-"+now.Format("20060102T150405Z"))
	dir := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(dir); err != nil {
			return dir
		}
		dir = fmt.Sprintf("%s-%d", base, n)
	}
}

// begun is a run that has a place to be carried out at, and one for its results.
type begun struct {
	*Opened
	dir     *result.Dir
	notices *Notices
}

// begin opens the platform, and then the directory of a new run or of an earlier one: what the platform
// cannot do leaves no directory behind.
func (c runCommand) begin(ctx context.Context, s *Study, o runOptions) (*begun, error) {
	path := o.results(s.Experiment, time.Now().UTC())
	notices := &Notices{to: c.Err}
	on, err := c.catalog.platform(s.Experiment.Platform.Kind).open(ctx, c.CommandLine, Opening{Experiment: s.Experiment, Results: path, Notices: notices})
	if err != nil {
		return nil, err
	}
	if err := runner.Refused(s.Experiment, on.Platform); err != nil {
		return nil, err
	}
	dir, err := c.openResults(s, path, o.resume != "", on.Environment)
	if err != nil {
		return nil, err
	}
	return &begun{on, dir, notices}, nil
}

// openResults makes the directory of a new run, or takes up that of an earlier one.
func (c runCommand) openResults(s *Study, path string, resume bool, env result.Environment) (*result.Dir, error) {
	text, err := s.Experiment.YAML()
	if err != nil {
		return nil, err
	}
	env.Time = time.Now().UTC()
	env.Tare = console.Version()
	env.Command = os.Args
	env.Platform = s.Experiment.Platform.Kind
	if env.Meshes, err = s.meshDigests(); err != nil {
		return nil, err
	}
	env.Provides = s.provides()
	env.Variants = s.variants()
	env.Options = s.options()
	if resume {
		return result.Resume(path, text, env)
	}
	return result.Create(path, text, s.Plan, env)
}

// carryOut runs the trials that have no record yet, under the live view.
func (c runCommand) carryOut(ctx context.Context, s *Study, on *begun, o runOptions) (_ runner.Summary, err error) {
	topologies, err := s.Topologies()
	if err != nil {
		return runner.Summary{}, err
	}
	generators, err := c.generatorsOf(s.Experiment)
	if err != nil {
		return runner.Summary{}, err
	}
	recorded, err := on.dir.Records()
	if err != nil {
		return runner.Summary{}, err
	}
	view := live.New(c.Err, live.Options{Plain: o.plain, In: c.In, Plan: on.dir.Plan(), Recorded: recorded, Analyze: reportsOf(on.dir), Interrupt: interruptSelf})
	defer view.Close()
	defer c.WhileInterrupted(view.Leave, cmp.Or(o.interrupted, interruptedRun))()
	on.notices.show(view)
	defer on.notices.show(nil)
	if on.End != nil {
		// The first interrupt is no reason to leave a mesh behind. After the second the next run takes it out.
		late := cmp.Or(c.kill, context.WithoutCancel(ctx))
		defer func() { err = errors.Join(err, on.End(late)) }()
	}
	planned := c.catalog.platform(s.Experiment.Platform.Kind).refreshOf(s.Experiment)
	if s.trialTimes != nil {
		planned = 0 // earlier trials had the interval of their cluster
	}
	resume := []string{"--resume", on.dir.Path()}
	if o.undecided != "" {
		resume = append(resume, "--undecided", o.undecided)
	}
	stop := o.stop
	if stop == nil {
		stop = stopRule(on.dir, s.Experiment, on.notices.Post)
	}
	return runner.Run(ctx, runner.Config{
		Experiment: s.Experiment,
		Topologies: topologies,
		Meshes:     s.Meshes,
		Platform:   on.Platform,
		Generators: generators,
		Programs:   c.catalog.programs,
		Meter:      on.Meter,
		Timing:     on.Timing,
		Dir:        on.dir,
		TrialTime:  s.expected() / time.Duration(max(1, len(s.Plan.Trials))),
		Refresh:    planned,
		Stop:       stop,
		Resume:     tareRun(s.definitions, resume...),
		Sinks:      []result.Sink{view},
		Kill:       c.kill,
	})
}
