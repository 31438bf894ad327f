// Package runner runs a plan: one trial after another, each through the same
// table of phases. It decides the times and the outcome of a trial. Platforms
// deploy, generators send the load and meters read.
//
// Nothing here analyses. The record of a trial is raw, with warnings that limit
// the use of its figures.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
)

// Config is everything a run needs. Dir has the plan.
type Config struct {
	Experiment *experiment.Experiment
	Topology   app.Topology
	Topologies map[string]app.Topology    // by the level of the factor application, nil if all trials have Topology
	Meshes     map[string]mesh.Definition // by the level of the factor mesh
	Platform   platform.Platform
	Generators map[string]generator.Generator // by the level of the factor generator
	Meter      meter.Meter
	Dir        *result.Dir   // from result.Create or result.Resume
	Sinks      []result.Sink // beside Dir: the live view, a log
	// Stop is called after every block. It returns the reason to end the run, or none to
	// continue. nil: every block is run. The runner does not analyse, but Stop reads the
	// directory.
	Stop func(block int) (result.Stopped, error)
	// Resume is the command that continues the run, for messages. "": `tare run --resume DIR`.
	Resume string
	// Kill ends at the second interrupt, after which nothing is waited for. nil: it never does.
	Kill context.Context
	// TrialTime is the expected duration of a trial, for views; 0: the time in the plan.
	TrialTime time.Duration
	// Refresh is the counter refresh interval that TrialTime contains. It is corrected once the platform has measured
	// the interval. 0: TrialTime is kept.
	Refresh time.Duration
	// Timing has time limits, whose zero fields have defaults.
	Timing Timing
	// Services are the services of running trials, for changes by hand. nil: nobody can.
	Services *Services
	// Wall reads the wall clock, by default with time.Now. Tests step it.
	Wall func() time.Time
}

// Timing has the time limits that the experiment file lacks.
type Timing struct {
	Deploy    time.Duration // deadline of Deploy, default 2 min
	Verify    time.Duration // deadline of Verify, default 30 s
	Settle    time.Duration // for tasks to become idle, default 3 s
	Lead      time.Duration // from starting a generator that is not held to its first request, default 300 ms and 1 ms a connection
	Tail      time.Duration // load after the measure phase, under which its end is read, default 500 ms
	Deferral  time.Duration // for deferred work to end after a block, default 2 s
	Overtime  time.Duration // for the generator to end, beyond its own deadline, default 10 s
	Remove    time.Duration // deadline of Remove, default 90 s
	LoadGrace time.Duration // from SIGTERM to SIGKILL of the generator, default 1 s
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Deploy, 2 * time.Minute}, {&t.Verify, 30 * time.Second}, {&t.Settle, 3 * time.Second},
		{&t.Lead, 300 * time.Millisecond}, {&t.Tail, 500 * time.Millisecond},
		{&t.Deferral, 2 * time.Second}, {&t.Overtime, 10 * time.Second}, {&t.Remove, 90 * time.Second}, {&t.LoadGrace, time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return t
}

// Summary is the outcome of a run.
type Summary struct {
	Trials   int // in the plan
	Earlier  int // recorded before this run
	Recorded int // by this run, the failed and the invalid ones included
	Failed   int // of this run
	Invalid  int // of this run, that did not fail
	// Stopped is the reason for an end before the last block, "" if all blocks were run.
	Stopped string
}

// Interrupted is a run that was ended from outside. It is [context.Canceled], and Err is the cause.
type Interrupted struct {
	hint.Hinted
	Dir      string
	Recorded int // in Dir
	Trials   int
}

func (e *Interrupted) Error() string {
	return fmt.Sprintf("interrupted: %d of %s are recorded in %s", e.Recorded, printable.Counted(e.Trials, "trial"), e.Dir)
}

// Is makes every interrupt a cancellation.
func (e *Interrupted) Is(target error) bool { return target == context.Canceled }

type run struct {
	Config
	plan       plan.Plan
	treatments map[string]plan.Treatment
	versions   map[string]string     // of generators' programs, by the generator's name
	bursts     map[string][]float64  // seconds between bursts, by treatment, 0 for a trial without any
	quiet      map[string]quietTried // time without requests, by treatment
	period     time.Duration         // the longest of bursts in earlier blocks, see [place]
	delay      time.Duration         // of a trial beyond the plan, because of that period
	prewarmer  prewarmer
	executed   map[string]bool // treatments of programs that end which had executions
	summary    Summary

	mu    sync.Mutex // of sinks: events come from the phases and from the generator's output
	sinks []result.Sink
}

// Run runs the trials of cfg.Dir that have no record yet. A failed trial is recorded with its
// error, and the run continues. An error ends the run: [*Interrupted], a directory that cannot be
// written, a platform that cannot be prepared, or a deployment that cannot be removed.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	r := &run{Config: cfg, plan: cfg.Dir.Plan(), sinks: cfg.Sinks, treatments: map[string]plan.Treatment{}, bursts: map[string][]float64{}, quiet: map[string]quietTried{}, executed: map[string]bool{}}
	r.Timing = cfg.Timing.withDefaults()
	if r.Kill == nil {
		r.Kill = context.Background()
	}
	r.Resume = cmp.Or(r.Resume, "tare run --resume "+cfg.Dir.Path())
	if r.Wall == nil {
		r.Wall = time.Now
	}
	for _, t := range r.plan.Treatments {
		r.treatments[t.ID] = t
	}
	pending, err := cfg.Dir.Pending()
	if err != nil {
		return r.summary, err
	}
	r.summary.Trials = len(r.plan.Trials)
	r.summary.Earlier = len(r.plan.Trials) - len(pending)
	if r.summary.Earlier > 0 {
		records, err := cfg.Dir.Records()
		if err != nil {
			return r.summary, err
		}
		for i := range records {
			r.learn(&records[i])
		}
	}
	r.TrialTime = cmp.Or(r.TrialTime, r.plan.TrialTime)
	r.send(result.Event{Kind: result.KindRun, Run: r.opening()})
	err = r.all(ctx, pending)
	r.send(result.Event{Kind: result.KindEnd})
	return r.summary, err
}

func (r *run) opening() *result.Run {
	return &result.Run{
		Experiment: r.plan.Experiment, Dir: r.Dir.Path(),
		Trials: max(r.plan.Needed(), r.summary.Earlier), Recorded: r.summary.Earlier,
		TrialTime: r.TrialTime, Measure: time.Duration(r.Experiment.Phases.Measure),
		Within: time.Duration(r.Experiment.Decide.Within),
	}
}

func (r *run) all(ctx context.Context, pending []plan.Trial) error {
	unsealed, err := result.Unsealed(r.Dir)
	if err != nil || len(pending)+len(unsealed) == 0 {
		return err
	}
	if err := r.prepare(ctx, pending); err != nil {
		return r.ended(ctx, err)
	}
	// Preparing has removed what a killed run left, so that nothing writes to its trials.
	if err := result.SealTrials(r.Dir, unsealed); err != nil {
		return err
	}
	if block := r.undecided(pending); block > 0 {
		if stopped, err := r.enough(block); stopped || err != nil {
			return err
		}
	}
	all := plan.Rounds(pending)
	for i, trials := range all {
		if ctx.Err() != nil {
			return r.ended(ctx, nil)
		}
		if err := r.runRound(ctx, trials); err != nil {
			return r.ended(ctx, err)
		}
		block := trials[0].Block
		if i+1 < len(all) && all[i+1][0].Block != block {
			switch stopped, err := r.enough(block); {
			case err != nil:
				return r.ended(ctx, err)
			case stopped: // complete, even if an interrupt came meanwhile
				return nil
			}
		}
	}
	return nil
}

// undecided is the last recorded block, if all trials up to it are recorded and none after it, else 0. A run that was
// killed there may not have asked its stop rule.
func (r *run) undecided(pending []plan.Trial) int {
	if len(pending) == 0 {
		return 0
	}
	before := pending[0].Block - 1
	upTo := func(t plan.Trial) bool { return t.Block <= before }
	after := slices.DeleteFunc(slices.Clone(r.plan.Trials), upTo)
	if slices.ContainsFunc(pending, upTo) || len(after) != len(pending) {
		return 0
	}
	return before
}

// enough reports whether the run ends after a block before the last. An error of the check does
// not end it.
func (r *run) enough(block int) (bool, error) {
	if r.Stop == nil {
		return false, nil
	}
	end, err := r.Stop(block)
	if err != nil {
		r.send(result.Event{Kind: result.KindLog, Message: "the run continues, because the check for an early end failed: " + err.Error()})
		return false, nil
	}
	if end.Why == "" {
		return false, nil
	}
	end.At, end.Block = r.Wall(), block
	if err := r.Dir.Stop(end); err != nil {
		return false, err
	}
	r.summary.Stopped = end.Why
	r.send(result.Event{Kind: result.KindLog, Message: fmt.Sprintf("stopped after block %d: %s", block, end.Why)})
	return true, nil
}

// ended returns the error of Run. An interrupt comes first.
func (r *run) ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	interrupted := &Interrupted{Hinted: hint.Hinted{Err: context.Cause(ctx), Text: "go on with: " + r.Resume},
		Dir: r.Dir.Path(), Recorded: r.summary.Earlier + r.summary.Recorded, Trials: r.summary.Trials}
	if err == nil || errors.Is(err, interrupted.Err) || errors.Is(err, context.Canceled) {
		return interrupted
	}
	return errors.Join(interrupted, err)
}

// Refused returns an error if p or a mesh does not support x, for example one of its faults. Run calls it
// too. Call it before the directory is made, to avoid an empty one.
func Refused(x *experiment.Experiment, meshes map[string]mesh.Definition, p platform.Platform) error {
	var used []mesh.Definition
	for _, name := range slices.Sorted(maps.Keys(meshes)) {
		if slices.Contains(experiment.LevelsOf[string](x.Factors, "mesh"), name) {
			used = append(used, meshes[name])
		}
	}
	if err := experiment.CheckBackground(x, used); err != nil {
		return err
	}
	return hint.Prefix(timeline.Check(x.Faults, p.Faults), "prepare platform %s", x.Platform.Kind)
}

// prepare prepares the platform for the meshes of pending trials and records the versions it
// found.
func (r *run) prepare(ctx context.Context, pending []plan.Trial) error {
	if err := Refused(r.Experiment, r.Meshes, r.Platform); err != nil {
		return err
	}
	if err := CheckSecrets(r.Experiment); err != nil {
		return err
	}
	var meshes []mesh.Definition
	seen := map[string]bool{}
	for _, t := range pending {
		treatment, ok := r.treatments[t.Treatment]
		if !ok {
			return fmt.Errorf("trial %s: the plan has no treatment %s", t.ID, t.Treatment)
		}
		name := treatment.Levels.Mesh
		m, ok := r.Meshes[name]
		if !ok {
			return fmt.Errorf("trial %s: mesh %s is not defined", t.ID, name)
		}
		if !seen[name] {
			seen[name] = true
			meshes = append(meshes, m)
		}
	}
	versions, err := r.Platform.Prepare(ctx, meshes)
	if err != nil {
		return fmt.Errorf("prepare platform %s: %w", r.Experiment.Platform.Kind, err)
	}
	if counters := r.Platform.CounterRefresh; counters != nil && r.Refresh > 0 {
		r.TrialTime += RefreshExtra(r.Experiment.Phases, counters.Refresh()) - RefreshExtra(r.Experiment.Phases, r.Refresh)
		r.send(result.Event{Kind: result.KindTimes, Run: r.opening()})
	}
	versions = maps.Clone(versions)
	if versions == nil {
		versions = map[string]string{}
	}
	if err := r.findGenerators(ctx, pending, versions); err != nil {
		return err
	}
	return r.Dir.SetVersions(versions)
}

// send gives an event to every sink but the directory. A failed sink gets no more events: a broken
// terminal must not end a measurement.
func (r *run) send(e result.Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var kept []result.Sink
	var lost []error
	for _, s := range r.sinks {
		if err := s.Event(e); err != nil {
			lost = append(lost, err)
			continue
		}
		kept = append(kept, s)
	}
	r.sinks = kept
	for _, err := range lost {
		for _, s := range r.sinks {
			_ = s.Event(result.Event{Time: e.Time, Kind: result.KindLog, Message: "an output of events failed and is closed: " + err.Error()})
		}
	}
}

// journal keeps the record and the events of a trial.
type journal struct {
	setup  *setup
	record result.Record
	idle   map[string]int64        // resident memory of idle tasks before the load, bytes, by ID
	memory memoryTraces            // resident memory over time
	abort  context.CancelCauseFunc // ends the trial and the run: the directory cannot be written

	mu   sync.Mutex
	lost error // an event that was not written
}

// emit writes an event to the trial's directory and to every sink. If the directory cannot be
// written the run ends.
func (j *journal) emit(e result.Event) {
	e.Trial = j.setup.of.ID
	if e.Time.IsZero() {
		e.Time = j.setup.clock.now()
	}
	if err := j.setup.dir.Event(e); err != nil {
		j.mu.Lock()
		j.lost = err
		j.mu.Unlock()
		j.abort(err)
	}
	j.setup.send(e)
}

func (j *journal) lostEvent() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// nodeUnread warns that the total of the machine is missing.
func (j *journal) nodeUnread(why error) {
	j.warn(result.Warning{Code: "node-unread", Message: fmt.Sprintf("the machine's total could not be read: %v", why), Metrics: []string{metric.NodeCPU}})
}

func (j *journal) warn(w result.Warning) { j.record.Warnings = append(j.record.Warnings, w) }

// invalid is a trial that ran and whose figures cannot be used.
type invalid struct {
	hint.Hinted
	warning result.Warning
}

func unusable(code, message, text string) error {
	return &invalid{hint.Hinted{Err: errors.New(message), Text: text},
		result.Warning{Code: code, Message: message, Hint: text, Invalidates: true}}
}

// clock is the time of one trial. It advances with the monotonic clock from the wall-clock time at
// which the trial began. Differences between time stamps of a trial are correct even if the wall
// clock is stepped.
type clock struct {
	wall   func() time.Time
	began  time.Time // with its monotonic reading
	anchor time.Time // the wall clock then
}

func newClock(wall func() time.Time) *clock {
	return &clock{wall: wall, began: time.Now(), anchor: wall().Round(0)}
}

// drift is the distance of the wall clock from the monotonic clock since the trial began.
func (c *clock) drift() time.Duration {
	return c.wall().Round(0).Sub(c.now())
}

func (c *clock) now() time.Time { return c.steady(time.Now()) }

// steady converts t to the trial's time. t has a monotonic reading, or is used unchanged.
func (c *clock) steady(t time.Time) time.Time { return c.anchor.Add(t.Sub(c.began)) }

// await waits until t. t has a monotonic reading. If ctx ends first, await returns the cause.
func await(ctx context.Context, t time.Time) error { return wait.For(ctx, time.Until(t)) }

// write checks the trial and writes its record. It is the last phase.
func (t *trial) write(context.Context) error {
	t.journal.memory.keep(t.journal.record.Tasks, t.sliced != nil)
	t.journal.record.ByHand = t.setup.Services.end(t)
	t.judge()
	t.journal.record.Ended = t.setup.clock.now()
	if err := t.journal.lostEvent(); err != nil {
		return err
	}
	done := result.Event{Time: t.setup.clock.now(), Kind: result.KindDone, Trial: t.setup.of.ID, Total: t.journal.record.Total()}
	if err := t.setup.dir.Event(done); err != nil {
		return err
	}
	if err := t.setup.dir.Finish(t.journal.record); err != nil {
		t.outcome = err // the record cannot be kept, so its outcome is lost
		return err
	}
	t.recorded = true
	t.count()
	t.setup.send(done)
	return nil
}

// judge sets the outcome in the record and emits it.
func (t *trial) judge() {
	bad, isInvalid := errors.AsType[*invalid](t.outcome)
	switch {
	case isInvalid:
		t.journal.warn(bad.warning)
	case t.outcome != nil:
		t.journal.record.Error = printable.Translate(t.outcome.Error())
		if h := hint.Of(t.outcome); h != "" {
			t.journal.warn(result.Warning{Code: "failed", Message: "the trial failed", Hint: h, Invalidates: true})
		}
		t.journal.emit(result.Event{Kind: result.KindError, Message: t.journal.record.Error, Hint: hint.Of(t.outcome)})
		return
	case t.setup.Experiment.Batch != nil:
		t.journal.record.Warnings = append(t.journal.record.Warnings, executed(&t.journal.record, t.setup.Experiment.Validity)...)
	default:
		if len(t.journal.record.Faults) > 0 || t.setup.Experiment.Changing() {
			t.seen.seconds = t.judgedSeconds()
		}
		t.journal.record.Warnings = append(t.journal.record.Warnings, t.checked()...)
		t.expect()
	}
	for _, w := range t.journal.record.Warnings {
		if w.Invalidates {
			t.journal.emit(result.Event{Kind: result.KindInvalid, Message: w.Message, Hint: w.Hint})
			return
		}
	}
	t.journal.record.Valid = true
}

func (t *trial) count() {
	t.setup.learn(&t.journal.record)
	t.setup.summary.Recorded++
	switch {
	case t.journal.record.Error != "":
		t.setup.summary.Failed++
	case !t.journal.record.Valid:
		t.setup.summary.Invalid++
	}
}
