package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

type phase struct {
	name string
	do   func(*trial, context.Context) error
	// mode is how the trials of a round run the phase.
	mode phaseMode
	// joint runs the phase of all trials of an interleaved round, in place of do. nil: do runs it.
	joint  func(*round, context.Context) error
	always bool              // also after an error
	only   func(*trial) bool // nil: in every trial
}

// phaseMode is whether the trials of a round run a phase in sequence or concurrently.
type phaseMode int

const (
	inSequence phaseMode = iota
	concurrently
	// asDeployed is concurrently on a platform that deploys trials at once, else in sequence while there is memory.
	asDeployed
)

// workflow lists the phases of a trial, in order. After an error only phases marked always are run. The deployment is
// removed in every case.
var workflow = []phase{
	{name: "deploy", do: (*trial).deploy, mode: asDeployed},
	{name: "verify", do: (*trial).verify},
	{name: "settle", do: (*trial).settle, mode: concurrently},
	{name: "search", do: (*trial).search, only: (*trial).searches},
	{name: "pre-warm", do: prewarmAlone, joint: (*round).prewarm, only: func(t *trial) bool { return warmer{t}.prewarms() }},
	{name: "warm-up", do: (*trial).warmUp, joint: (*round).warmUp},
	{name: "measure", do: (*trial).measure, joint: (*round).measure},
	{name: "drain", do: (*trial).drain, mode: concurrently},
	{name: "starts", do: (*trial).starts, only: (*trial).startsPods},
	{name: "record", do: (*trial).write, always: true},
}

// round is the trials that run at the same time: one, or those whose slices are interleaved. Each has its own
// deployment, its own load process and its own record. The load processes of an interleaved round have one schedule and
// one table of slices, and each sends the requests of its own slices.
type round struct {
	run     *run
	members []*trial     // in the order of the plan
	reader  *sliceReader // of an interleaved round
}

// runRound runs the trials of a round. An error ends the run.
func (r *run) runRound(parent context.Context, trials []plan.Trial) error {
	ctx, abort := context.WithCancelCause(parent)
	defer abort(nil)
	rd := &round{run: r}
	var failed []error
	for _, trial := range trials {
		t, err := r.newTrial(trial, abort)
		if err != nil {
			failed = append(failed, err)
			break
		}
		rd.members = append(rd.members, t)
		t.journal.emit(result.Event{Kind: result.KindTrial})
	}
	if failed == nil {
		rd.incomplete()
		rd.walk(ctx)
	}
	errs := make([]error, len(rd.members))
	rd.each(rd.members, func(i int, t *trial) { errs[i] = t.end(ctx, parent) })
	return errors.Join(append(failed, errs...)...)
}

// incomplete warns the members of a round whose other members are recorded: the run was killed between
// their records.
func (rd *round) incomplete() {
	planned := rd.planned()
	if !rd.interleaved() || planned == len(rd.members) {
		return
	}
	for _, t := range rd.members {
		t.journal.warn(result.Warning{Code: "round-incomplete", Metrics: cpus,
			Message: fmt.Sprintf("%d of the %d trials of its round were recorded before a kill, and this one ran later, without them", planned-len(rd.members), planned),
			Hint:    "differences of this block have the noise of sequential trials; more blocks compensate for it"})
	}
}

// planned is the number of trials of the round in the plan.
func (rd *round) planned() (n int) {
	return lists.Count(rd.run.plan.Trials, func(trial plan.Trial) bool { return trial.Round == rd.members[0].setup.of.Round })
}

// walk runs the phases of all members. A member that failed goes on with the phases marked always,
// and the others go on without it.
func (rd *round) walk(ctx context.Context) {
	phases := workflow
	if rd.run.Experiment.Batch != nil {
		phases = executing
	}
	for _, p := range phases {
		switch {
		case p.joint != nil && (p.do == nil || rd.interleaved()):
			if ctx.Err() != nil {
				return
			}
			rd.runJointly(ctx, p)
		case p.mode == concurrently:
			rd.each(rd.members, func(_ int, t *trial) { t.step(ctx, p) })
		case p.mode == asDeployed:
			rd.deploy(ctx, p)
		default:
			if p.always && ctx.Err() == nil {
				// The records of a round are written together, or none is.
				ctx = context.WithoutCancel(ctx)
			}
			for _, t := range rd.members {
				t.step(ctx, p)
			}
		}
	}
}

func (rd *round) interleaved() bool {
	return rd.run.plan.Slices != nil && rd.members[0].setup.of.Round > 0
}

// deploy deploys the members, at once where the platform mostly waits.
func (rd *round) deploy(ctx context.Context, p phase) {
	if rd.run.Platform.DeploysAtOnce {
		for _, t := range rd.members {
			t.beside = len(rd.members)
		}
		rd.each(rd.members, func(_ int, t *trial) { t.step(ctx, p) })
		return
	}
	for _, t := range rd.members {
		if t.outcome == nil && ctx.Err() == nil {
			t.outcome = rd.fits(ctx)
		}
		t.step(ctx, p)
	}
}

// runJointly runs a phase of all members as one. Its error is the outcome of all that have not failed by themselves.
func (rd *round) runJointly(ctx context.Context, p phase) {
	members := rd.alive()
	if p.only != nil && !slices.ContainsFunc(members, p.only) {
		return
	}
	starts := make([]time.Time, len(members))
	for i, t := range members {
		t.journal.emit(result.Event{Kind: result.KindPhase, Phase: p.name})
		starts[i] = t.setup.clock.now()
	}
	if len(members) > 0 {
		if err := p.joint(rd, ctx); err != nil {
			for _, t := range rd.alive() {
				t.outcome = err
			}
		}
	}
	for i, t := range members {
		t.journal.record.Phases = append(t.journal.record.Phases, result.Phase{Name: p.name, Start: starts[i], End: t.setup.clock.now()})
	}
}

// step runs a phase, unless the trial has failed before it.
func (t *trial) step(ctx context.Context, p phase) {
	// An interrupted trial is not recorded, and a resumed run repeats it.
	if t.outcome != nil && !p.always || ctx.Err() != nil || p.only != nil && !p.only(t) {
		return
	}
	t.journal.emit(result.Event{Kind: result.KindPhase, Phase: p.name})
	began := t.setup.clock.now()
	err := p.do(t, ctx)
	t.journal.record.Phases = append(t.journal.record.Phases, result.Phase{Name: p.name, Start: began, End: t.setup.clock.now()})
	if err != nil && t.outcome == nil {
		t.outcome = err
	}
}

func (rd *round) alive() (all []*trial) {
	return lists.Where(rd.members, func(t *trial) bool { return t.outcome == nil })
}

// each calls do for the members, all at the same time.
func (rd *round) each(members []*trial, do func(int, *trial)) {
	var all sync.WaitGroup
	for i, t := range members {
		all.Go(routine.Guarded(func() { do(i, t) }))
	}
	all.Wait()
}

// Memory that remains free when all members are deployed.
const memoryReserve = 512 << 20 // bytes

// fits checks that the machine has memory for the deployments that the round still needs, each as large
// as the largest so far.
func (rd *round) fits(ctx context.Context) error {
	if rd.run.Experiment.Platform.Kind != mesh.OnLocal {
		return nil // a scheduler refuses pods without room
	}
	available := meter.AvailableMemory()
	var largest, remaining int64
	for _, t := range rd.members {
		if t.deployment == nil {
			if t.outcome == nil {
				remaining++
			}
			continue
		}
		held, err := t.memory(ctx)
		if err != nil {
			return err
		}
		largest = max(largest, held)
	}
	if available == 0 || largest == 0 || available >= remaining*largest+memoryReserve {
		return nil
	}
	return hint.Wrap(fmt.Errorf("the machine has %d MiB of free memory, and %d more deployments of the round need about %d MiB beside a reserve of %d MiB",
		available>>20, remaining, remaining*largest>>20, int64(memoryReserve)>>20), "order: random deploys one trial at a time")
}

// memory is the resident memory of the deployment, bytes.
func (t *trial) memory(ctx context.Context) (held int64, err error) {
	tasks, err := t.deployment.Tasks(ctx)
	if err != nil {
		return 0, err
	}
	tasks = slices.DeleteFunc(tasks, func(task platform.Task) bool { return task.Plane == metric.Harness })
	look, err := t.setup.Meter.Read(ctx, tasks, meter.Counters)
	for _, r := range look.Tasks {
		held += r.RSS
	}
	return held, err
}

// roundSchedule is the schedule of the loads of an interleaved round, for one member.
type roundSchedule struct {
	start           time.Time // of the schedule, zero while it is not agreed and the loads are held
	warmup, measure time.Duration
	table           load.Slices // of nobody: Own is not set
	own             int         // the member
	members         int
	deferral        time.Duration // [Timing.Deferral]
}

// apply makes p the load of one member.
func (s *roundSchedule) apply(p *load.Profile) {
	table := s.table
	table.Own = s.own
	alone := p.Warmup
	p.Start, p.Warmup, p.Measure, p.Slices = s.start, s.warmup, s.measure, &table
	interleave(p, alone, s.members)
	last := s.deferral + idleWindow(s.measure) + readingReserve // its process must live until the last reading
	if p.Hold {
		last += max(0, maxPeriod-s.deferral)
		// It is ended after that reading, whenever it comes. Late answers keep their time.
		p.Drain += p.Tail
	}
	p.Tail = max(p.Tail, last)
}

// readingReserve is how late the last reading may be: a busy machine reads counters late.
const readingReserve = time.Second

// warmUp starts the load of all members and waits until shortly before the measure phase.
func (rd *round) warmUp(ctx context.Context) error {
	members, p := rd.alive(), rd.run.plan.Slices
	if err := rd.slicesFitRefresh(members); err != nil {
		return err
	}
	n := time.Duration(len(members))
	rows, wait := rd.place(members)
	common := roundSchedule{
		warmup: time.Duration(rows) * n * p.Length, measure: time.Duration(p.Measure) * n * p.Length,
		members: len(members), deferral: rd.run.Timing.Deferral,
		table: load.Slices{Length: p.Length, Guard: p.Guard, Owners: plan.Owners(members[0].setup.of.Seed, len(members), rows, p.Measure)},
	}
	for _, t := range members {
		t.sliced = &sliceMember{trial: t, shown: shown{cpu: map[metric.Plane]int64{}}, switching: map[string]time.Duration{}}
	}
	if quiet := rd.run.quietTime(); quiet > 0 {
		for _, t := range members {
			t.journal.warn(result.Warning{Code: "quiet-longer", Message: fmt.Sprintf("its load began %v later, since CPU in the slices of others was idle or deferred work", quiet),
				Hint: "order: random measures each treatment alone"})
		}
	}
	if err := await(ctx, time.Now().Add(phaseWait(members[0].setup.of.Seed, rd.run.period))); err != nil {
		return err
	}
	lead, held, window := rd.prepareLoads(ctx, members), rd.held(), idleWindow(common.measure)+wait+max(rd.run.quietTime(), min(rd.run.period, longestQuiet))
	if !held {
		if err := rd.readQuiet(ctx, window); err != nil {
			return err
		}
		common.start = time.Now().Add(lead)
	}
	for i, t := range members {
		own := common
		own.own = i
		t.load.inRound = &own
	}
	rd.launch(ctx, held)
	if held { // with its connections open
		if err := rd.readQuiet(ctx, window); err != nil {
			return err
		}
	}
	ready := len(rd.alive())
	if at := startAfter(time.Now(), common.warmup, ready); rd.held() && at.After(common.start) {
		common.start = at
	}
	// Side by side: none waits for the files of another before it gets its start.
	rd.each(rd.alive(), func(_ int, t *trial) { t.outcome = t.load.release(common.start) })
	rd.reader = newSliceReader(rd.run.Meter, &common, members)
	if err := rd.watch(ctx, common.start.Add(common.warmup-max(rd.listLead(), readAhead(common.warmup, ready)))); err != nil {
		return err
	}
	for _, t := range rd.alive() {
		t.outcome = t.beginSlices(ctx)
	}
	return nil
}

// held reports whether all loads begin when their generators are ready.
func (rd *round) held() bool {
	return !slices.ContainsFunc(rd.alive(), func(t *trial) bool { return !t.load.holds() })
}

// launch starts the generators. Held generators get ready side by side.
func (rd *round) launch(ctx context.Context, held bool) {
	launch := func(_ int, t *trial) { t.outcome = t.load.launch(ctx) }
	if held {
		rd.each(rd.alive(), launch)
		return
	}
	for i, t := range rd.alive() {
		launch(i, t)
	}
}

// prepareLoads prepares the loads of members, and returns the time until the start of their schedule. The processes
// start one after another and open their connections before it.
func (rd *round) prepareLoads(ctx context.Context, members []*trial) (lead time.Duration) {
	lead = time.Duration(len(members)) * rd.run.Timing.Lead
	for _, t := range members {
		t.outcome = t.prepareLoad(ctx)
		lead += time.Duration(t.setup.treatment.Levels.Connections) * time.Millisecond
	}
	return lead
}

// remoteListLead is the time from the listing of a trial's tasks to the measure phase for tasks on other machines.
const remoteListLead = 3 * time.Second

// listLead is the time that the last readings before the measure phase take.
func (rd *round) listLead() time.Duration {
	if rd.run.Meter.Follower() != nil || slices.ContainsFunc(rd.alive(), func(t *trial) bool { return t.sampler.refreshed() }) {
		return time.Duration(len(rd.alive())) * remoteListLead
	}
	return listLead
}

// measure reads the clocks of all members' tasks at the edges of slices.
func (rd *round) measure(ctx context.Context) error {
	for _, t := range rd.alive() {
		t.load.edges.began = t.setup.clock.drift()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	read := make(chan error, 1)
	go routine.Guarded(func() { read <- rd.reader.run(ctx) })()
	end := rd.alive()[0].load.edges.end
	if err := rd.watch(ctx, end); err != nil {
		stop()
		<-read
		return err
	}
	if len(rd.alive()) == 0 {
		stop()
	}
	if err := <-read; err != nil {
		return err
	}
	for _, t := range rd.alive() {
		t.outcome = t.endSlices(ctx, rd.reader)
	}
	return nil
}

// watch waits until a moment, and fails the members whose tasks or loads end before it.
func (rd *round) watch(ctx context.Context, until time.Time) error {
	for {
		wait := min(watchPeriod, time.Until(until))
		if wait <= 0 || len(rd.alive()) == 0 {
			return nil
		}
		if err := await(ctx, time.Now().Add(wait)); err != nil {
			return err
		}
		rd.check()
	}
}

// check fails the members whose tasks or loads have ended.
func (rd *round) check() {
	for _, t := range rd.alive() {
		if err := broken(t.deployment); err != nil {
			t.outcome = err
		} else if err := t.load.loading.early(t.load.edges.end); err != nil {
			t.outcome = err
		}
	}
}
