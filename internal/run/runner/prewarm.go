package runner

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/stats"
)

// A program with a compiler at run time uses ever less CPU for a request, over thousands of requests. If the warm-up
// shows this in one of the first blocks, the block is run again, and each deployment from then on first gets load until
// the CPU of a request no longer falls. Programs that are warm at once get no load before the warm-up.

const (
	// learningBlocks are the blocks that are checked for a cold start.
	learningBlocks = 2
	// warmFall is the fall of the CPU of a request from one load to the next, twice as long one, up to which a program is warm.
	warmFall = 0.03
	// Requests of the first load, and the least of the last one.
	firstRequests, lastRequests = 100, 400
	// A program was cold if requests of the warm-up used coldTimes the CPU of later ones, and coldCPU more in all.
	coldTimes, coldCPU = 2.0, 100 * time.Millisecond
	// prewarmLength bounds a load from below.
	prewarmLength = 300 * time.Millisecond
	// prewarmShare of the processors may be used by all programs together, and taskShare of one processor by a task, which may
	// have a single thread. Up to them the loads are faster than planned, at most fastest times.
	prewarmShare, taskShare, fastest = 0.5, 0.7, 5
	// paceLoads are the loads after which the rate is kept: the CPU of a request depends on the rate.
	paceLoads = 3
)

// prewarmer is what earlier blocks have shown.
type prewarmer struct {
	on       bool
	looked   map[int]bool // blocks
	requests int64        // that a program needed
}

// warmer is a trial whose programs may be cold.
type warmer struct{ t *trial }

// prewarms reports whether the trial gets load before its warm-up.
func (w warmer) prewarms() bool { return w.t.setup.prewarmer.on && w.canPrewarm() }

// canPrewarm reports whether loads before the warm-up are possible, and show the CPU of a request. A search for the rate
// is such a load.
func (w warmer) canPrewarm() bool {
	t := w.t
	x := t.setup.Experiment
	return x.Phases.Prewarm > 0 && t.sampler != nil && !t.sampler.refreshed() && t.deployment.LoadWorkers == nil &&
		!t.setup.generator.Abilities().Foreign() && x.Load.Arrivals != experiment.Recorded && !t.searches()
}

// prewarmAlone loads a trial that runs alone.
func prewarmAlone(t *trial, ctx context.Context) error { //nolint:revive // as the methods of the workflow
	rd := &round{run: t.setup.run, members: []*trial{t}}
	return rd.prewarm(ctx)
}

// prewarm loads all members at the same time until the CPU of a request no longer falls, or until the limit.
func (rd *round) prewarm(ctx context.Context) error {
	limit, began, faster := time.Duration(rd.run.Experiment.Phases.Prewarm), time.Now(), 1.0
	for n := 0; ; n++ {
		members := rd.alive()
		if len(members) == 0 {
			return nil
		}
		rd.each(members, func(_ int, t *trial) {
			if err := (warmer{t}).prewarmLoad(ctx, rd.run.prewarmer.next(t.journal.record.Prewarm), faster, limit); err != nil {
				t.outcome = err
			}
		})
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		steady, cores, busiest, spent := true, 0.0, 0.0, time.Since(began)
		for _, t := range rd.alive() {
			p := t.journal.record.Prewarm
			p.Seconds, p.Steady = spent.Seconds(), p.Steady || isSteady(p)
			steady = steady && p.Steady
			cores += p.Loads[len(p.Loads)-1].CPUMicros * t.load.base().Rate / 1e6
			busiest = max(busiest, t.load.busiest*t.load.base().Rate/1e6)
		}
		if steady {
			rd.learned()
			break
		}
		if n < paceLoads && cores > 0 {
			faster = pace(float64(runtime.NumCPU()), cores, busiest, len(members))
		}
		if spent+(warmer{members[0]}).prewarmTime(rd.run.prewarmer.next(members[0].journal.record.Prewarm), faster, limit) > limit {
			break
		}
	}
	rd.each(rd.alive(), func(_ int, t *trial) { t.outcome = t.idle.settle(ctx) })
	return nil
}

// pace is the rate of the loads as a multiple of the planned one. At the planned rate all members use cores, and the busiest
// of their tasks busiest. A task keeps up with the planned rate.
func pace(processors, cores, busiest float64, members int) float64 {
	fits := prewarmShare * processors / cores
	if busiest > 0 {
		fits = min(fits, max(1, taskShare/busiest))
	}
	return min(fastest, max(fits, 1/float64(members)))
}

// learned keeps the requests after which all members were warm.
func (rd *round) learned() {
	for _, t := range rd.alive() {
		rd.run.prewarmer.requests = max(rd.run.prewarmer.requests, t.journal.record.Prewarm.Requests)
	}
}

// next is the number of requests of the next load: as many as all before. The least number of loads has what an earlier
// block needed.
func (w *prewarmer) next(p *result.Prewarm) int64 {
	if p == nil || len(p.Loads) < 2 {
		return max(firstRequests, w.requests>>(paceLoads+1))
	}
	return p.Requests
}

// isSteady reports whether the last load used as much CPU for a request as the load before. A load that is too short does
// not show it.
func isSteady(p *result.Prewarm) bool {
	n := len(p.Loads)
	return n >= paceLoads+2 && p.Loads[n-1].Requests >= lastRequests && p.Loads[n-1].CPUMicros >= (1-warmFall)*p.Loads[n-2].CPUMicros
}

// prewarmLoad sends about a number of requests, and adds the CPU of one of them to the record.
func (w warmer) prewarmLoad(ctx context.Context, requests int64, faster float64, limit time.Duration) error {
	t := w.t
	lr := t.load
	p := lr.base()
	lr.probes++
	p.Warmup, p.Measure, p.Tail, p.Drain, p.Seed = 0, w.prewarmTime(requests, faster, limit), 0, p.Timeout, p.Seed+lr.probes
	p.Rate *= faster
	p, err := withSecrets(p, &t.setup.Experiment.Load)
	if err != nil {
		return err
	}
	before, err := w.comparedTasks(ctx)
	if err != nil {
		return err
	}
	if lr.loading, err = startLoad(ctx, t.deployment, t.setup.generator, p, func(load.Progress) {}); err != nil {
		return err
	}
	l, err := lr.loading.wait(ctx, time.Now().Add(p.Measure+p.Drain+p.Timeout+t.setup.Timing.Overtime))
	if gone := broken(t.deployment); gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	after, err := w.comparedTasks(ctx)
	if err != nil {
		return err
	}
	var ended int64 // late ones too: their CPU is counted
	for _, n := range l.Classes {
		ended += n
	}
	if ended == 0 {
		return fmt.Errorf("no request of the load before the warm-up was answered: %s", l.FailureText())
	}
	if t.journal.record.Prewarm == nil {
		t.journal.record.Prewarm = &result.Prewarm{}
	}
	done := t.journal.record.Prewarm
	done.Requests += ended
	used, busiest := usedBetween(before, after)
	lr.busiest = busiest / 1e3 / float64(ended)
	done.Loads = append(done.Loads, result.PrewarmLoad{Requests: ended, CPUMicros: used / 1e3 / float64(ended)})
	return nil
}

// prewarmTime is the length of the next load of a trial.
func (w warmer) prewarmTime(requests int64, faster float64, limit time.Duration) time.Duration {
	before := 0.0
	if done := w.t.journal.record.Prewarm; done != nil {
		before = done.Seconds
	}
	return prewarmTime(w.t.load.base().Rate*faster, before, requests, limit)
}

// prewarmTime is the length of a load with about a number of requests, at most the limit. A closed loop, without a rate, lasts
// as long as the seconds of all loads before.
func prewarmTime(rate, before float64, requests int64, limit time.Duration) time.Duration {
	seconds := before
	if rate > 0 {
		seconds = float64(requests) / rate
	}
	return min(max(prewarmLength, time.Duration(seconds*float64(time.Second))), limit)
}

// comparedCPU is the CPU time of application and data plane, ns.
func (w warmer) comparedCPU(ctx context.Context) (ns int64, err error) {
	tasks, err := w.comparedTasks(ctx)
	for _, of := range tasks {
		ns += of
	}
	return ns, err
}

// comparedTasks is the CPU time of each task of application and data plane, ns, by its ID.
func (w warmer) comparedTasks(ctx context.Context) (ns map[string]int64, err error) {
	t := w.t
	tasks, err := t.deployment.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	now, err := t.setup.Meter.Read(ctx, tasks, meter.Clocks)
	ns = map[string]int64{}
	for _, task := range tasks {
		if compared(task.Plane) {
			ns[task.ID] = now.Tasks[task.ID].CPU
		}
	}
	return ns, err
}

// usedBetween is the CPU time of all tasks between two readings, and that of the busiest one, ns. A task without a first reading
// began in between.
func usedBetween(before, after map[string]int64) (all, busiest float64) {
	for id, ns := range after {
		used := float64(ns - before[id])
		all, busiest = all+used, max(busiest, used)
	}
	return all, busiest
}

// repeats reports whether the round is run again with loads before its warm-up: a program was cold.
func (rd *round) repeats() bool {
	learned, block := &rd.run.prewarmer, rd.members[0].setup.of.Block
	if learned.on || len(learned.looked) >= learningBlocks && !learned.looked[block] || len(rd.alive()) < len(rd.members) {
		return false
	}
	for _, t := range rd.members {
		w := warmer{t}
		times, cold := w.beganCold()
		if !cold || !w.canPrewarm() {
			continue
		}
		learned.on = true
		t.journal.emit(result.Event{Kind: result.KindLog, Message: fmt.Sprintf("%s: a request of the warm-up used %.1f times the CPU of a later one. The block is run again; each deployment is loaded before it until the CPU of a request no longer falls, for up to %v",
			t.setup.of.Treatment, times, t.setup.Experiment.Phases.Prewarm)})
		return true
	}
	if learned.looked == nil {
		learned.looked = map[int]bool{}
	}
	learned.looked[block] = true
	return false
}

// fall is how the CPU of a request fell within a measure phase: the trend of its logarithm over parts of the phase.
type fall struct {
	share float64 // from the first part to the last
	p     float64 // probability of such a trend of a steady program, 0 if it is not known
}

const (
	// fallParts are the parts of a measure phase. With fewer than leastParts no trend is sure.
	fallParts, leastParts = 8, 6
	// visibleFall is the fall from which a trial is not warm.
	visibleFall = 0.1
	// fallCertain is the probability of a warning where there is no trend.
	fallCertain = 0.001
)

// surely reports whether a steady program would show this trend with a probability of p at most.
func (f fall) surely(p float64) bool { return f.share > 0 && f.p < p }

// spent is CPU time, and the requests that were answered for it.
type spent struct {
	ns       int64
	requests float64
}

// fallOf returns the trend over equal parts. Parts without requests are left out.
func fallOf(parts []spent) fall {
	var x, y []float64
	for i, p := range parts {
		if p.ns > 0 && p.requests > 0 {
			x, y = append(x, float64(i)), append(y, math.Log(float64(p.ns)/p.requests))
		}
	}
	if len(x) < leastParts {
		return fall{}
	}
	slope, p := stats.Slope(x, y)
	return fall{share: 1 - math.Exp(slope*(x[len(x)-1]-x[0])), p: p}
}

// fall returns the trend of the CPU of a request in the measure phase.
func (w warmer) fall() fall { return fallOf(w.costs()) }

// costs are the parts of the measure phase.
func (w warmer) costs() []spent {
	t := w.t
	if t.sliced != nil {
		return t.sliced.costs()
	}
	if t.sampler == nil || !t.steadyLoad() {
		return nil
	}
	t.load.mu.Lock()
	defer t.load.mu.Unlock()
	var seconds []spent
	measured := slices.DeleteFunc(slices.Clone(t.load.progress), func(p load.Progress) bool { return p.Phase != "measure" })
	for i, u := range t.sampler.uses {
		if i < len(measured) {
			seconds = append(seconds, spent{u.ns, float64(measured[i].Completed)})
		}
	}
	return merged(seconds)
}

// beganCold compares the CPU of a request in the warm-up with the median of the second half of the measure phase, as a
// multiple of it. Work before the load without requests is left out.
func (w warmer) beganCold() (times float64, cold bool) {
	t := w.t
	p := &t.load.profile
	loaded := p.Warmup
	if p.Slices != nil {
		loaded = p.Slices.Loaded(0, p.Warmup)
	}
	used := -t.atStart
	for _, task := range t.journal.record.Tasks {
		if compared(task.Plane) && task.Missing == "" {
			used += task.Start.CPU
		}
	}
	if t.sliced != nil { // idle work of the time before the load is of no request
		idle := usesOf(t.sliced.quiet.Before, 0)
		for _, task := range t.sliced.tasks {
			if compared(task.Plane) {
				used -= idle[task.ID].CPU
			}
		}
	}
	return coldStart(spent{used, p.Rate * loaded.Seconds()}, w.costs())
}

func coldStart(before spent, parts []spent) (times float64, cold bool) {
	var later []float64
	for _, p := range parts[len(parts)/2:] {
		if p.requests > 0 {
			later = append(later, float64(p.ns)/p.requests)
		}
	}
	usual := stats.Quantile(later, 0.5)
	if len(parts) < leastParts || before.requests < 1 || !(usual > 0) {
		return 0, false
	}
	times = float64(before.ns) / before.requests / usual
	return times, times > coldTimes && float64(before.ns)-before.requests*usual > float64(coldCPU)
}

// costs are the parts of a trial of a round. CPU in the slices of others is deferred work of its requests.
func (m *sliceMember) costs() []spent {
	var rows []spent
	for _, row := range m.rows {
		if row.Own {
			rows = append(rows, spent{requests: float64(row.Answered)})
		}
		if n := len(rows); n > 0 {
			for plane, ns := range row.CPU {
				if compared(plane) {
					rows[n-1].ns += ns
				}
			}
		}
	}
	return merged(rows)
}

// merged adds up neighbours to the usual number of parts.
func merged(all []spent) []spent {
	parts := make([]spent, min(fallParts, len(all)))
	for i, s := range all {
		p := &parts[i*len(parts)/len(all)]
		p.ns, p.requests = p.ns+s.ns, p.requests+s.requests
	}
	return parts
}

// notWarm finds a program whose CPU of a request still fell.
func notWarm(s seen) string {
	p := s.record.Prewarm
	loaded := time.Duration(s.load.WarmupSeconds * float64(time.Second))
	if p != nil {
		loaded += time.Duration(p.Seconds * float64(time.Second))
	}
	switch {
	case s.cold:
		return ""
	case s.fall.surely(fallCertain) && s.fall.share > visibleFall:
		return fmt.Sprintf("the CPU of a request fell by %.0f %% within the measure phase, after %v of load: the program is warm after about %v",
			100*s.fall.share, loaded.Round(time.Second), untilWarm(loaded, s.fall.share).Round(time.Second))
	case p != nil && !p.Steady && len(p.Loads) >= 2:
		n := len(p.Loads)
		if p.Loads[n-1].CPUMicros >= (1-warmFall)*p.Loads[n-2].CPUMicros {
			return fmt.Sprintf("%v of load (the limit) had too few requests to show that the CPU of a request no longer falls", loaded.Round(time.Second))
		}
		return fmt.Sprintf("the CPU of a request still fell, from %.0f to %.0f µs, after %v of load (the limit): the program is warm after about %v",
			p.Loads[n-2].CPUMicros, p.Loads[n-1].CPUMicros, loaded.Round(time.Second), untilWarm(loaded, 1-p.Loads[n-1].CPUMicros/p.Loads[n-2].CPUMicros).Round(time.Second))
	}
	return ""
}

// untilWarm is the time of load until a program is warm, if each doubling of the time halves the fall.
func untilWarm(loaded time.Duration, share float64) time.Duration {
	doublings := math.Ceil(math.Log2(max(share, 2*warmFall) / warmFall))
	return time.Duration(float64(max(loaded, time.Second)) * math.Exp2(doublings))
}
