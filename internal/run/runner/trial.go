package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// setup is fixed before a trial begins.
type setup struct {
	*run
	of        plan.Trial
	treatment plan.Treatment
	mesh      mesh.Definition
	topology  app.Topology
	dir       *result.TrialDir
	clock     *clock
}

// trial is one trial in progress. Its parts are made when the deployment is ready.
type trial struct {
	setup   *setup
	journal *journal

	deployment  *platform.Deployment // nil before it is ready
	load        *loadRun
	sampler     *sampler
	faults      *faultPhase
	idle        *idleWait
	measurement *measurement
	conserved   *conservation
	share       *share // of a round's schedule, nil if the trial runs alone
	beside      int    // trials that are deployed at the same time, 0 if it is alone

	idleBefore   idleUses        // of a round, before its load
	sliced       *sliceMember    // nil before the end of a round's warm-up
	stagesBefore []app.StageTime // of the measure phase of a round

	found *capacity.Found // by a search for the rate, nil without one

	outcome  error // why the trial failed or is invalid, nil so far
	recorded bool
	seen     seen
}

// step is a phase of a trial.
type step struct {
	name   string
	do     func(*trial, context.Context) error
	always bool
	only   func(*trial) bool // nil: in every trial
}

// workflow lists the phases of a trial, in order. After an error only phases
// marked always are run. The deployment is removed in every case.
var workflow = []step{
	{name: "deploy", do: (*trial).deploy},
	{name: "verify", do: (*trial).verify},
	{name: "settle", do: (*trial).settle},
	{name: "search", do: (*trial).search, only: (*trial).searches},
	{name: "warm-up", do: (*trial).warmUp},
	{name: "measure", do: (*trial).measure},
	{name: "drain", do: (*trial).drain},
	{name: "record", do: (*trial).keep, always: true},
}

// one runs one trial. An error ends the run.
func (r *run) one(parent context.Context, of plan.Trial) (err error) {
	ctx, abort := context.WithCancelCause(parent)
	defer abort(nil)
	t, err := r.newTrial(of, abort)
	if err != nil {
		return err
	}
	t.journal.emit(result.Event{Kind: result.KindTrial})
	for _, p := range workflow {
		t.step(ctx, p)
	}
	return t.end(ctx, parent)
}

// newTrial makes a trial and its directory. abort ends it, and the run.
func (r *run) newTrial(of plan.Trial, abort context.CancelCauseFunc) (t *trial, err error) {
	treatment := r.treatments[of.Treatment]
	su := &setup{run: r, of: of, treatment: treatment, mesh: r.Meshes[treatment.Levels.Mesh], topology: r.Topology, clock: newClock(r.Wall)}
	if topology, ok := r.Topologies[treatment.Levels.Topology]; ok {
		su.topology = topology
	}
	t = &trial{setup: su, journal: &journal{setup: su, abort: abort}}
	t.journal.record = result.Record{
		ID: of.ID, Ordinal: of.Ordinal, Block: of.Block, Treatment: of.Treatment,
		Factors: treatment.Factors, Control: treatment.Control, Started: su.clock.now(), Phases: []result.Phase{},
	}
	if su.dir, err = r.Dir.Trial(of); err != nil {
		return nil, err
	}
	return t, nil
}

// end removes the trial's deployment. An error ends the run.
func (t *trial) end(ctx, parent context.Context) error {
	removal := t.remove(ctx)
	abandoned := t.setup.dir.Abandon() // only closes the directory of a recorded trial
	if t.recorded {
		if removal == nil {
			return t.setup.dir.Seal() // no process writes to its log any more
		}
		return removal
	}
	if lost := t.journal.lostEvent(); lost != nil {
		return errors.Join(lost, removal)
	}
	if parent.Err() != nil {
		return cmp.Or(errors.Join(removal, abandoned), context.Cause(parent))
	}
	return errors.Join(t.outcome, removal, abandoned)
}

// step runs a phase, unless the trial has failed before it.
func (t *trial) step(ctx context.Context, p step) {
	// An interrupted trial is not recorded, and a resumed run repeats it.
	if t.outcome != nil && !p.always || ctx.Err() != nil || p.only != nil && !p.only(t) {
		return
	}
	t.journal.emit(result.Event{Kind: result.KindPhase, Phase: p.name})
	phase := result.Phase{Name: p.name, Start: t.setup.clock.now()}
	err := p.do(t, ctx)
	phase.End = t.setup.clock.now()
	t.journal.record.Phases = append(t.journal.record.Phases, phase)
	if err != nil && t.outcome == nil {
		t.outcome = err
	}
}

// keep writes the record. It is the last phase of a trial.
func (t *trial) keep(context.Context) error {
	t.judge()
	t.journal.record.Ended = t.setup.clock.now()
	if err := t.journal.lostEvent(); err != nil {
		return err
	}
	done := result.Event{Time: t.setup.clock.now(), Kind: result.KindDone, Trial: t.setup.of.ID}
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
		t.journal.record.Error = t.outcome.Error()
		if h := hint.Of(t.outcome); h != "" {
			t.journal.warn(result.Warning{Code: "failed", Message: "the trial failed", Hint: h, Invalidates: true})
		}
		t.journal.emit(result.Event{Kind: result.KindError, Message: t.outcome.Error(), Hint: hint.Of(t.outcome)})
		return
	default:
		if len(t.journal.record.Faults) > 0 {
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
	t.setup.summary.Recorded++
	switch {
	case t.journal.record.Error != "":
		t.setup.summary.Failed++
	case !t.journal.record.Valid:
		t.setup.summary.Invalid++
	}
}

// lastRemoval is the time for a removal to end after the second interrupt. Without grace it takes
// some milliseconds on this machine.
const lastRemoval = 2 * time.Second

var errStopped = errors.New("interrupted twice")

// remove stops the load and removes the deployment. It continues after the end of ctx, for
// [Timing.Remove], and stops at the second interrupt.
func (t *trial) remove(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, t.setup.Timing.Remove, errors.New("it took too long"))
	defer cancel()
	defer context.AfterFunc(t.setup.Kill, func() { stop(errStopped) })()
	if t.deployment == nil {
		return nil
	}
	if t.load.loading != nil {
		t.load.loading.stop(ctx, t.setup.Timing.LoadGrace)
	}
	if t.faults.timeline != nil {
		// Removal goes on without healing, as its own error shows any problem.
		_ = t.faults.timeline.Heal(ctx, false)
	}
	removed := make(chan error, 1)
	go func() { removed <- t.deployment.Remove(ctx) }()
	var err error
	select {
	case err = <-removed:
	case <-ctx.Done():
		select {
		case err = <-removed:
		case <-time.After(lastRemoval):
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		return nil
	}
	return hint.Wrap(fmt.Errorf("remove trial %s: %w", t.setup.of.ID, err),
		"kill the leftover processes or delete the leftover objects, which would distort later trials; then continue with: "+t.setup.Resume)
}
