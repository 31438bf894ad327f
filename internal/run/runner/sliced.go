package runner

import (
	"context"
	"fmt"
	"runtime"
	"time"

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
	meter   meter.Meter
	start   time.Time // of the schedule
	table   load.Slices
	first   int // slice of the measure phase
	members []*sliceMember
	late    []time.Duration // of the readings, after the instants at which they were due
}

// sliceMember is one trial of the round.
type sliceMember struct {
	trial *trial
	tasks []platform.Task
	begin meter.Look    // the reading at the first edge
	last  meter.Look    // the latest reading
	at    time.Duration // of it, from the start of the schedule
	uses  map[sliceKind]*use
	rows  []result.Slice
	shown shown
}

// sliceKind is what a slice is for a member.
type sliceKind int

const (
	ownSlice   sliceKind = iota // it has the load
	afterSlice                  // of another, directly after an own one: late answers and deferred work
	idleSlice                   // of another, after one of another
	leadSlice                   // the first one, after an own one of the warm-up: in no sum
)

// use is the CPU of a member's tasks in all slices of a kind.
type use struct {
	time time.Duration
	cpu  map[string]int64 // by task, ns
}

// loaded is the CPU of a task because of the load, and idle the rest, both in ns: what it uses after
// its slices beyond its idle rate belongs to the load.
func (m *sliceMember) loaded(task string) (loaded, idle int64) {
	own, after, rest := m.uses[ownSlice], m.uses[afterSlice], m.uses[idleSlice]
	if rest.time <= 0 {
		return own.cpu[task], after.cpu[task]
	}
	idleAfter := int64(float64(rest.cpu[task]) * float64(after.time) / float64(rest.time))
	return max(0, own.cpu[task]+after.cpu[task]-idleAfter), rest.cpu[task] + idleAfter
}

// shown is the use of own slices since the last sample that was emitted.
type shown struct {
	at  time.Duration // of that sample
	ns  time.Duration // own slices since then
	cpu map[metric.Plane]int64
}

func newSliceReader(m meter.Meter, s *share, members []*trial) *sliceReader {
	r := &sliceReader{meter: m, start: s.start, table: s.table, first: int(s.warmup / s.table.Length)}
	for _, t := range members {
		r.members = append(r.members, newSliceMember(t))
	}
	return r
}

func newSliceMember(t *trial) *sliceMember {
	m := &sliceMember{trial: t, uses: map[sliceKind]*use{}, shown: shown{cpu: map[metric.Plane]int64{}}}
	for kind := ownSlice; kind <= leadSlice; kind++ {
		m.uses[kind] = &use{cpu: map[string]int64{}}
	}
	return m
}

// of returns the member of a trial.
func (r *sliceReader) of(t *trial) *sliceMember {
	for _, m := range r.members {
		if m.trial == t {
			return m
		}
	}
	return nil
}

// lastRead is the time after the last slice for its late answers. It is a part of the tail.
const lastRead = 200 * time.Millisecond

// nap bounds a sleep, so that the end of the context is noticed.
const nap = 50 * time.Millisecond

// due are the instants of the readings: all edges of the measure phase, and once more after the last slice.
func (r *sliceReader) due() (all []time.Time) {
	for edge := r.first; edge <= len(r.table.Owners)+1; edge++ {
		all = append(all, r.start.Add(min(r.table.Edge(edge), r.table.End()+lastRead)))
	}
	return all
}

// run makes all readings.
func (r *sliceReader) run(ctx context.Context) error {
	if f, ok := r.meter.(meter.Follower); ok {
		return r.follow(ctx, f)
	}
	// Never unlocked: the thread, with its timer slack, ends with the goroutine.
	runtime.LockOSThread()
	_ = host.PrepareThread(-1) // pins nothing, so it cannot fail
	host.Prioritise()
	for n, due := range r.due() {
		for wait := time.Until(due); wait > 0; wait = time.Until(due) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			host.Sleep(min(wait, nap))
		}
		r.late = append(r.late, time.Since(due))
		at := time.Since(r.start)
		for i, m := range r.members {
			now, err := r.meter.Read(ctx, m.tasks, meter.Clocks)
			if err != nil {
				return fmt.Errorf("read the meters: %w", err)
			}
			m.add(now, r.first+n-1, at, r.kind(r.first+n-1, i))
		}
	}
	return nil
}

// follow plans the readings, and takes them over as they are made.
func (r *sliceReader) follow(ctx context.Context, f meter.Follower) error {
	groups := make([][]platform.Task, len(r.members))
	for i, m := range r.members {
		groups[i] = m.tasks
	}
	due := r.due()
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
			r.late = append(r.late, one.At.Sub(due[n]))
			for i, m := range r.members {
				m.add(one.Looks[i], r.first+n-1, one.At.Sub(r.start), r.kind(r.first+n-1, i))
			}
			n++
		}
		if done && n < len(due) {
			return fmt.Errorf("%d of %d edges of slices were read", n, len(due))
		}
	}
	return nil
}

// kind is what a slice is for a member.
func (r *sliceReader) kind(slice, member int) sliceKind {
	switch owners := r.table.Owners; {
	case slice >= 0 && slice < len(owners) && owners[slice] == member:
		return ownSlice
	case slice > 0 && owners[slice-1] == member && slice == r.first:
		return leadSlice
	case slice > 0 && owners[slice-1] == member:
		return afterSlice
	}
	return idleSlice
}

// add adds the use of the member's tasks in a slice, from the reading at its end.
func (m *sliceMember) add(now meter.Look, slice int, at time.Duration, kind sliceKind) {
	if m.begin.Tasks == nil {
		m.begin, m.last, m.at = now, now, at
		return
	}
	row := result.Slice{SliceCount: load.SliceCount{Slice: slice}, Own: kind == ownSlice, Begin: m.at, End: at, CPU: map[metric.Plane]int64{}}
	of := m.uses[kind]
	of.time += at - m.at
	for _, task := range m.tasks {
		was, ok := m.last.Tasks[task.ID]
		is, ok2 := now.Tasks[task.ID]
		if !ok || !ok2 {
			continue // its end is noticed by others
		}
		used := is.CPU - was.CPU
		row.CPU[task.Plane] += used
		of.cpu[task.ID] += used
	}
	m.rows = append(m.rows, row) // the last one is after the measure phase
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
	if m.shown.ns == 0 || row.End-m.shown.at < samplePeriod {
		return
	}
	sample := &result.Sample{Tasks: map[string]result.Reading{}, Cores: map[string]float64{}}
	for id, r := range m.last.Tasks {
		r.At = m.trial.setup.clock.steady(r.At)
		sample.Tasks[id] = r
	}
	for plane, used := range m.shown.cpu {
		sample.Cores[string(plane)] = float64(used) / float64(m.shown.ns)
	}
	m.shown = shown{at: row.End, cpu: map[metric.Plane]int64{}}
	m.trial.journal.emit(result.Event{Kind: result.KindSample, Sample: sample})
}

// beginSlices lists the tasks for r, and reads what is only needed once, shortly before the measure
// phase.
func (t *trial) beginSlices(ctx context.Context, r *sliceReader) error {
	t.sampler.reset(t.sampler.history)
	if err := t.sampler.list(ctx); err != nil {
		return err
	}
	t.sliced = r.of(t)
	t.stagesBefore = t.measurement.times.read(ctx)
	if err := t.sampler.look(ctx, meter.Edge); err != nil {
		return err
	}
	t.sliced.tasks = t.sampler.tasks // with those that only the meter lists
	return nil
}

// endSlices records the usage of every task: the CPU of own slices, and memory and context switches of
// the whole phase.
func (t *trial) endSlices(ctx context.Context, r *sliceReader) error {
	m := t.sliced
	before := t.sampler.last
	if err := t.sampler.list(ctx); err != nil {
		return err
	}
	if err := t.sampler.look(ctx, meter.Full); err != nil {
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
		reading, alive := t.sampler.last.Tasks[id]
		if !alive {
			continue
		}
		loaded, _ := m.loaded(id)
		reading.At, reading.CPU = t.setup.clock.steady(at.At), begin.Tasks[id].CPU+loaded
		end.Tasks[id] = reading
	}
	t.measurement.usage.use(m.tasks, begin, t.sampler.tasks, end)
	for i := range t.journal.record.Tasks {
		task := &t.journal.record.Tasks[i]
		if _, read := begin.Tasks[task.ID]; read && task.Missing == "" {
			_, idle := m.loaded(task.ID)
			task.IdleCPU = &idle
		}
	}
	t.measurement.times.keep(t.stagesBefore, t.measurement.times.read(ctx))
	t.measurement.visits()
	t.seen.readingsLate = r.late
	return nil
}

// keepSlices writes the slices of a trial of a round.
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
	return t.setup.dir.Slices(t.sliced.rows)
}
