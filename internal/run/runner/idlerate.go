package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// The cost of an interleaved trial is the CPU of its whole block without the idle CPU of the slices of others. The
// idle rate is measured while no request is anywhere: before the warm-up, and after the last answers of the block.
// Slices of others would show work that the trial deferred as idle.
const (
	// lastRead is the time after the last slice for its late answers.
	lastRead = 100 * time.Millisecond
	// idleTolerance is the largest error of the cost, as a share of it, that a difference between two idle rates
	// may cause while they pass for the same.
	idleTolerance = 0.005
	// lateReading is how much later one of two readings may be.
	lateReading = 5 * time.Millisecond
)

// idleWindow is the time before and after a block in which the idle rate is measured.
func idleWindow(measure time.Duration) time.Duration {
	return min(max(measure/24, 150*time.Millisecond), 3*time.Second)
}

// idleUse is the use of a task while no request is anywhere.
type idleUse struct {
	cpu, voluntary, involuntary int64         // ns, context switches
	time, switching             time.Duration // in which CPU was counted, and context switches, 0 if they were not
}

// idleUses are the uses by task.
type idleUses map[string]idleUse

// readIdle measures the idle rate of all members before their load.
func (rd *round) readIdle(ctx context.Context, window time.Duration) error {
	members := rd.alive()
	first := make([]meter.Look, len(members))
	for i, t := range members {
		if rd.run.Meter.Follower() == nil && t.sampler.refreshed() {
			t.sliced.idleBefore = refreshedUses(t.sampler.history, time.Time{})
			continue
		}
		if err := t.sampler.list(ctx); err != nil {
			return err
		}
		var err error
		if first[i], err = rd.run.Meter.Read(ctx, t.sampler.tasks, meter.Edge); err != nil {
			return fmt.Errorf("read the meters: %w", err)
		}
	}
	if err := await(ctx, time.Now().Add(window)); err != nil {
		return err
	}
	for i, t := range members {
		if t.sliced.idleBefore != nil {
			continue
		}
		last, err := rd.run.Meter.Read(ctx, t.sampler.tasks, meter.Edge)
		if err != nil {
			return fmt.Errorf("read the meters: %w", err)
		}
		t.sliced.idleBefore = usesBetween(first[i], last)
	}
	return nil
}

// refreshedUses are the uses between the last two refreshes of each task after an instant.
func refreshedUses(h history, after time.Time) idleUses {
	all := idleUses{}
	for id, readings := range h.tasks {
		n := len(readings)
		if n < 2 || readings[n-2].At.Before(after) {
			continue
		}
		a, b := readings[n-2], readings[n-1]
		all[id] = idleUse{cpu: b.CPU - a.CPU, time: b.At.Sub(a.At)}
	}
	return all
}

// tail is the use of a member after its last slice.
type tail struct {
	looks []meter.Look // the first one lastRead after the last slice
	at    []time.Duration
	after idleUses // of the last window, nil before it is read
	idle  bool     // after is the idle rate before the load, or less
}

// addTail adds a reading after the last slice, and reports whether the member is idle. The readings go on while it uses
// more than usual in the slices of others: requests before the load may have deferred work to the time of idleBefore.
func (m *sliceMember) addTail(now meter.Look, at, window time.Duration) bool {
	t := &m.tail
	window = m.quiet(window)
	t.looks, t.at = append(t.looks, now), append(t.at, at)
	for i := len(t.at) - 2; i >= 0; i-- {
		if at-t.at[i] >= window-lateReading {
			t.after = usesBetween(t.looks[i], now)
			after := t.after.cores(m.tasks) - m.tolerance()
			t.idle = after <= m.idleBefore.cores(m.tasks)
			return t.idle && after <= m.medianOfOthers()
		}
	}
	return false
}

// quiet is how long the member must be idle after a block. Deferred work repeats the pauses between own slices, so
// where there is any, a shorter time without work does not show its end.
func (m *sliceMember) quiet(window time.Duration) time.Duration {
	_, others := m.comparedUse()
	_, outside := m.durations()
	if float64(others)/float64(max(1, outside)) <= m.idleBefore.cores(m.tasks)+m.tolerance() {
		return window
	}
	return window + m.longestPause()
}

// chosenIdle is the idle use outside the load. Where work comes in bursts, one of them may have been read as idle: no more
// is idle than the usual use in the slices of others, which no burst changes.
func (m *sliceMember) chosenIdle() idleUses {
	idle := m.agreedIdle()
	rate, usual := idle.cores(m.tasks), m.medianOfOthers()
	if rate <= usual+m.tolerance() || m.bursts(0).count == 0 {
		return idle
	}
	return idle.times(usual / rate)
}

// agreedIdle is the idle use before and after the load if both agree, else the lower one. What is higher before the
// load is left of the start, and what is higher after it is deferred work.
func (m *sliceMember) agreedIdle() idleUses {
	before, after := m.idleBefore, m.tail.after
	switch {
	case len(before) == 0:
		return after
	case len(after) == 0 || !m.tail.idle:
		return before
	case after.cores(m.tasks) < before.cores(m.tasks)-m.tolerance():
		return after
	}
	return before.plus(after)
}

// tolerance is the difference between two idle rates, in cores, that changes the cost by [idleTolerance].
func (m *sliceMember) tolerance() float64 {
	own, others := m.comparedUse()
	_, outside := m.durations()
	return idleTolerance * float64(own+others) / float64(max(1, outside))
}

// plus adds the use of another time.
func (all idleUses) plus(more idleUses) idleUses {
	sum := idleUses{}
	for _, uses := range []idleUses{all, more} {
		for id, u := range uses {
			s := sum[id]
			sum[id] = idleUse{s.cpu + u.cpu, s.voluntary + u.voluntary, s.involuntary + u.involuntary, s.time + u.time, s.switching + u.switching}
		}
	}
	return sum
}

// times multiplies the CPU of all tasks.
func (all idleUses) times(by float64) idleUses {
	scaled := idleUses{}
	for id, u := range all {
		u.cpu = int64(float64(u.cpu) * by)
		scaled[id] = u
	}
	return scaled
}

// divide divides the CPU of a task in the measure phase, and puts it into its record.
func (m *sliceMember) divide(task *result.TaskUsage, idle idleUses) {
	inside, outside := m.durations()
	var own, all int64
	for i, row := range m.rows {
		all += m.used[i][task.ID]
		if row.Own {
			own += m.used[i][task.ID]
		}
	}
	rate, known := idle[task.ID]
	rest := min(rate.during(outside).cpu, all)
	switch {
	case known:
	case compared(task.Plane):
		task.End.CPU = task.Start.CPU + all
		return
	default: // a load that began after the readings before it, and ended before those after it
		rest = all - own
	}
	deferred := all - own - rest
	task.IdleCPU, task.DeferredCPU, task.End.CPU = &rest, &deferred, task.Start.CPU+all-rest
	switches := rate.during(m.switching[task.ID] - inside)
	task.End.Voluntary = max(task.Start.Voluntary, task.End.Voluntary-switches.voluntary)
	task.End.Involuntary = max(task.Start.Involuntary, task.End.Involuntary-switches.involuntary)
}

// idleSeen is what the checks of a trial need of its idle CPU.
type idleSeen struct {
	rate, before, after float64 // cores: subtracted, before the load, and after it
	others              float64 // cores: the median of the slices of others
	atOnce              bool    // idle directly after the load
	ended               bool    // deferred work ended within the tail
	lasted, warmup      time.Duration
	beyond              int64 // CPU above the idle rate after the measure phase, ns
	cost                int64 // CPU because of the load, ns
	outside             time.Duration
}

// idleSeen collects what the checks need.
func (m *sliceMember) idleSeen(idle idleUses, warmup time.Duration) *idleSeen {
	own, others := m.comparedUse()
	_, outside := m.durations()
	rate := idle.cores(m.tasks)
	s := &idleSeen{rate: rate, before: m.idleBefore.cores(m.tasks), after: m.tail.after.cores(m.tasks), ended: m.tail.idle || m.tail.after == nil, warmup: warmup, outside: outside}
	s.others = m.medianOfOthers()
	s.cost = own + others - int64(rate*float64(outside))
	if n := len(m.tail.looks); n > 0 {
		s.atOnce = m.tail.idle && m.endsAtOnce(rate, s.others)
		uses := usesBetween(m.last, m.tail.looks[n-1])
		for _, task := range m.tasks {
			if u := uses[task.ID]; compared(task.Plane) {
				s.beyond += u.cpu - idle[task.ID].during(u.time).cpu
				s.lasted = max(s.lasted, u.time)
			}
		}
	}
	return s
}

// during returns the use of a time at the idle rate.
func (u idleUse) during(d time.Duration) idleUse {
	part := func(n int64, of time.Duration) int64 { return int64(float64(n) * float64(d) / float64(max(1, of))) }
	return idleUse{part(u.cpu, u.time), part(u.voluntary, u.switching), part(u.involuntary, u.switching), d, d}
}

// durations returns the time of the measure phase in own slices, and in the slices of others.
func (m *sliceMember) durations() (inside, outside time.Duration) {
	for _, row := range m.rows {
		if row.Own {
			inside += row.End - row.Begin
		} else {
			outside += row.End - row.Begin
		}
	}
	return inside, outside
}

// comparedUse returns the CPU of the measure phase by the tasks whose cost is compared, ns, in own slices and
// in the slices of others.
func (m *sliceMember) comparedUse() (own, others int64) {
	for _, row := range m.rows {
		for plane, ns := range row.CPU {
			switch {
			case !compared(plane):
			case row.Own:
				own += ns
			default:
				others += ns
			}
		}
	}
	return own, others
}

// medianOfOthers is the median use by the tasks whose cost is compared, in cores, of the slices of others without those
// directly after own ones. Work that is deferred to few instants does not move it.
func (m *sliceMember) medianOfOthers() float64 {
	uses := m.usesOfOthers(false)
	if len(uses) == 0 {
		return 0
	}
	usual, _ := medianDeviation(uses)
	return usual
}

// usesOfOthers are the uses in the slices of others, with or without those directly after own ones.
func (m *sliceMember) usesOfOthers(after bool) (all []use) {
	for i, row := range m.rows {
		if row.Own || !after && i > 0 && m.rows[i-1].Own || row.End <= row.Begin {
			continue
		}
		u := use{at: row.Begin, time: row.End - row.Begin, apart: i > 0 && m.rows[i-1].Own}
		for plane, ns := range row.CPU {
			if compared(plane) {
				u.ns += ns
			}
		}
		all = append(all, u)
	}
	return all
}

// endsAtOnce reports whether what the member uses in the slices of others ends with the load. Deferred work goes on.
func (m *sliceMember) endsAtOnce(rate, others float64) bool {
	for i, at := range m.tail.at {
		if at-m.at >= m.longestPause() {
			after := usesBetween(m.last, m.tail.looks[i]).cores(m.tasks)
			return after-rate < (others-rate)/2
		}
	}
	return false
}

// longestPause is the longest time between two own slices.
func (m *sliceMember) longestPause() (longest time.Duration) {
	var pause time.Duration
	for _, row := range m.rows {
		if pause += row.End - row.Begin; row.Own {
			pause = 0
		}
		longest = max(longest, pause)
	}
	return longest
}

// usesBetween returns the uses between two readings.
func usesBetween(from, to meter.Look) idleUses {
	all := idleUses{}
	for id, b := range to.Tasks {
		a, ok := from.Tasks[id]
		if wall := b.At.Sub(a.At); ok && wall > 0 && b.CPU >= a.CPU {
			u := idleUse{cpu: b.CPU - a.CPU, time: wall}
			if a.Voluntary+a.Involuntary > 0 && b.Voluntary+b.Involuntary > 0 { // of a reading that has them
				u.voluntary, u.involuntary, u.switching = b.Voluntary-a.Voluntary, b.Involuntary-a.Involuntary, wall
			}
			all[id] = u
		}
	}
	return all
}

// cores is the idle rate of all tasks whose cost is compared.
func (all idleUses) cores(tasks []platform.Task) (sum float64) {
	for _, task := range tasks {
		if u := all[task.ID]; u.time > 0 && compared(task.Plane) {
			sum += float64(u.cpu) / float64(u.time)
		}
	}
	return sum
}

// compared reports whether a plane belongs to what is measured: neither the load nor tare.
func compared(p metric.Plane) bool {
	return p != metric.Load && p != metric.Harness && p != metric.Node
}

// missing bounds the share of the cost that is missing because work was deferred beyond the block. What the warm-up
// left for the measure phase replaces what that phase left for later, if the warm-up lasts as long.
func (i *idleSeen) missing() float64 {
	if i.cost <= 0 || i.lasted <= i.warmup {
		return 0
	}
	return float64(i.beyond) / float64(i.cost) * (1 - float64(i.warmup)/float64(i.lasted))
}
