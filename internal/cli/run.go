package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
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
				return console.Usage(errors.New("--out and --resume exclude each other"), "a resumed run continues in its own directory")
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
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagDirname("resume")
	return cmd
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
		return console.Usage(fmt.Errorf("format %s is a directory of files", f.Name), "run, and then write it with `tare report DIR --format "+f.Name+" -o DIR`")
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
	if err == nil && len(study.Experiment.Decide.Gates) > 0 {
		if err = abCommand(c).decidedIn(dir.Path(), o.undecided); err == nil {
			err = unmet(dir)
		}
		return err
	}
	if err == nil && summary.Failed+summary.Invalid > 0 {
		err = &console.ExitError{Err: fmt.Errorf("%s: see the warnings above and %s", unusable(summary.Failed, summary.Invalid, summary.Trials), filepath.Join(dir.Path(), result.TrialsDir)), Code: console.Incomplete}
	}
	if err == nil {
		err = unmet(dir)
	}
	return err
}

// unusable counts failed and invalid trials in words: "1 of 18 trials failed and 2 were invalid".
func unusable(failed, invalid, trials int) string {
	were := "were"
	if invalid == 1 {
		were = "was"
	}
	switch {
	case failed == 0:
		return fmt.Sprintf("%d of %d trials %s invalid", invalid, trials, were)
	case invalid == 0:
		return fmt.Sprintf("%d of %d trials failed", failed, trials)
	}
	return fmt.Sprintf("%d of %d trials failed and %d %s invalid", failed, trials, invalid, were)
}

// recordedSeed returns the seed and order of an earlier run, for a file without a seed.
func recordedSeed(dir string) func() (uint64, string) {
	return func() (uint64, string) {
		x, err := experiment.Read(filepath.Join(dir, result.ExperimentFile), experiment.Known{})
		if err != nil { // opening the directory reports it
			return drawSeed(), experiment.OrderBalanced
		}
		return x.Seed, x.Order
	}
}

// dryRun prints what a run would do, where the platform can.
func (c runCommand) dryRun(ctx context.Context, s *Study, o runOptions) error {
	if kind := s.Experiment.Platform.Kind; kind != mesh.OnKubernetes {
		return console.Usage(fmt.Errorf("--dry-run: %w on platform %s", errors.ErrUnsupported, kind), "`tare plan` prints the trials and their order")
	}
	return c.kubernetes.DryRun(ctx, c.CommandLine, s, Opening{Experiment: s.Experiment, Results: o.results(s.Experiment, time.Now().UTC()), Notices: &Notices{to: c.Err}})
}

// unmet counts the expectations that do not hold.
func unmet(dir *result.Dir) error {
	records, err := dir.Records()
	if err != nil {
		return err
	}
	conditions, trials := 0, 0
	for _, r := range records {
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
	return &console.ExitError{Err: fmt.Errorf("expectations do not hold: %d times, in %d of %d trials", conditions, trials, len(records)), Code: console.Gate}
}

// results is the directory of the run.
func (o runOptions) results(x *experiment.Experiment, now time.Time) string {
	return cmp.Or(o.resume, o.out, filepath.Join("runs", x.Metadata.Name+"-"+now.Format("20060102T150405Z")))
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
	defer c.whileInterrupted(view.Leave, interruptedRun)()
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
		Sinks:      []result.Sink{view},
		Kill:       c.kill,
	})
}
