package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

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
		t.sliced = newSliceMember(t)
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
