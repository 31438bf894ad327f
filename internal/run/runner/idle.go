package runner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// idleWait waits until application and data plane are idle.
type idleWait struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	sampler    *sampler
}

const (
	// settled is the CPU of application and data plane, in cores, below which they are idle.
	settled = 0.05
	// settleLook is the time between two readings of it.
	settleLook = 100 * time.Millisecond
)

// settle waits until the deployment is idle, for no longer than the limit.
func (w *idleWait) settle(ctx context.Context) error {
	if w.sampler.refreshed() {
		return w.settleRefreshed(ctx)
	}
	runtime.GC() // tare's own garbage is collected now, not during the measurement
	limit := w.setup.Timing.Settle
	deadline := time.Now().Add(limit)
	tasks, err := w.deployment.Tasks(ctx)
	if err != nil {
		return err
	}
	before, err := w.setup.Meter.Read(ctx, tasks, meter.Counters)
	if err != nil {
		return err
	}
	for {
		if err := await(ctx, time.Now().Add(settleLook)); err != nil {
			return err
		}
		after, err := w.setup.Meter.Read(ctx, tasks, meter.Counters)
		if err != nil {
			return err
		}
		cores := coresByPlane(tasks, before, after)
		if c := cores[string(metric.App)] + cores[string(metric.Data)]; c < settled {
			w.keep(after.Tasks)
			return nil
		} else if time.Now().After(deadline) {
			w.keep(nil)
			w.journal.warn(result.Warning{Code: "not-settled",
				Message: fmt.Sprintf("application and data plane still used %.2f cores %v after they were ready, without a load", c, limit),
				Hint:    "raise phases.warmup, or see their logs in the trial's provenance directory"})
			return nil
		}
		before = after
	}
}

// settleRefreshed is [idleWait.settle] for counters with a refresh interval.
func (w *idleWait) settleRefreshed(ctx context.Context) error {
	runtime.GC() // tare's own garbage is collected now, not during the measurement
	w.sampler.reset(history{})
	idle, usage, err := w.awaitIdle(ctx)
	if idle {
		last := map[string]result.Reading{}
		for _, task := range w.sampler.tasks {
			if all := w.sampler.history.tasks[task.ID]; len(all) > 0 {
				last[task.ID] = all[len(all)-1]
			}
		}
		w.keep(last)
	}
	if err != nil || idle {
		return err
	}
	w.keep(nil)
	w.journal.warn(result.Warning{Code: "not-settled",
		Message: fmt.Sprintf("application and data plane were not idle %v after they were ready, without a load: %s", w.setup.Experiment.Phases.Idle.Deadline, usage),
		Hint:    "raise phases.idle.deadline or its thresholds, or see their logs in the trial's provenance directory"})
	return nil
}

// keep keeps the resident memory of idle tasks, nil if they were not idle. After a search they have had a load, so
// that only the first call counts.
func (w *idleWait) keep(readings map[string]result.Reading) {
	if w.journal.idle != nil {
		return
	}
	w.journal.idle = map[string]int64{}
	for id, r := range readings {
		w.journal.idle[id] = r.RSS
	}
}

// drained waits after the load until application and data plane are idle.
func (w *idleWait) drained(ctx context.Context) error {
	if !w.sampler.refreshed() {
		return nil
	}
	idle, usage, err := w.awaitIdle(ctx)
	if err != nil || idle {
		return err
	}
	w.journal.warn(result.Warning{Code: "not-drained",
		Message: fmt.Sprintf("application and data plane were not idle %v after the load: %s", w.setup.Experiment.Phases.Idle.Deadline, usage),
		Hint:    "see their logs in the trial's provenance directory", Metrics: []string{metric.CPUCores}})
	return nil
}

// awaitIdle waits until application and data plane are idle: below the limits of phases.idle between
// two refreshes, both after rest began. If they are not idle by the deadline, usage describes
// their activity.
func (w *idleWait) awaitIdle(ctx context.Context) (idle bool, usage string, err error) {
	limits := w.setup.Experiment.Phases.Idle
	deadline := time.Now().Add(time.Duration(limits.Deadline))
	began := w.setup.clock.now()
	for {
		if err := w.sampler.list(ctx); err != nil {
			return false, "", err
		}
		if err := w.sampler.look(ctx, meter.Counters); err != nil {
			return false, "", err
		}
		cores, memory, known := w.resting(began)
		if known && cores < limits.CPU && (limits.Memory == 0 || memory <= int64(limits.Memory)) {
			return true, "", nil
		}
		if time.Now().After(deadline) {
			return false, atWork(cores, memory, known), nil
		}
		if err := broken(w.deployment); err != nil {
			return false, "", err
		}
		if err := await(ctx, time.Now().Add(max(samplePeriod, w.sampler.period()/2))); err != nil {
			return false, "", err
		}
	}
}

// atWork describes the activity of application and data plane.
func atWork(cores float64, memory int64, known bool) string {
	if !known {
		return "their counters were not refreshed in that time"
	}
	return fmt.Sprintf("they used %.2f cores and %.0f MiB", cores, float64(memory)/(1<<20))
}

// resting returns the CPU of application and data plane between their last two refreshes after
// since, and their memory. known is false until each task has two refreshes.
func (w *idleWait) resting(since time.Time) (cores float64, memory int64, known bool) {
	for _, task := range w.sampler.tasks {
		if task.Plane != metric.App && task.Plane != metric.Data {
			continue
		}
		all := w.sampler.history.tasks[task.ID]
		n := len(all)
		if n < 2 || all[n-1].At.Before(since) {
			return 0, 0, false
		}
		cores += float64(all[n-1].CPU-all[n-2].CPU) / float64(all[n-1].At.Sub(all[n-2].At))
		memory += all[n-1].RSS
	}
	return cores, memory, true
}

// coresByPlane is the CPU of each plane between two readings.
func coresByPlane(tasks []platform.Task, before, after meter.Look) map[string]float64 {
	cores := map[string]float64{}
	for _, task := range tasks {
		b, ok := before.Tasks[task.ID]
		a, ok2 := after.Tasks[task.ID]
		if wall := a.At.Sub(b.At); ok && ok2 && wall > 0 {
			cores[string(task.Plane)] += float64(a.CPU-b.CPU) / float64(wall)
		}
	}
	return cores
}

// While no request is anywhere, before the warm-up and after the last answers of a block, the readings of an interleaved trial
// show work that goes on without requests. Package figures divides the CPU in the slices of others by them.
const (
	// lastRead is the time after the last slice for its late answers.
	lastRead = 100 * time.Millisecond
	// idleTolerance is the largest error of the cost, as a share of it, that a difference between two idle rates
	// may cause while they pass for the same.
	idleTolerance = 0.005
	// longDeferral is the share of the cost, a second, beyond which the readings after the load go on to [maxPeriod]. Less may
	// be of a program that waits with a time limit. Its wake-ups are not deferred work.
	longDeferral = 0.05
	// unclearShare is the share of the cost above which CPU in the slices of others needs a longer time without requests. A timer
	// that starts with the last request has no wake-up in a short time after it.
	unclearShare = 0.1
	// longestQuiet bounds the time before a load in which bursts of a known period are read.
	longestQuiet = 5 * time.Second
	// lateReading is how much later one of two readings may be.
	lateReading = 5 * time.Millisecond
)

// quietTimes are the times without requests beyond [idleWindow] that are tried before the loads of a treatment.
var quietTimes = []time.Duration{0, time.Second, 3 * time.Second}

// quietTried is the time of them that a treatment has.
type quietTried struct {
	time    int
	settled bool // it is kept
}

// next is the time after a trial. The longest is kept if the program works in it, and the first if its requests defer work.
func (q quietTried) next(of *result.Record) quietTried {
	var idle, deferred, cost float64
	for i := range of.Tasks {
		if t := &of.Tasks[i]; compared(t.Plane) && t.IdleCPU != nil && t.DeferredCPU != nil {
			idle, deferred, cost = idle+float64(*t.IdleCPU), deferred+float64(*t.DeferredCPU), cost+float64(t.End.CPU-t.Start.CPU)
		}
	}
	switch {
	case q.settled || deferred <= unclearShare*cost:
		return q
	case q.time+1 < len(quietTimes):
		return quietTried{time: q.time + 1}
	case idle < unclearShare*deferred: // what the probes of the verification deferred ends in the first of these times
		return quietTried{time: 1, settled: true}
	}
	return quietTried{q.time, true}
}

// quietTime is the longest time of the treatments.
func (r *run) quietTime() (longest time.Duration) {
	for _, q := range r.quiet {
		longest = max(longest, quietTimes[q.time])
	}
	return longest
}

// idleWindow is the time before and after a block in which the idle rate is measured.
func idleWindow(measure time.Duration) time.Duration {
	return min(max(measure/24, 150*time.Millisecond), 3*time.Second)
}

// readQuiet reads the counters of all members before their load.
func (rd *round) readQuiet(ctx context.Context, window time.Duration) error {
	members := rd.alive()
	last, began := make([]meter.Look, len(members)), time.Now()
	at := time.Duration(0)
	for part := 0; part <= result.QuietParts; part++ {
		if err := await(ctx, began.Add(window*time.Duration(part)/result.QuietParts)); err != nil {
			return err
		}
		begin := at
		at = time.Since(began)
		for i, t := range members {
			if part > 0 && len(last[i].Tasks) == 0 {
				continue
			}
			if part == 0 {
				if rd.run.Meter.Follower() == nil && t.sampler.refreshed() {
					t.sliced.quiet.Before = refreshedQuiet(t.sampler.history, time.Time{})
					continue
				}
				if err := t.sampler.list(ctx); err != nil {
					return err
				}
			}
			now, err := rd.run.Meter.Read(ctx, t.sampler.tasks, meter.Edge)
			if err != nil {
				return fmt.Errorf("read the meters: %w", err)
			}
			if part > 0 {
				t.sliced.quiet.Before = append(t.sliced.quiet.Before, quietRow(last[i], now, begin))
			}
			last[i] = now
		}
	}
	return nil
}

// refreshedQuiet is the use between the last two refreshes of each task after an instant.
func refreshedQuiet(h history, after time.Time) []result.QuietRow {
	row := result.QuietRow{Tasks: map[string]result.QuietUse{}}
	for id, readings := range h.tasks {
		n := len(readings)
		if n < 2 || readings[n-2].At.Before(after) {
			continue
		}
		a, b := readings[n-2], readings[n-1]
		row.Tasks[id] = result.QuietUse{CPU: b.CPU - a.CPU, NS: int64(b.At.Sub(a.At))}
	}
	if len(row.Tasks) == 0 {
		return nil
	}
	return []result.QuietRow{row}
}

// quietRow is the use between two readings, the first of them at an instant.
func quietRow(from, to meter.Look, at time.Duration) result.QuietRow {
	row := result.QuietRow{AtSeconds: at.Seconds(), Tasks: map[string]result.QuietUse{}}
	for id, b := range to.Tasks {
		a, ok := from.Tasks[id]
		if wall := int64(b.At.Sub(a.At)); ok && wall > 0 && b.CPU >= a.CPU {
			u := result.QuietUse{CPU: b.CPU - a.CPU, NS: wall}
			if a.Voluntary+a.Involuntary > 0 && b.Voluntary+b.Involuntary > 0 { // of a reading that has them
				u.Voluntary, u.Involuntary, u.Switching = b.Voluntary-a.Voluntary, b.Involuntary-a.Involuntary, wall
			}
			row.Tasks[id] = u
		}
	}
	return row
}

// idleUses are the uses of tasks without requests.
type idleUses map[string]result.QuietUse

// usesOf adds up the rows from an instant on.
func usesOf(rows []result.QuietRow, from time.Duration) idleUses {
	sum := idleUses{}
	for _, row := range rows {
		if row.AtSeconds < from.Seconds() {
			continue
		}
		for id, u := range row.Tasks {
			sum[id] = sum[id].Plus(u)
		}
	}
	return sum
}

// tail is the use of a member after its last slice.
type tail struct {
	last  meter.Look
	at    time.Duration // of it, from the start of the schedule
	ended bool          // its last window is no busier than the time before the load
	long  bool          // it is much busier
}

// addTail adds a reading after the last slice, and reports whether the member is idle. The readings go on while it uses
// more than usual in the slices of others: requests before the load may have deferred work to the time of quiet.Before.
func (m *sliceMember) addTail(now meter.Look, at, window time.Duration) bool {
	t := &m.tail
	if t.last.Tasks == nil {
		t.last, t.at = m.last, m.at // the first row has the last answers
	}
	m.quiet.After = append(m.quiet.After, quietRow(t.last, now, t.at-m.at))
	t.last, t.at = now, at
	window = m.quietTime(window)
	from := at - m.at - window - lateReading
	if from < lastRead-2*lateReading {
		return false
	}
	before, after := usesOf(m.quiet.Before, 0).cores(m.tasks), usesOf(m.quiet.After, from).cores(m.tasks)
	t.ended = after-m.tolerance() <= before
	own, others := m.comparedUse()
	inside, outside := m.durations()
	t.long = after-before > longDeferral*float64(own+others)/float64(inside+outside) && after > 1.5*before
	return t.ended && after-m.tolerance() <= m.medianOfOthers()
}

// idle are the uses without requests: before the load, and at the end of the readings after it if those agree. Package figures
// decides which of them count, from all trials of a treatment.
func (m *sliceMember) idle(window time.Duration) idleUses {
	before := usesOf(m.quiet.Before, 0)
	if !m.tail.ended {
		return before
	}
	for id, u := range usesOf(m.quiet.After, m.tail.at-m.at-m.quietTime(window)-lateReading) {
		before[id] = before[id].Plus(u)
	}
	return before
}

// quietTime is how long the member must be idle after a block. Deferred work repeats the pauses between own slices, so
// where there is any, a shorter time without work does not show its end.
func (m *sliceMember) quietTime(window time.Duration) time.Duration {
	_, others := m.comparedUse()
	_, outside := m.durations()
	if float64(others)/float64(max(1, outside)) <= usesOf(m.quiet.Before, 0).cores(m.tasks)+m.tolerance() {
		return window
	}
	return window + m.longestPause()
}

// tolerance is the difference between two idle rates, in cores, that changes the cost by [idleTolerance].
func (m *sliceMember) tolerance() float64 {
	own, others := m.comparedUse()
	_, outside := m.durations()
	return idleTolerance * float64(own+others) / float64(max(1, outside))
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
	rest := min(during(rate, outside).CPU, all-own) // idle work is at most what was done
	switch {
	case known:
	case compared(task.Plane):
		task.End.CPU = task.Start.CPU + all
		return
	default: // a load that began after the readings before it, and ended before those after it
		rest = all - own
	}
	task.IdleCPU, task.DeferredCPU, task.End.CPU = &rest, new(all-own-rest), task.Start.CPU+all-rest
	switches := during(rate, m.switching[task.ID]-inside)
	task.End.Voluntary = max(task.Start.Voluntary, task.End.Voluntary-switches.Voluntary)
	task.End.Involuntary = max(task.Start.Involuntary, task.End.Involuntary-switches.Involuntary)
}

// workSeen is the work of a trial after its load.
type workSeen struct {
	lasted, warmup time.Duration
	beyond         int64 // CPU above the rate before the load, ns
	cost           int64 // CPU because of the load, ns
}

// workSeen collects what the checks need.
func (m *sliceMember) workSeen(idle idleUses, warmup time.Duration) *workSeen {
	own, others := m.comparedUse()
	_, outside := m.durations()
	s := &workSeen{warmup: warmup, cost: own + others - int64(idle.cores(m.tasks)*float64(outside))}
	before := usesOf(m.quiet.Before, 0).cores(m.tasks)
	limit := before + m.tolerance()
	sent := m.at // the end of the last own slice
	for _, row := range m.rows {
		if row.Own {
			sent = row.End
		}
	}
	for _, row := range m.quiet.After {
		uses := usesOf([]result.QuietRow{row}, 0)
		s.beyond += int64((uses.cores(m.tasks) - before) * float64(uses.longest()))
		if uses.cores(m.tasks) > limit {
			s.lasted = m.at - sent + time.Duration(row.AtSeconds*float64(time.Second)) + uses.longest()
		}
	}
	return s
}

// longest is the longest time of a task.
func (all idleUses) longest() (d time.Duration) {
	for _, u := range all {
		d = max(d, time.Duration(u.NS))
	}
	return d
}

// during returns the use of a time at the rate of a use.
func during(u result.QuietUse, d time.Duration) result.QuietUse {
	part := func(n, of int64) int64 { return int64(float64(n) * float64(d) / float64(max(1, of))) }
	return result.QuietUse{CPU: part(u.CPU, u.NS), Voluntary: part(u.Voluntary, u.Switching), Involuntary: part(u.Involuntary, u.Switching), NS: int64(d), Switching: int64(d)}
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
		u := use{at: row.Begin, time: row.End - row.Begin}
		for plane, ns := range row.CPU {
			if compared(plane) {
				u.ns += ns
			}
		}
		all = append(all, u)
	}
	return all
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

// cores is the idle rate of all tasks whose cost is compared.
func (all idleUses) cores(tasks []platform.Task) (sum float64) {
	for _, task := range tasks {
		if u := all[task.ID]; u.NS > 0 && compared(task.Plane) {
			sum += float64(u.CPU) / float64(u.NS)
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
func (i *workSeen) missing() float64 {
	if i.cost <= 0 || i.lasted <= i.warmup {
		return 0
	}
	return float64(i.beyond) / float64(i.cost) * (1 - float64(i.warmup)/float64(i.lasted))
}

// A program that does its work in bursts, such as a flush every five seconds, has a whole number of them in a measure
// phase. Its blocks begin at the same time after its start, so the burst that is missing, or one too many, is the same
// in all of them, and no interval contains it.
const (
	// burstShare is the share of the cost that one burst may have without a warning.
	burstShare = 0.03
	// A burst uses at least burstUse times as many cores as usual, and differs by burstDeviations median deviations from it.
	burstUse, burstDeviations = 1.5, 5
	// minUses are the parts of the measure phase that show what is usual.
	minUses = 5
)

// use is the CPU of the compared tasks in a part of the measure phase.
type use struct {
	ns   int64
	at   time.Duration // from the start of the phase, of its begin
	time time.Duration
}

func (u use) cores() float64 { return float64(u.ns) / float64(max(1, u.time)) }

// burstsSeen are the bursts of CPU in a measure phase.
type burstsSeen struct {
	count         int
	largest, cost int64 // ns
	over          time.Duration
	period        time.Duration // time between two bursts, 0 if there is none
}

// bursts finds the bursts in the slices of others: the work of own slices varies with their requests. Work that is
// deferred for a fixed time follows each own slice, and is not a burst: most of it is in the slices of others.
func (m *sliceMember) bursts(cost int64) *burstsSeen {
	inside, outside := m.durations()
	b := burstsIn(m.usesOfOthers(true), cost, inside+outside)
	own := lists.Count(m.rows, func(row result.Slice) bool { return row.Own })
	if 3*b.count > own {
		b.count = 0
	}
	return b
}

// fewBursts warns of bursts of which one more or fewer changes the cost.
func fewBursts(s seen) string {
	b := s.bursts
	if b == nil || b.count == 0 || float64(b.largest) <= burstShare*float64(b.cost) {
		return ""
	}
	return fmt.Sprintf("%s of up to %v of CPU in %v: one more or fewer changes the cost by %.1f %% (limit %.0f %%)", printable.Counted(b.count, "burst"),
		time.Duration(b.largest).Round(100*time.Microsecond), b.over.Round(100*time.Millisecond), 100*float64(b.largest)/float64(b.cost), 100*burstShare)
}

// burstsIn finds the bursts in successive parts of the measure phase.
func burstsIn(uses []use, cost int64, over time.Duration) *burstsSeen {
	b := &burstsSeen{cost: cost, over: over}
	if len(uses) < minUses {
		return b
	}
	usual, deviation := medianDeviation(uses)
	limit := max(burstUse*usual, usual+burstDeviations*deviation)
	type burst struct {
		ns int64
		at time.Duration
	}
	var all []burst
	within, ended := false, time.Duration(0)
	for _, u := range uses {
		high := u.cores() > limit
		// A burst goes on over an own slice, which is about as long.
		if above := u.ns - int64(usual*float64(u.time)); high && within && u.at-ended < 2*u.time {
			all[len(all)-1].ns += above
		} else if high {
			all = append(all, burst{above, u.at})
		}
		within, ended = high, u.at+u.time
	}
	if len(all) == 0 {
		return b
	}
	b.largest = slices.MaxFunc(all, func(x, y burst) int { return cmp.Compare(x.ns, y.ns) }).ns
	var gaps []time.Duration
	last := uses[0].at
	for _, one := range all {
		if one.ns >= b.largest/4 {
			b.count++
			gaps = append(gaps, one.at-last)
			last = one.at
		}
	}
	b.period = typicalGap(gaps, uses[len(uses)-1].at-last)
	return b
}

// typicalGap is the time between two bursts: the median of the gaps between them, the first of which is that before the
// first burst. The period of a single burst is at least the time beside it without another, and taken as twice that.
func typicalGap(gaps []time.Duration, after time.Duration) time.Duration {
	if len(gaps) == 1 {
		return 2 * max(gaps[0], after)
	}
	between := slices.Sorted(slices.Values(gaps[1:]))
	return between[len(between)/2]
}

// medianDeviation returns the median use in cores, and the median of the deviations from it.
func medianDeviation(uses []use) (usual, deviation float64) {
	all := lists.Map(uses, use.cores)
	slices.Sort(all)
	usual = all[len(all)/2]
	for i, cores := range all {
		all[i] = math.Abs(cores - usual)
	}
	slices.Sort(all)
	return usual, all[len(all)/2]
}
