package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/metric"
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

func (t *trial) deploy(ctx context.Context) error {
	limit := (t.setup.Timing.Deploy + mesh.SimulatedLimit(t.setup.treatment.Levels.BackgroundProxies)) * time.Duration(max(1, t.beside))
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not ready after %v", limit))
	defer cancel()
	provenance, err := filepath.Abs(t.setup.dir.Provenance())
	if err != nil {
		return fmt.Errorf("find provenance directory: %w", err)
	}
	if !t.setup.topology.CallsUnknown() {
		t.journal.record.Edges = t.setup.topology.Edges()
	}
	host, err := experiment.WithSecrets(t.setup.Experiment.Load.Host())
	if err != nil {
		return fmt.Errorf("load: header Host: %w", err)
	}
	t.deployment, err = t.setup.Platform.Deploy(ctx, platform.Spec{
		Trial: t.setup.of, Treatment: t.setup.treatment, Topology: t.setup.topology, Mesh: t.setup.mesh, Changing: t.setup.Experiment.Changing() || experiment.NamesReplicas(t.setup.Experiment),
		CPUs: t.setup.Experiment.Platform.CPUs, LoadHost: host, Provenance: provenance,
	})
	if err != nil {
		return err
	}
	t.makeParts()
	t.setup.Services.begin(t)
	if t.deployment.Warnings != nil {
		for _, w := range t.deployment.Warnings() {
			t.journal.warn(result.Warning{Code: w.Code, Message: w.Message, Hint: w.Hint, Metrics: latencies})
		}
	}
	return nil
}

func (t *trial) makeParts() {
	d := t.deployment
	t.sampler = &sampler{setup: t.setup, journal: t.journal, deployment: d}
	t.load = &loadRun{setup: t.setup, journal: t.journal, deployment: d, sampler: t.sampler}
	t.load.beside = &changeProbe{load: t.load}
	t.faults = &faultPhase{setup: t.setup, journal: t.journal, deployment: d}
	t.changes = &changePhase{setup: t.setup, journal: t.journal, deployment: d, load: t.load}
	t.conserved = &conservation{setup: t.setup, journal: t.journal, deployment: d}
	t.idle = &idleWait{setup: t.setup, journal: t.journal, deployment: d, sampler: t.sampler}
	t.measurement = &measurement{setup: t.setup, journal: t.journal, deployment: d, load: t.load, sampler: t.sampler, faults: t.faults, changes: t.changes}
}

// verify lets the deployment verify itself. A failed check makes the trial invalid.
func (t *trial) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.setup.Timing.Verify, fmt.Errorf("it took longer than %v", t.setup.Timing.Verify))
	defer cancel()
	probe, err := t.load.verification()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	done, err := t.deployment.Verify(ctx, probe)
	t.journal.record.Checks = append(t.journal.record.Checks, done.Checks...)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	t.journal.record.Answers = done.Answers
	for _, c := range done.Checks {
		if !c.OK {
			return unusable("verify-failed", fmt.Sprintf("%s: %s", c.Name, c.Detail), c.Hint)
		}
		if c.Caution != "" {
			t.journal.warn(result.Warning{Code: "verified-with-caution", Message: c.Caution, Hint: c.Hint})
		}
	}
	if len(done.Checks) == 0 {
		return unusable("not-verified", "the deployment made no checks", "")
	}
	return nil
}

// settle waits until the deployment is idle, so that its start is not measured.
func (t *trial) settle(ctx context.Context) error { return t.idle.settle(ctx) }

// warmUp starts the load and waits for the first edge.
func (t *trial) warmUp(ctx context.Context) error {
	if err := t.prepareLoad(ctx); err != nil {
		return err
	}
	if err := t.place(ctx); err != nil {
		return err
	}
	if err := t.load.begin(ctx); err != nil {
		return err
	}
	return t.awaitMeasure(ctx)
}

// awaitMeasure samples until the measure phase begins.
func (t *trial) awaitMeasure(ctx context.Context) error {
	t.sampler.reset(t.sampler.history)
	if err := t.sampler.list(ctx); err != nil {
		return err
	}
	return t.measurement.until(ctx, t.load.edges.begin, nil)
}

func (t *trial) prepareLoad(ctx context.Context) (err error) {
	t.faults.before = t.faults.countMesh(ctx)
	return t.conserved.begin(ctx)
}

// measure reads every task at both edges, and once a second between.
func (t *trial) measure(ctx context.Context) error {
	t.load.edges.began = t.setup.clock.drift()
	if err := t.measurement.run(ctx); err != nil {
		return err
	}
	return broken(t.deployment)
}

// drain waits until the generator has ended: it continues the load during the
// tail, and then waits for requests in flight.
func (t *trial) drain(ctx context.Context) error {
	if t.sliced != nil {
		t.load.endTail(ctx)
	}
	l, err := t.load.result(ctx)
	if err != nil {
		return err
	}
	l.Capacity = t.found
	t.journal.record.Load = &l
	t.load.mergeMeasured()
	t.seen.stepped = t.setup.clock.drift()
	t.faults.keepMesh(ctx)
	if err := errors.Join(t.changes.observe(ctx), t.changes.received(ctx)); err != nil {
		return err
	}
	if err := t.idle.drained(ctx); err != nil {
		return err
	}
	if err := t.conserved.end(ctx); err != nil {
		return err
	}
	if err := t.keepSlices(); err != nil {
		return err
	}
	return broken(t.deployment)
}

func (t *trial) startsPods() bool { return t.setup.Experiment.Starts > 0 }

func (t *trial) starts(ctx context.Context) error {
	for range t.setup.Experiment.Starts {
		did, err := t.deployment.StopAndStart(ctx)
		if err != nil {
			return err
		}
		for _, pod := range did {
			t.journal.record.Starts = append(t.journal.record.Starts, result.Start{GoneMS: inMilliseconds(pod.Gone), Lost: pod.Lost, FirstMS: inMilliseconds(pod.First), LeastMS: inMilliseconds(pod.Least)})
		}
	}
	return broken(t.deployment)
}

func inMilliseconds(times map[string]time.Duration) map[string]float64 {
	all := map[string]float64{}
	for part, d := range times {
		all[part] = float64(d) / float64(time.Millisecond)
	}
	return all
}

// executing is the workflow of programs that end: nothing is deployed, and there is no load.
var executing = []phase{
	{name: "measure", joint: (*round).execute},
	{name: "record", do: (*trial).write, always: true},
}

// leastLimit is the shortest time after which an execution is killed.
const leastLimit = time.Minute

// Executions are the executions of programs that end, and of the empty program among them, for about the measure phase of each. The
// order is drawn from a seed.
func Executions(x *experiment.Experiment, seed uint64, programs ...app.Topology) execution.Series {
	n := len(programs)
	measure := time.Duration(x.Phases.Measure)
	s := execution.Series{Prepare: x.Batch.Prepare, Input: x.Batch.Input, Time: time.Duration(n) * measure, Limit: max(leastLimit, 10*measure)}
	for _, t := range programs {
		own := t.Services[0].Own
		command, env := own.Expand(app.Addresses{})
		p := execution.Program{Command: command, Env: env[1:], Dir: own.Dir} // the first variable is a port
		for _, b := range own.Beside {
			command, env := b.Expand(app.Addresses{})
			p.Beside = append(p.Beside, execution.Program{Command: command, Env: env[1:], Dir: own.Dir})
		}
		s.Programs = append(s.Programs, p)
	}
	s.Rows = slices.Collect(slices.Chunk(plan.Owners(seed, n+1, 0, execution.MaxRows), n+1))
	return s
}

func (rd *round) execute(ctx context.Context) error {
	members, x := rd.alive(), rd.run.Experiment
	var programs []app.Topology
	first := false
	for _, t := range members {
		programs = append(programs, t.setup.topology)
		first = first || !rd.run.executed[t.setup.of.Treatment]
		rd.run.executed[t.setup.of.Treatment] = true
	}
	s := Executions(x, members[0].setup.of.Seed, programs...)
	if first {
		s.Warmup = x.Batch.Warmup
	}
	all, err := s.By(ctx, generator.AgentPath(), x.Platform.CPUs[string(metric.App)])
	for i, t := range members {
		if err == nil {
			t.journal.record.Executions, t.journal.record.Empty = all[i], all[len(members)]
		}
	}
	return err
}

// executed warns of failed executions: they took another time than the others.
func executed(r *result.Record, limits experiment.Validity) []result.Warning {
	failed := r.FailedExecutions()
	if float64(len(failed)) <= limits.ErrorRatio*float64(len(r.Executions)) {
		return nil
	}
	return []result.Warning{{Code: "errors", Message: r.ExecutionFailures(), Hint: "run the program by hand, with the same input and directory", Invalidates: true}}
}
