package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// setup is fixed before a trial begins.
type setup struct {
	*run
	of        plan.Trial
	treatment plan.Treatment
	mesh      mesh.Definition
	topology  app.Topology
	generator generator.Generator
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
	changes     *changePhase
	idle        *idleWait
	measurement *measurement
	conserved   *conservation
	beside      int             // trials that are deployed at the same time, 0 if it is alone
	sliced      *sliceMember    // of an interleaved trial, nil before its warm-up
	found       *capacity.Found // by a search for the rate, nil without one

	outcome  error // why the trial failed or is invalid, nil so far
	recorded bool
	seen     seen
}

// newTrial makes a trial and its directory. abort ends it, and the run.
func (r *run) newTrial(of plan.Trial, abort context.CancelCauseFunc) (t *trial, err error) {
	treatment := r.treatments[of.Treatment]
	su := &setup{run: r, of: of, treatment: treatment, mesh: r.Meshes[treatment.Levels.Mesh], topology: r.Topology, clock: newClock(r.Wall)}
	if topology, ok := r.Topologies[treatment.Levels.Application]; ok {
		su.topology = topology
	}
	if su.generator, err = r.generatorOf(treatment); err != nil {
		return nil, err
	}
	t = &trial{setup: su, journal: &journal{setup: su, memory: memoryTraces{}, abort: abort}}
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
	t.setup.Services.end(t)
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
	t.load.stop(ctx)
	if t.faults.timeline != nil {
		// Removal goes on without healing, as its own error shows any problem.
		_ = t.faults.timeline.Heal(ctx, false)
	}
	removed := make(chan error, 1)
	go routine.Guarded(func() { removed <- t.deployment.Remove(ctx) })()
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
