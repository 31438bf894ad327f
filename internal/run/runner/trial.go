package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load/generator"
	"github.com/tare-mesh/tare/internal/load/loadgen"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/fault"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// workflow is what a trial goes through, in this order. A phase whose error
// ends the trial is followed only by those marked always. What was deployed is
// removed afterwards, whatever happened.
var workflow = []struct {
	name   string
	do     func(*trial, context.Context) error
	always bool
}{
	{name: "deploy", do: (*trial).deploy},
	{name: "verify", do: (*trial).verify},
	{name: "settle", do: (*trial).settle},
	{name: "warm-up", do: (*trial).warmUp},
	{name: "measure", do: (*trial).measure},
	{name: "drain", do: (*trial).drain},
	{name: "record", do: (*trial).keep, always: true},
}

// trial is one trial under way.
type trial struct {
	*run
	of        plan.Trial
	treatment plan.Treatment
	mesh      mesh.Definition
	topology  app.Topology
	dir       *result.TrialDir
	clock     *clock
	abort     context.CancelCauseFunc // ends the trial, and with it the run: its directory cannot be written

	deployment *platform.Deployment
	generator  generator.Generator // from the warm-up on
	profile    loadgen.Profile
	loading    *loading
	edges      edges
	sampler    sampler
	faults     *fault.Timeline // nil before the measure phase

	outcome  error // why the trial is not a good one; nil so far
	recorded bool
	record   result.Record
	seen     seen

	mu       sync.Mutex // of lost and progress, which the generator's output reaches
	lost     error      // an event that could not be kept
	progress []loadgen.Progress
}

// invalid is a trial that ran and cannot be used.
type invalid struct{ result.Warning }

func (e *invalid) Error() string { return e.Message }

// Hint says what to do about it.
func (e *invalid) Hint() string { return e.Warning.Hint }

func unusable(code, message, hint string) error {
	return &invalid{result.Warning{Code: code, Message: message, Hint: hint, Invalidates: true}}
}

// one runs one trial. The error says that the run cannot go on.
func (r *run) one(parent context.Context, of plan.Trial) (err error) {
	ctx, abort := context.WithCancelCause(parent)
	defer abort(nil)
	treatment := r.treatments[of.Treatment]
	t := &trial{run: r, of: of, treatment: treatment, mesh: r.Meshes[treatment.Levels.Mesh], topology: r.Topology, clock: newClock(r.Wall), abort: abort}
	if topology, ok := r.Topologies[treatment.Levels.Topology]; ok {
		t.topology = topology
	}
	t.record = result.Record{
		ID: of.ID, Ordinal: of.Ordinal, Block: of.Block, Treatment: of.Treatment,
		Factors: treatment.Factors, Control: treatment.Control, Started: t.clock.now(), Phases: []result.Phase{},
	}
	if t.dir, err = r.Dir.Trial(of); err != nil {
		return err
	}
	t.emit(result.Event{Kind: result.KindTrial})
	t.walk(ctx)
	removal := t.remove(ctx)
	abandoned := t.dir.Abandon() // no more than a close where the trial is recorded
	if t.recorded {
		return removal
	}
	if lost := t.lostEvent(); lost != nil {
		return errors.Join(lost, removal)
	}
	if parent.Err() != nil {
		return cmp.Or(errors.Join(removal, abandoned), context.Cause(parent))
	}
	return errors.Join(t.outcome, removal, abandoned)
}

func (t *trial) walk(ctx context.Context) {
	for _, p := range workflow {
		if t.outcome != nil && !p.always {
			continue
		}
		// An interrupted trial is not recorded: it is run again when the run is resumed.
		if ctx.Err() != nil {
			return
		}
		t.emit(result.Event{Kind: result.KindPhase, Phase: p.name})
		phase := result.Phase{Name: p.name, Start: t.clock.now()}
		err := p.do(t, ctx)
		phase.End = t.clock.now()
		t.record.Phases = append(t.record.Phases, phase)
		if err != nil && t.outcome == nil {
			t.outcome = err
		}
	}
}

// emit gives an event to the trial's directory and to every sink. A directory
// that cannot be written ends the run.
func (t *trial) emit(e result.Event) {
	e.Trial = t.of.ID
	if e.Time.IsZero() {
		e.Time = t.clock.now()
	}
	if err := t.dir.Event(e); err != nil {
		t.mu.Lock()
		t.lost = err
		t.mu.Unlock()
		t.abort(err)
	}
	t.tell(e)
}

func (t *trial) lostEvent() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

func (t *trial) warn(w result.Warning) { t.record.Warnings = append(t.record.Warnings, w) }

// keep writes the record, the last thing of a trial.
func (t *trial) keep(context.Context) error {
	t.judge()
	t.record.Ended = t.clock.now()
	if err := t.lostEvent(); err != nil {
		return err
	}
	done := result.Event{Time: t.clock.now(), Kind: result.KindDone, Trial: t.of.ID}
	if err := t.dir.Event(done); err != nil {
		return err
	}
	if err := t.dir.Finish(t.record); err != nil {
		t.outcome = err // what the trial was no longer matters: it could not be kept
		return err
	}
	t.recorded = true
	t.count()
	t.tell(done)
	return nil
}

// judge says in the record, and tells, what became of the trial.
func (t *trial) judge() {
	bad, isInvalid := errors.AsType[*invalid](t.outcome)
	switch {
	case isInvalid:
		t.warn(bad.Warning)
	case t.outcome != nil:
		t.record.Error = t.outcome.Error()
		if h := hint(t.outcome); h != "" {
			t.warn(result.Warning{Code: "failed", Message: "the trial failed", Hint: h, Invalidates: true})
		}
		t.emit(result.Event{Kind: result.KindError, Message: t.outcome.Error(), Hint: hint(t.outcome)})
		return
	default:
		t.record.Warnings = append(t.record.Warnings, t.checked()...)
		t.expect()
	}
	for _, w := range t.record.Warnings {
		if w.Invalidates {
			t.emit(result.Event{Kind: result.KindInvalid, Message: w.Message, Hint: w.Hint})
			return
		}
	}
	t.record.Valid = true
}

func (t *trial) count() {
	t.summary.Recorded++
	switch {
	case t.record.Error != "":
		t.summary.Failed++
	case !t.record.Valid:
		t.summary.Invalid++
	}
}

// remove stops the load and removes the deployment. It goes on when ctx has
// ended, for as long as [Timing.Remove], and gives up at the second interrupt.
func (t *trial) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), t.Timing.Remove, errors.New("it took too long"))
	defer cancel()
	defer context.AfterFunc(t.Kill, cancel)()
	if t.loading != nil {
		t.loading.stop(ctx, t.Timing.LoadGrace)
	}
	if t.deployment == nil {
		return nil
	}
	if t.faults != nil {
		// What cannot be healed is removed all the same; what hampers the removal shows in its error.
		_ = t.faults.Heal(ctx, false)
	}
	removed := make(chan error, 1)
	go func() { removed <- t.deployment.Remove(ctx) }()
	var err error
	select {
	case err = <-removed:
	case <-ctx.Done():
		// It was told, and may yet say how it went; it is not waited for without end.
		select {
		case err = <-removed:
		case <-time.After(100 * time.Millisecond):
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		return nil
	}
	return &removalError{fmt.Errorf("remove trial %s: %w", t.of.ID, err), t.Dir.Path()}
}

// removalError ends a run: further trials would be measured beside what is left.
type removalError struct {
	error
	dir string
}

func (e *removalError) Unwrap() error { return e.error }

// Hint says how to go on.
func (e *removalError) Hint() string {
	return "what is left would weigh on the trials to come; end it, then go on with: tare run --resume " + e.dir
}
