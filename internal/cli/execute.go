package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
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

// Event takes the next event.
func (h hinting) Event(e result.Event) error {
	e.Hint = h.o.inHints(e.Hint)
	return h.View.Event(e)
}

// purpose is the experiment's description, else its treatments.
func purpose(s *session.Study) string {
	if words := strings.Join(strings.Fields(s.Experiment.Metadata.Description), " "); words != "" {
		return words
	}
	var names []string
	of := report.TreatmentNames(s.Plan.Treatments, s.Experiment.Metadata.Names)
	for _, t := range s.Plan.Treatments {
		if !t.Control && !t.Reference {
			names = append(names, of[t.ID])
		}
	}
	return "Compares " + printable.Listed(names, mostNamed)
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
