package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// sliceReader reads the CPU clocks of all tasks of a round at the edges of slices. It is one thread
// of tare, so that its own use is in plane harness. A [meter.Follower] reads them by itself.
type sliceReader struct {
	meter    meter.Meter
	start    time.Time // of the schedule
	table    load.Slices
	first    int           // slice of the measure phase
	window   time.Duration // in which the idle rate is measured
	deferral time.Duration // [Timing.Deferral]
	members  []*sliceMember
	late     []time.Duration // of the readings, after the instants at which they were due
	outside  *outside
}

// sliceMember is one trial of the round.
type sliceMember struct {
	trial   *trial
	tasks   []platform.Task
	before  meter.Look    // shortly before the measure phase, with the readings of that moment alone
	begin   meter.Look    // the reading at the first edge
	last    meter.Look    // the latest reading
	at      time.Duration // of it, from the start of the schedule
	rows    []result.Slice
	used    []map[string]int64 // CPU by task in each of the rows, ns
	tail    tail
	window  time.Duration // without requests, after the load
	quiet   result.Quiet
	shown   shown
	outside int64 // CPU outside the run in its slices, ns
	// outsideUnread: the CPU outside the run is not known in one of its slices.
	outsideUnread bool
	paced         bool                      // the readings were estimated after the last slice
	memory        map[string]result.Reading // the latest readings with resident memory, by task ID
	// switching is the time between the readings of each task's context switches, which precede and follow all slices.
	switching map[string]time.Duration
}

// shown is the use of own slices since the last sample that was emitted.
type shown struct {
	at  time.Duration // of that sample
	ns  time.Duration // own slices since then
	cpu map[metric.Plane]int64
}

func newSliceReader(m meter.Meter, s *roundSchedule, members []*trial) *sliceReader {
	r := &sliceReader{meter: m, outside: newOutside(m), start: s.start, table: s.table, first: int(s.warmup / s.table.Length), window: idleWindow(s.measure), deferral: s.deferral}
	for _, t := range members {
		t.sliced.window = r.window
		r.members = append(r.members, t.sliced)
	}
	return r
}

func (r *sliceReader) run(ctx context.Context) error {
	if f := r.meter.Follower(); f != nil {
		return r.follow(ctx, f)
	}
	if r.members[0].trial.sampler.refreshed() {
		return r.pace(ctx)
	}
	host.LockPunctual()
	edges := r.due()
	memory := time.Now()
	for n, due := range append(edges, r.afterwards(max(r.deferral, maxPeriod))...) {
		if err := host.SleepUntil(ctx, due); err != nil {
			return err
		}
		if n < len(edges) {
			r.late = append(r.late, time.Since(due))
		}
		at := time.Since(r.start)
		idle, long, depth := true, false, meter.Clocks
		if n >= len(edges) {
			depth = meter.Edge // the idle rate is of context switches too
		}
		for i, m := range r.members {
			now, err := r.meter.Read(ctx, m.tasks, depth)
			if err != nil {
				return fmt.Errorf("read the meters: %w", err)
			}
			idle = r.addReading(i, now, n, at) && idle
			long = long || m.tail.long
		}
		if n < len(edges) {
			r.readOutside(r.first + n - 1)
		}
		if n >= len(edges) {
			if idle || !long && due.After(r.start.Add(r.table.End()+lastRead+r.deferral+r.window)) {
				return nil
			}
			continue
		}
		if time.Since(memory) < samplePeriod {
			continue
		}
		memory = memory.Add(samplePeriod)
		for _, m := range r.members {
			if err := m.readMemory(ctx, r.meter); err != nil {
				return err
			}
		}
	}
	return nil
}

// readMemory reads resident memory, right after an edge, so that the next one is not late.
func (m *sliceMember) readMemory(ctx context.Context, from meter.Meter) error {
	now, err := from.Read(ctx, m.tasks, meter.Counters)
	if err != nil {
		return fmt.Errorf("read resident memory: %w", err)
	}
	for id, r := range now.Tasks {
		r.At = m.trial.setup.clock.steady(r.At)
		now.Tasks[id] = r
	}
	m.memory = now.Tasks
	m.trial.journal.memory.add(now.Tasks)
	return nil
}

// readOutside adds the CPU outside the run in a slice to the owner of the slice.
func (r *sliceReader) readOutside(slice int) {
	var looks []meter.Look
	var tasks [][]platform.Task
	for _, m := range r.members {
		looks, tasks = append(looks, m.last), append(tasks, m.tasks)
	}
	ns, ok := r.outside.since(looks, tasks)
	if owner := r.owner(slice); owner >= 0 && slice >= r.first {
		m := r.members[owner]
		m.outside, m.outsideUnread = m.outside+ns, m.outsideUnread || !ok
	}
}

// follow plans the readings, and takes them over as they are made.
func (r *sliceReader) follow(ctx context.Context, f meter.Follower) error {
	groups := lists.Map(r.members, func(m *sliceMember) []platform.Task { return m.tasks })
	edges := r.due()
	due := append(edges, r.afterwards(r.deferral)...)
	following, err := f.Follow(ctx, groups, due)
	if err != nil {
		return fmt.Errorf("plan the readings at the edges of slices: %w", err)
	}
	for n, done := 0, false; !done; {
		var read []meter.Instant
		if read, done, err = following.Next(ctx); err != nil {
			return fmt.Errorf("readings at the edges of slices: %w", err)
		}
		for _, one := range read {
			if n < len(edges) {
				r.late = append(r.late, one.At.Sub(due[n]))
			}
			for i := range r.members {
				r.addReading(i, one.Looks[i], n, one.At.Sub(r.start))
			}
			n++
		}
		if done && n < len(due) {
			return fmt.Errorf("%d of %d readings at the edges of slices and after them were made", n, len(due))
		}
	}
	return nil
}

// due are the instants of the readings: all edges of the measure phase.
func (r *sliceReader) due() (all []time.Time) {
	for edge := r.first; edge <= len(r.table.Owners); edge++ {
		all = append(all, r.start.Add(r.table.Edge(edge)))
	}
	return all
}

// afterwards are the instants of the readings after the last slice, until deferred work must have ended.
func (r *sliceReader) afterwards(deferral time.Duration) (all []time.Time) {
	for at := lastRead; at <= deferral+lastRead+r.window; at += r.window / result.QuietParts {
		all = append(all, r.start.Add(r.table.End()+at))
	}
	return all
}

// addReading adds the n-th reading to a member, and reports whether the member is idle after the last slice.
func (r *sliceReader) addReading(i int, now meter.Look, n int, at time.Duration) (idle bool) {
	slice := r.first + n - 1
	if slice >= len(r.table.Owners) {
		return r.members[i].addTail(now, at, r.window)
	}
	r.members[i].add(now, slice, at, r.owner(slice) == i)
	return false
}

// owner is the member that has a slice, -1 if none has.
func (r *sliceReader) owner(slice int) int {
	if slice < 0 || slice >= len(r.table.Owners) {
		return -1
	}
	return r.table.Owners[slice]
}

// add adds the use of the member's tasks in a slice, from the reading at its end.
func (m *sliceMember) add(now meter.Look, slice int, at time.Duration, own bool) {
	if m.begin.Tasks == nil {
		m.begin, m.last, m.at = now, now, at
		return
	}
	row := result.Slice{SliceCount: load.SliceCount{Slice: slice}, Own: own, Begin: m.at, End: at, CPU: map[metric.Plane]int64{}}
	by := map[string]int64{}
	for _, task := range m.tasks {
		was, ok := m.last.Tasks[task.ID]
		is, ok2 := now.Tasks[task.ID]
		if !ok || !ok2 {
			continue // its end is noticed by others
		}
		by[task.ID] = is.CPU - was.CPU
		row.CPU[task.Plane] += by[task.ID]
	}
	m.rows, m.used = append(m.rows, row), append(m.used, by)
	m.last, m.at = now, at
	m.sample(row)
}

// sample emits the CPU of the planes in own slices about once a second.
func (m *sliceMember) sample(row result.Slice) {
	if row.Own {
		m.shown.ns += row.End - row.Begin
		for plane, used := range row.CPU {
			m.shown.cpu[plane] += used
		}
	}
	if m.paced || m.shown.ns == 0 || row.End-m.shown.at < samplePeriod {
		return
	}
	sample := &result.Sample{Tasks: map[string]result.Reading{}, Cores: map[string]float64{}}
	for id, r := range m.last.Tasks {
		r.At, r.RSS = m.trial.setup.clock.steady(r.At), m.memory[id].RSS
		sample.Tasks[id] = r
	}
	for plane, used := range m.shown.cpu {
		sample.Cores[string(plane)] = float64(used) / float64(m.shown.ns)
	}
	sample.Memory = memoryByPlane(m.tasks, sample.Tasks)
	m.shown = shown{at: row.End, cpu: map[metric.Plane]int64{}}
	m.trial.journal.emit(result.Event{Kind: result.KindSample, Sample: sample})
}

// beginSlices lists the tasks, and makes the readings that are needed once, shortly before the measure
// phase.
func (t *trial) beginSlices(ctx context.Context) error {
	t.sampler.reset(t.sampler.history)
	if err := t.sampler.list(ctx); err != nil {
		return err
	}
	if err := t.sampler.connected(ctx); err != nil {
		return err
	}
	if err := t.sampler.look(ctx, meter.Edge); err != nil {
		return err
	}
	t.sliced.tasks = t.sampler.tasks // with tasks of the meter alone
	t.sliced.before = t.sampler.last
	return nil
}

// endSlices records the usage of every task over the whole phase. Its CPU is divided when the load has ended.
func (t *trial) endSlices(ctx context.Context, r *sliceReader) error {
	m := t.sliced
	before := m.before
	if err := t.sampler.list(ctx); err != nil {
		return err
	}
	if err := t.sampler.look(ctx, meter.Full); err != nil {
		return err
	}
	if err := t.sampler.connected(ctx); err != nil {
		return err
	}
	begin, end := before, t.sampler.last
	begin.Tasks, end.Tasks = map[string]result.Reading{}, map[string]result.Reading{}
	for id, at := range m.begin.Tasks {
		reading := before.Tasks[id]
		reading.At, reading.CPU = t.setup.clock.steady(at.At), at.CPU
		begin.Tasks[id] = reading
	}
	for id, at := range m.last.Tasks {
		if reading, alive := t.sampler.last.Tasks[id]; alive {
			m.switching[id] = reading.At.Sub(before.Tasks[id].At)
			reading.At, reading.CPU = t.setup.clock.steady(at.At), at.CPU
			end.Tasks[id] = reading
		}
	}
	t.measurement.useEdges(m.tasks, begin, t.sampler.tasks, end)
	t.measurement.visits()
	if r.outside.busy != nil && !m.outsideUnread {
		t.journal.record.Outside = &m.outside
	}
	t.seen.readingsLate = r.late
	return nil
}

// keepSlices divides the CPU of every task, and writes the slices of a trial of a round. Only the load knows
// when its answers arrived.
func (t *trial) keepSlices() error {
	if t.sliced == nil {
		return nil
	}
	counts := map[int]load.SliceCount{}
	for _, n := range t.journal.record.Load.SliceCounts {
		counts[n.Slice] = n
	}
	for i := range t.sliced.rows {
		row := &t.sliced.rows[i]
		if n, ok := counts[row.Slice]; ok {
			row.SliceCount = n
		}
	}
	m := t.sliced
	if m.paced {
		m.quiet.After = refreshedQuiet(t.sampler.history, m.trial.setup.clock.steady(t.load.edges.end))
		m.tail.ended = m.quiet.After != nil
	}
	idle := m.idle(m.window)
	t.journal.record.Quiet = &m.quiet
	for i := range t.journal.record.Tasks {
		if task := &t.journal.record.Tasks[i]; task.Missing == "" {
			if _, read := m.begin.Tasks[task.ID]; read {
				m.divide(task, idle)
			}
		}
	}
	t.seen.work = m.workSeen(idle, t.load.inRound.warmup)
	if !m.paced {
		t.seen.bursts = m.bursts(t.seen.work.cost)
	}
	return t.setup.dir.Slices(m.rows)
}

// The measure phase begins at a random time after the start of the deployments and of their load. Otherwise periodic work,
// such as a flush every five seconds, is at the same place of all blocks: a flush more or less is then an error of the
// mean, and no variance between blocks shows it.

// maxPeriod bounds the period of bursts for which the warm-up is made longer.
const maxPeriod = 15 * time.Second

// placing is the random time before a measure phase.
type placing struct {
	planned time.Duration // warm-up of the plan
	least   time.Duration
	over    time.Duration // the time is uniform from least to least+over
	drawn   time.Duration
}

// phaseWait is the random time before readings without requests, up to a known period of bursts. Timers begin with their process, so
// readings at a fixed time after the start have the same bursts in all blocks, or none in any.
func phaseWait(seed uint64, period time.Duration) time.Duration {
	source := rand.New(rand.NewPCG(seed, 0x7068_6173))
	return time.Duration(source.Float64() * float64(period))
}

// place sets the warm-up of an interleaved round, in rows of one slice for each member, and the wait before it. Counters
// with a refresh interval have a random time of their own.
func (rd *round) place(members []*trial) (rows int, wait time.Duration) {
	planned := rd.run.plan.Slices
	row := time.Duration(len(members)) * planned.Length
	if planned.Warmup == 0 || rd.run.Meter.Follower() == nil && members[0].sampler.refreshed() {
		return planned.Warmup, 0
	}
	p := place(members[0].setup.of.Seed, time.Duration(planned.Warmup)*row, rd.run.period)
	rd.run.lengthen((p.delay() + rd.run.quietTime() + rd.run.period/2) / time.Duration(len(members)))
	for _, t := range members {
		t.journal.record.Placing = p.recorded()
	}
	rows, wait = p.split(row)
	return min(rows, load.MaxSlices/len(members)-planned.Measure), wait
}

// place sets the warm-up of a trial that runs alone, in whole seconds, and waits before it.
func (t *trial) place(ctx context.Context) error {
	planned := time.Duration(t.setup.Experiment.Phases.Warmup)
	if planned < 2*time.Second || t.sampler.refreshed() || t.setup.generator.Abilities().Foreign() {
		return nil
	}
	p := place(t.setup.of.Seed, planned, t.setup.period)
	t.setup.lengthen(p.delay())
	t.journal.record.Placing = p.recorded()
	seconds, wait := p.split(time.Second)
	t.load.warmup = time.Duration(seconds) * time.Second
	return await(ctx, time.Now().Add(wait))
}

// place draws the time before a measure phase, from half to one and a half of the planned warm-up: the mean is the plan's.
// Where bursts have a known period, the warm-up has at least one of it, and the time varies by a whole number of them.
func place(seed uint64, planned, period time.Duration) placing {
	p := placing{planned: planned, least: max(planned/2, period), over: planned}
	if period > 0 {
		p.over = max(1, planned/period) * period
	}
	source := rand.New(rand.NewPCG(seed, 0x706c_6163))
	p.drawn = p.least + time.Duration(source.Float64()*float64(p.over))
	return p
}

// split divides the time into a warm-up of whole units, at least one, and a wait without load before it.
func (p placing) split(unit time.Duration) (units int, wait time.Duration) {
	units = max(1, int(p.drawn/unit))
	return units, max(0, p.drawn-time.Duration(units)*unit)
}

func (p placing) recorded() *result.Placing {
	return &result.Placing{PlannedSeconds: p.planned.Seconds(), LeastSeconds: p.least.Seconds(), RangeSeconds: p.over.Seconds(), Seconds: p.drawn.Seconds()}
}

// learn takes over the period of a treatment's bursts for the blocks that follow, if at least two and half of its trials
// have them: a single burst may be of the machine.
func (r *run) learn(of *result.Record) {
	if of.Error != "" {
		return
	}
	r.prewarmer.learn(of)
	r.quiet[of.Treatment] = r.quiet[of.Treatment].next(of)
	seen := append(r.bursts[of.Treatment], of.BurstSeconds)
	r.bursts[of.Treatment] = seen
	with := slices.DeleteFunc(slices.Sorted(slices.Values(seen)), func(seconds float64) bool { return seconds == 0 })
	if n := len(with); n >= 2 && 2*n >= len(seen) {
		r.period = max(r.period, time.Duration(min(with[n/2], maxPeriod.Seconds())*float64(time.Second)))
	}
}

// lengthen corrects the expected time of a trial where bursts make the warm-up longer than the plan's.
func (r *run) lengthen(by time.Duration) {
	if by <= r.delay {
		return
	}
	r.TrialTime += by - r.delay
	r.delay = by
	r.send(result.Event{Kind: result.KindTimes, Run: r.opening()})
}

// delay is the mean time beyond the plan.
func (p placing) delay() time.Duration { return p.least + p.over/2 - p.planned }
