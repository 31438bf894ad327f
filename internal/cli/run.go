package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/live"
	"github.com/tare-mesh/tare/internal/show/report"
)

type runOptions struct {
	ExperimentOptions
	out    string // results directory
	resume string // results directory of an earlier run
	plain  bool
	dry    bool // print what would be done
	report reportOptions
	// sourceShown: the application's source was printed before.
	sourceShown bool
	// finish prints the result. Nil means the report.
	finish func(dir string, o reportOptions) error
	// undecided is the outcome of an undecided gate: pass, fail, or empty for its own exit code.
	undecided string
	// gatesOnly makes trials that failed or are invalid no reason for an exit code, if each treatment has a valid one:
	// the gates take account of them.
	gatesOnly bool
	// hints changes the hints of messages, for a command without a file. Nil keeps them.
	hints func(string) string
	// bisect: the exit codes have the meaning that git bisect gives them.
	bisect bool
	// interrupted is the message of the first interrupt, "" for the message of a run that keeps its records.
	interrupted string
}

func newRunCommand(c *CommandLine) *cobra.Command {
	o := runOptions{report: defaultReport()}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run an experiment and print the report",
		Long: `run runs the trials of an experiment file one after another and prints the report.
It keeps all measurements in a results directory, from which ` + "`tare report`" + `
computes the same report again. FILE may be the name of an example, such as quickstart.

On a terminal a screen shows the plan, the interval so far, rates, latencies and CPU:
arrows choose a trial, Enter shows it, l shows the log, Space pauses. With
--plain or no terminal there are lines.

The first interrupt (Ctrl-C, or q) removes the running trial and keeps every finished
one; --resume continues from there. Exit codes: 0 done; 1 failed; 2 an invalid file; 3
finished, but some trials failed or were invalid; 4 an expectation or a gate does not
hold; 5 a gate is undecided; 130 interrupted.`,
		Example: `  tare run quickstart
  tare run examples/quickstart.yaml
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
				c.program.Sweep()
			}
			return runCommand{c}.run(cmd.Context(), file, o)
		},
	}
	o.Register(cmd)
	o.RegisterCluster(cmd)
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "results `directory`; default runs/<name>-<UTC time>")
	f.StringVar(&o.resume, "resume", "", "continue the interrupted run in `DIR`; FILE may be omitted, and must be unchanged")
	f.BoolVar(&o.dry, "dry-run", false, "run nothing: print manifests and commands of one trial of each treatment (kubernetes)")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of a screen")
	choice(cmd, &o.report.format, "format", "report format, as in tare report", formatNames())
	undecidedFlag(cmd, &o.undecided)
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagDirname("resume")
	return cmd
}

// undecidedFlag adds the flag of the outcome of undecided gates.
func undecidedFlag(cmd *cobra.Command, outcome *string) {
	choice(cmd, outcome, "undecided", "`outcome` of an undecided gate: pass, as one that holds, or fail, as a breached one; default: exit code 5", outcomes)
}

type runCommand struct{ *CommandLine }

// run reads an experiment file, runs it and prints the report.
func (c runCommand) run(ctx context.Context, file string, o runOptions) error {
	o.Resumed = o.resume
	study, err := c.Read(ctx, file, o.ExperimentOptions)
	if err != nil {
		return err
	}
	return c.runStudy(ctx, study, o)
}

// ExperimentOptions are the flags of every command that reads an experiment file.
type ExperimentOptions struct{ session.Options }

func (o *ExperimentOptions) Register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.Set, "set", nil, "override a field of the file, such as `blocks=3` or factors.rate=[100,200]; may be repeated")
	f.StringArrayVar(&o.Meshes, "mesh", nil, "add a mesh definition from a `file`, to be used by the name in it; may be repeated")
	_ = cmd.MarkFlagFilename("mesh", "yaml", "yml")
}

// RegisterCluster adds the flags that choose a cluster, in place of the file's platform.kubeconfig and platform.context.
func (o *ExperimentOptions) RegisterCluster(cmd *cobra.Command) {
	field := func(name string) func(string) error {
		return func(value string) error {
			text, err := json.Marshal(value) // quoted YAML
			o.Set = append(o.Set, "platform."+name+"="+string(text))
			return err
		}
	}
	cmd.Flags().Func("kubeconfig", "kubeconfig of the cluster, in place of the file's", field("kubeconfig"))
	cmd.Flags().Func("context", "context in it, in place of the file's", field("context"))
}

// ChooseMeshes compares the embedded meshes that --mesh names, instead of the file's meshes. All other values are files.
func (o *ExperimentOptions) ChooseMeshes() {
	names, known := []string{"none"}, mesh.Names()
	o.Meshes = slices.DeleteFunc(o.Meshes, func(value string) bool {
		if !slices.Contains(known, value) {
			return false
		}
		names = lists.Add(names, value)
		return true
	})
	if len(names) > 1 {
		o.Set = append(o.Set, "factors.mesh=["+strings.Join(names, ", ")+"]")
	}
}

// Read reads an experiment file and prints its notes.
func (c *CommandLine) Read(ctx context.Context, file string, o ExperimentOptions) (*session.Study, error) {
	s, err := c.program.Read(ctx, file, o.Options)
	if err != nil {
		return nil, err
	}
	c.printNotes(s)
	return s, nil
}

func (c *CommandLine) printNotes(s *session.Study) {
	for _, note := range s.Notes {
		c.Notef("%s", note)
	}
}

// seedWords formats the seed of the plan, and how to run the same plan again.
func seedWords(s *session.Study) string {
	if !s.Drawn {
		return fmt.Sprintf("seed %d", s.Plan.Seed)
	}
	repeat := fmt.Sprintf("--set seed=%d", s.Plan.Seed)
	if s.Experiment.Order != "" {
		repeat += " --set order=" + s.Experiment.Order
	}
	return fmt.Sprintf("seed %d (random; repeat this plan with %s)", s.Plan.Seed, repeat)
}

// sourceText describes the application as it was found: its Services, and what trials lack. "" if tare or a chart has it.
func sourceText(s *session.Study) string {
	a := s.Experiment.Application
	if a.Objects == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "application from %s:\n", a.Objects.Source)
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, service := range a.Services {
		protocol, load := cmp.Or(service.Protocol, "protocol of the factor"), ""
		if service.Name == a.Entry {
			load = "receives the load"
		}
		fmt.Fprintf(tw, "  %s\tport %d\t%s\t%s\n", service.Name, service.Port, protocol, load)
	}
	_ = tw.Flush()
	b.WriteString(callText(s))
	heading := "differences of trials:\n"
	if a.InPlace {
		heading = "measured in place: each trial adds it to the mesh, restarts it, and restores it\n"
	}
	if len(a.Objects.Notes) > 0 || a.InPlace {
		b.WriteString(heading)
	}
	for _, n := range a.Objects.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
		if n.Hint != "" {
			fmt.Fprintf(&b, "    %s\n", n.Hint)
		}
	}
	return printable.Text(b.String())
}

// callText lists the calls between services: declared in the file, or shown by the configuration of the pods.
func callText(s *session.Study) string {
	a := s.Experiment.Application
	var calls []string
	for _, service := range a.Services {
		for _, c := range service.Calls {
			calls = append(calls, service.Name+" -> "+c.Service)
		}
	}
	if len(calls) > 0 {
		return "calls: " + strings.Join(calls, ", ") + "\n"
	}
	if len(a.Services) < 2 {
		return ""
	}
	for _, c := range a.Objects.Calls {
		calls = append(calls, c.From+" -> "+c.To)
	}
	const seen = "trials under a mesh of sidecars print the calls that they see\n"
	if len(calls) == 0 {
		return "no addresses of services in the configuration of pods: " + seen
	}
	return "calls, by addresses in the configuration of pods: " + strings.Join(calls, ", ") + "\n  " + seen
}

// runStudy runs an experiment that was read, and prints the report.
func (c runCommand) runStudy(ctx context.Context, study *session.Study, o runOptions) error {
	if err := c.program.Runs(study.Experiment); err != nil {
		return err
	}
	if err := study.CheckSource(); err != nil {
		return err
	}
	path := cmp.Or(o.resume, study.Results(o.out))
	if o.dry {
		if kind := study.Experiment.Platform.Kind; kind != mesh.OnKubernetes {
			return hint.Usage(fmt.Errorf("--dry-run: %w on platform %s", errors.ErrUnsupported, kind), "`tare plan` prints the trials and their order")
		}
		return c.kubernetes.DryRun(ctx, study, path, c.Out)
	}
	if err := o.report.checkForRun(); err != nil {
		return err
	}
	run, err := study.Open(ctx, path, o.resume != "")
	if err != nil {
		return err
	}
	if o.resume == "" {
		c.printHeading(study, o)
	}
	recorded, err := c.trials(ctx, study, run, o)
	if !recorded {
		return err
	}
	// Recorded trials get a report even if the run failed.
	ended := err
	if ended == nil {
		ended = c.outcome(study.Experiment, run.Dir, o)
	}
	o.report.exit = console.Code(forBisect(o.bisect, ended))
	finish := o.finish
	if finish == nil {
		finish = reporter(c).report
	}
	reported := finish(path, o.report)
	if reported == nil {
		reported = reporter(c).page(path, o.report)
	}
	return cmp.Or(err, reported, ended)
}

// printHeading prints what a new run does: its description, and the application as it was found.
func (c runCommand) printHeading(s *session.Study, o runOptions) {
	fmt.Fprintln(c.Err, printable.Text(purpose(s)))
	if !o.sourceShown {
		fmt.Fprint(c.Err, sourceText(s))
	}
	if most := s.PrewarmTime(); most > 0 {
		fmt.Fprintf(c.Err, "If the CPU of a request falls, as with a JIT compiler, deployments are loaded for up to %v before each block, at most %s in all (%s: never).\n",
			s.Experiment.Phases.Prewarm, spoken(most), o.inHints("phases.prewarm: 0s"))
	}
}

// spoken is a time in minutes, or seconds: "47 min". 47m would be a number of thousandths in Kubernetes.
func spoken(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
	}
	return fmt.Sprintf("%.0f min", math.Ceil(d.Minutes()))
}

// inHints is a hint in the words of the command.
func (o runOptions) inHints(text string) string {
	if o.hints == nil {
		return text
	}
	return o.hints(text)
}

// hinting is a view with hints in the words of a command.
type hinting struct {
	*live.View
	o runOptions
}

func (h hinting) Event(e result.Event) error {
	e.Hint = h.o.inHints(e.Hint)
	return h.View.Event(e)
}

// purpose is the experiment's description, else its treatments.
func purpose(s *session.Study) string {
	if words := strings.Join(strings.Fields(s.Experiment.Metadata.Description), " "); words != "" {
		return words
	}
	of := report.TreatmentNames(s.Plan.Treatments, s.Experiment.Metadata.Names)
	compared := lists.Where(s.Plan.Treatments, func(t plan.Treatment) bool { return !t.Control && !t.Reference })
	return "Compares " + printable.Listed(lists.Map(compared, func(t plan.Treatment) string { return of[t.ID] }), mostNamed)
}

// mostNamed is the max number of treatments in a sentence.
const mostNamed = 6

// trials runs the trials under the live view, closes the directory, and reports whether it has a record. A directory without
// any is discarded if the run was refused before its first trial.
func (c runCommand) trials(ctx context.Context, s *session.Study, run *session.Run, o runOptions) (recorded bool, err error) {
	summary, err := c.underView(ctx, run, o)
	end := run.Dir.Close
	if err != nil && o.resume == "" && !errors.Is(err, context.Canceled) {
		end = func() error { return result.Discard(run.Dir) } // nothing to resume
	}
	return summary.Earlier+summary.Recorded > 0, cmp.Or(err, end())
}

// temporarily runs a study in a directory that remove deletes, and opens its results.
func (c runCommand) temporarily(ctx context.Context, s *session.Study, o runOptions) (run *session.Run, dir *result.Dir, remove func() error, err error) {
	tmp, err := os.MkdirTemp("", "tare-")
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a directory for the run: %w", err)
	}
	remove = func() error { return os.RemoveAll(tmp) }
	if run, err = s.Open(ctx, filepath.Join(tmp, "run"), false); err == nil {
		_, err = c.underView(ctx, run, o)
		if ctx.Err() != nil {
			err = context.Cause(ctx) // no directory remains that could be resumed
		}
		err = errors.Join(err, run.Dir.Close())
	}
	if err == nil {
		dir, err = result.Open(run.Dir.Path())
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, remove())
	}
	return run, dir, remove, nil
}

// underView runs the trials that have no record yet, under the live view.
func (c runCommand) underView(ctx context.Context, run *session.Run, o runOptions) (runner.Summary, error) {
	recorded, err := run.Dir.Records()
	if err != nil {
		return runner.Summary{}, err
	}
	view := live.New(c.Err, live.Options{Plain: o.plain, In: c.In, Plan: run.Dir.Plan(), Recorded: recorded, Analyze: reportsOf(run.Dir), Interrupt: interruptSelf})
	defer view.Close()
	defer c.WhileInterrupted(view.Leave, cmp.Or(o.interrupted, interruptedRun))()
	options := session.RunOptions{View: hinting{view, o}, Kill: c.kill}
	if o.undecided != "" {
		options.Resume = []string{"--undecided", o.undecided}
	}
	return run.Trials(ctx, options)
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

// unusable counts the trials that failed or were invalid. A trial that only a change by hand made invalid is neither.
func unusable(dir *result.Dir, records []result.Record) error {
	failed, invalid := 0, 0
	for i := range records {
		switch r := &records[i]; {
		case r.Error != "":
			failed++
		case !r.Valid && !onlyByHand(r):
			invalid++
		}
	}
	if failed+invalid == 0 {
		return nil
	}
	text := unusableText(failed, invalid, len(records))
	return &console.ExitError{Err: fmt.Errorf("%s: see the warnings above and %s", text, filepath.Join(dir.Path(), result.TrialsDir)), Code: console.Incomplete}
}

// byHandCodes are the codes that invalidate a trial whose services were changed by hand: the change, and requests that it delayed or failed.
var byHandCodes = []string{"changed-by-hand", "rate-missed", "errors"}

// onlyByHand reports whether a change by hand alone made a trial invalid.
func onlyByHand(r *result.Record) bool {
	return len(r.ByHand) > 0 && !slices.ContainsFunc(r.Warnings, func(w result.Warning) bool { return w.Invalidates && !slices.Contains(byHandCodes, w.Code) })
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

// unmet counts the expectations that do not hold in valid trials. Of others nothing is concluded. One that only is undecided
// is an error of its own.
func unmet(records []result.Record) error {
	conditions, undecided, trials, valid := 0, 0, 0, 0
	for _, r := range records {
		if !r.Valid {
			continue
		}
		valid++
		before := conditions
		for _, o := range r.Expectations {
			switch {
			case o.Undecided:
				undecided++
			case !o.OK:
				conditions++
			}
		}
		if conditions > before {
			trials++
		}
	}
	switch {
	case conditions == 0 && undecided == 0:
		return nil
	case conditions == 0:
		return &console.ExitError{Err: fmt.Errorf("expectations are undecided: %s in %d trials, whose bounds contain the limit", printable.Counted(undecided, "time"), valid), Code: console.Undecided}
	}
	return &console.ExitError{Err: fmt.Errorf("expectations do not hold: %s, in %d of %d trials", printable.Counted(conditions, "time"), trials, valid), Code: console.Gate}
}
