package runner

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/stats"
)

// A program with a compiler at run time uses ever less CPU for a request, over thousands of requests. Before its first trial
// each program of the user is loaded until the CPU of a request no longer falls. If this differs from the beginning, all
// deployments are loaded so before their warm-up. Programs that are warm at once get no more load before it.

const (
	// warmFall is the fall of the CPU of a request from one load to the next, twice as long one, up to which a program is warm.
	warmFall = 0.03
	// leastLoads and leastRequests, of the last one, show that it no longer falls.
	leastLoads, leastRequests = 4, 400
	// A program whose code is compiled late is warm after compiledRequests at the earliest, or compiledCPU. HotSpot compiles a
	// method for good after 5,000 calls, and later while others wait for its compiler (Tier4InvocationThreshold,
	// Tier4LoadFeedback). Two loads before it may agree, and the next need half: 602, 594 and 258 µs of a Java server.
	compiledRequests, compiledCPU = 20_000, 15 * time.Second
	// coldTimes is the CPU of a request after the time of a warm-up, as a multiple of that of a warm program, from which a
	// program is loaded before each warm-up.
	coldTimes = 1.25
	// The load that shows this has coldRequests, or lasts coldLength with at least fewRequests. It comes again when the CPU of a
	// request no longer falls, or after lookTime: on a busy machine it may seem to fall for long.
	coldRequests, coldLength, fewRequests, lookTime = 100, 3 * time.Second, 10, 10 * time.Second
	// enoughLess is the part of the requests that sufficed before which a later trial may lack: the load that compares with the
	// beginning is in the first ones only.
	enoughLess = 20
	// prewarmLength, and the time of prewarmResponses answers, bound a load from below.
	prewarmLength, prewarmResponses = 300 * time.Millisecond, 10
	// prewarmShare of the processors may be used by all programs together, and taskShare of one processor by a task, which may
	// have a single thread. Up to them the loads are faster than planned, at most fastest times, and from one load to the
	// next at most quicker times.
	prewarmShare, taskShare, fastest, quicker = 0.7, 0.7, 50, 4
	// paceRange is the change of the pace that is left out: the CPU of a request depends on the rate. After settledRequests the pace
	// falls only if a program does not keep up, so that most loads can be compared with the one before. It may rise again when a
	// request needs CPU cheaper times less.
	paceRange, settledRequests, cheaper = 1.5, 1500, 2
	// mostConnections are opened at most for a faster rate: as many times more.
	mostConnections = 64
)

// prewarmer is what earlier trials have shown.
type prewarmer struct {
	on       bool            // a program begins cold
	requests int64           // after which cold programs were warm
	unknown  bool            // a cold program was not warm at the limit: it needs more
	looked   map[string]bool // treatments
}

// learn takes what the loads before a warm-up have shown.
func (w *prewarmer) learn(of *result.Record) {
	p := of.Prewarm
	if p == nil {
		return
	}
	if w.looked == nil {
		w.looked = map[string]bool{}
	}
	w.looked[of.Treatment] = true
	if beganCold(p) <= coldTimes {
		return
	}
	if w.on = true; p.Steady { // the last load, which shows it, was of a warm program
		w.requests = max(w.requests, p.Requests-p.Loads[len(p.Loads)-1].Requests)
	} else {
		w.unknown = true
	}
}

// enough reports whether cold programs had as many requests as sufficed before, or little less: loads are not equally long.
func (w *prewarmer) enough(p *result.Prewarm) bool {
	return w.requests > 0 && !w.unknown && p.Requests >= w.requests-w.requests/enoughLess
}

// beganCold is the CPU of a request after the time of a warm-up, as a multiple of that of the last load at the same rate.
func beganCold(p *result.Prewarm) float64 {
	for i := len(p.Loads) - 1; i >= leastLoads-1; i-- {
		if p.Loads[i].Rate == p.Loads[1].Rate && p.Loads[i].CPUMicros > 0 {
			return p.Loads[1].CPUMicros / p.Loads[i].CPUMicros
		}
	}
	return 1
}

// warmer is a trial whose programs may be cold.
type warmer struct{ t *trial }

// looks reports whether the trial is the first that shows whether its programs begin cold.
func (w warmer) looks() bool {
	p := &w.t.setup.prewarmer
	return !p.on && !p.looked[w.t.setup.of.Treatment]
}

// prewarms reports whether the trial gets load before its warm-up. Such loads must be possible, and show the CPU of a request. A
// search for the rate is such a load.
func (w warmer) prewarms() bool {
	t := w.t
	x := t.setup.Experiment
	return (t.setup.prewarmer.on || w.looks()) && x.Phases.Prewarm > 0 && t.setup.topology.HasCommand() && t.sampler != nil &&
		!t.sampler.refreshed() && t.deployment.LoadWorkers == nil && !t.setup.generator.Abilities().Foreign() &&
		!t.searches()
}

// prewarmAlone loads a trial that runs alone.
func prewarmAlone(t *trial, ctx context.Context) error { //nolint:revive // as the methods of the workflow
	rd := &round{run: t.setup.run, members: []*trial{t}}
	return rd.prewarm(ctx)
}

// warming is what the last load of a trial before its warm-up has shown of its rate.
type warming struct {
	busiest  float64 // CPU of the busiest task, µs a request
	response float64 // median response time in its last second, ms
	strained bool    // the program did not keep up: requests were waiting at its end, or failed
	compiles bool    // it has a thread that compiles late
}

// strained reports whether a program did not keep up with a load: more than a hundredth of the requests failed, or more than a
// fifth waited at its end. A load lasts [prewarmResponses] response times, so fewer are under way.
func strained(l *result.Load) bool {
	ended, waiting := int64(0), int64(0)
	for _, n := range l.Classes {
		ended += n
	}
	if l.BacklogEnd != nil {
		waiting = *l.BacklogEnd
	}
	return l.Classes[string(load.OK)] < ended-ended/100 || waiting > 10+l.Intended/5
}

// prewarm loads all members at the same time until the CPU of a request no longer falls, until they had as many requests as sufficed
// before, or until the limit. In a first trial a load as at the beginning shows whether they began cold: if not, they are warm.
func (rd *round) prewarm(ctx context.Context) error {
	limit, began := time.Duration(rd.run.Experiment.Phases.Prewarm), time.Now()
	first := firstPace(rd.members[0].load.base().Rate)
	at := pacer{faster: first, most: max(first, fastest)}
	looks := slices.ContainsFunc(rd.members, func(t *trial) bool { return warmer{t}.looks() })
	warm := false
	for n := 0; ; n++ {
		compares, faster := looks && n >= leastLoads-1 && (warm || time.Since(began) > lookTime), at.faster
		if compares {
			faster = first
		}
		members := rd.alive()
		if len(members) == 0 {
			return nil
		}
		length := (warmer{members[0]}).prewarmTime(n, faster, compares)
		if left := limit - time.Since(began); n > 0 && !compares {
			if warm || left < length/2 {
				break
			}
			length = min(length, left)
		}
		rd.each(members, func(_ int, t *trial) {
			if err := (warmer{t}).prewarmLoad(ctx, length, faster); err != nil {
				t.outcome = err
			}
		})
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if compares {
			looks, warm = false, !rd.tellCold() || warm
			continue
		}
		warm = rd.warm(began)
		if n > 0 {
			at.next(rd.pace())
		}
	}
	for _, t := range rd.alive() {
		t.journal.record.Prewarm.Steady = t.journal.record.Prewarm.Steady || warm
	}
	rd.each(rd.alive(), func(_ int, t *trial) { t.outcome = t.idle.settle(ctx) })
	return nil
}

// warm reports whether all members are warm, and records whether each is.
func (rd *round) warm(began time.Time) (all bool) {
	all = true
	for _, t := range rd.alive() {
		p := t.journal.record.Prewarm
		p.Seconds, p.Steady = time.Since(began).Seconds(), p.Steady || isSteady(p) && (isCompiled(p) || !t.load.warming.compiles) || rd.run.prewarmer.enough(p)
		all = all && p.Steady
	}
	return all
}

// pace is the pace that fits the last load, whether a member did not keep up with it, and whether one had enough requests.
func (rd *round) pace() (fits float64, late, settled bool) {
	cores, busiest, members := 0.0, 0.0, rd.alive()
	for _, t := range members {
		p, rate := t.journal.record.Prewarm, t.load.base().Rate
		cores, busiest = cores+p.Loads[len(p.Loads)-1].CPUMicros*rate/1e6, max(busiest, t.load.warming.busiest*rate/1e6)
		late, settled = late || t.load.warming.strained, settled || p.Requests >= settledRequests
	}
	return pace(float64(runtime.NumCPU()), cores, busiest, len(members)), late, settled
}

// tellCold reports whether a member began cold, and logs the first.
func (rd *round) tellCold() bool {
	for _, t := range rd.alive() {
		if times := beganCold(t.journal.record.Prewarm); times > coldTimes {
			t.journal.emit(result.Event{Kind: result.KindLog, Message: fmt.Sprintf("%s: after the time of a warm-up, a request used %.1f times the CPU of a later one. Each deployment is loaded before its warm-up until the CPU of a request no longer falls, for up to %v",
				t.setup.of.Treatment, times, t.setup.Experiment.Phases.Prewarm)})
			return true
		}
	}
	return false
}

// pace is the rate of the loads as a multiple of the planned one. At the planned rate all members use cores, and the busiest
// of their tasks busiest. A task keeps up with the planned rate.
func pace(processors, cores, busiest float64, members int) float64 {
	if cores <= 0 {
		return 1
	}
	fits := prewarmShare * processors / cores
	if busiest > 0 {
		fits = min(fits, max(1, taskShare/busiest))
	}
	return min(fastest, max(fits, 1/float64(members)))
}

// firstPace is the pace of the first two loads: with fewRequests in coldLength.
func firstPace(rate float64) float64 {
	if rate <= 0 {
		return 1
	}
	return max(1, fewRequests/(rate*coldLength.Seconds()))
}

// pacer is the pace of one load after another. Programs that become warm can be loaded ever faster.
type pacer struct {
	faster, most float64
	strained     float64 // the pace that would have fitted the load with which a program did not keep up
}

// next takes the pace that fits the last load. After a load with which a program did not keep up, it is half of that of this load,
// or the planned one, and does not rise again before a request needs half of the CPU.
func (p *pacer) next(fits float64, strained, settled bool) {
	if strained {
		p.most, p.strained = min(p.faster, max(1, p.faster/2)), fits
	} else if fits > cheaper*p.strained {
		p.most = max(p.most, fastest)
	}
	fits = min(fits, p.most, quicker*p.faster)
	slower := fits < p.faster/paceRange && (strained || !settled)
	if p.faster > p.most || slower || fits > p.faster*paceRange {
		p.faster = fits
	}
}

// isSteady reports whether the last load used as much CPU for a request as the load before at the same rate. A load that is too
// short does not show it.
func isSteady(p *result.Prewarm) bool {
	n := len(p.Loads)
	before := alikeBefore(p, n-1)
	return n >= leastLoads && before != nil && p.Loads[n-1].Requests >= leastRequests && p.Loads[n-1].CPUMicros >= (1-warmFall)*before.CPUMicros
}

// lateCompilers are threads that compile code long after a program began, as the kernel cuts their names: of HotSpot and .NET.
var lateCompilers = []string{"C2 CompilerThre", ".NET Tiered Com"}

// compilesLate reports whether a process has such a thread. Elsewhere than on Linux it has none.
func compilesLate(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	return slices.ContainsFunc(threads, func(path string) bool {
		name, _ := os.ReadFile(path)
		return slices.Contains(lateCompilers, strings.TrimSpace(string(name)))
	})
}

// isCompiled reports whether a program had compiledRequests, or used compiledCPU.
func isCompiled(p *result.Prewarm) bool {
	micros := 0.0
	for _, l := range p.Loads {
		micros += l.CPUMicros * float64(l.Requests)
	}
	return p.Requests >= compiledRequests || micros >= float64(compiledCPU.Microseconds())
}

// prewarmLoad sends requests for a time, and adds the CPU of one of them to the record.
func (w warmer) prewarmLoad(ctx context.Context, length time.Duration, faster float64) error {
	t := w.t
	lr := t.load
	p := lr.base()
	lr.probes++
	p.Warmup, p.Measure, p.Tail, p.Drain, p.Seed = 0, length, 0, p.Timeout, p.Seed+lr.probes
	p.Rate *= faster
	p.Connections = max(p.Connections, min(mostConnections, int(math.Ceil(float64(p.Connections)*faster))))
	p, err := withSecrets(p)
	if err != nil {
		return err
	}
	before, err := w.comparedTasks(ctx)
	if err != nil {
		return err
	}
	at := &lr.warming
	onProgress := func(p load.Progress) {
		if p.P50MS > 0 {
			at.response = p.P50MS
		}
	}
	if lr.loading, err = startLoad(ctx, t.deployment, t.setup.generator, p, onProgress); err != nil {
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
	at.strained = strained(&l)
	if t.journal.record.Prewarm == nil {
		t.journal.record.Prewarm = &result.Prewarm{}
	}
	done := t.journal.record.Prewarm
	done.Requests += ended
	used, busiest := usedBetween(before, after)
	at.busiest = busiest / 1e3 / float64(ended)
	done.Loads = append(done.Loads, result.PrewarmLoad{Requests: ended, Rate: p.Rate, CPUMicros: used / 1e3 / float64(ended)})
	return nil
}

// prewarmTime is the length of the n-th load of a trial. The first is the warm-up of the experiment. The second, and the last,
// show how cold a program is after it. Each other has as many requests as all before, after settledRequests half as many.
func (w warmer) prewarmTime(n int, faster float64, last bool) time.Duration {
	x, rate := w.t.setup.Experiment, w.t.load.base().Rate*faster
	switch done := w.t.journal.record.Prewarm; {
	case n == 0:
		return min(coldLength, max(time.Duration(x.Phases.Warmup), loadTime(rate, 0, fewRequests)))
	case n == 1 || last:
		return min(coldLength, loadTime(rate, 0, coldRequests))
	default:
		answers := time.Duration(0)
		if at := w.t.load.warming; !at.strained { // with a queue, the response time is of the queue
			answers = time.Duration(prewarmResponses * at.response * float64(time.Millisecond))
		}
		share := 1.0
		if done.Requests > settledRequests {
			share = 0.5
		}
		return min(time.Duration(x.Phases.Prewarm), max(answers, loadTime(rate, share*done.Seconds, int64(share*float64(done.Requests)))))
	}
}

// loadTime is the length of a load with about a number of requests. A closed loop, without a rate, lasts as long as the seconds of
// all loads before.
func loadTime(rate, before float64, requests int64) time.Duration {
	seconds := before
	if rate > 0 {
		seconds = float64(requests) / rate
	}
	return max(prewarmLength, time.Duration(seconds*float64(time.Second)))
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
			t.load.warming.compiles = t.load.warming.compiles || task.PID > 0 && compilesLate(task.PID)
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
		before, last := lastTwo(p)
		if last.CPUMicros >= (1-warmFall)*before.CPUMicros {
			return fmt.Sprintf("%v of load (the limit) had too few requests to show that the CPU of a request no longer falls", loaded.Round(time.Second))
		}
		return fmt.Sprintf("the CPU of a request still fell, from %.0f to %.0f µs, after %v of load (the limit): the program is warm after about %v",
			before.CPUMicros, last.CPUMicros, loaded.Round(time.Second), untilWarm(loaded, 1-last.CPUMicros/before.CPUMicros).Round(time.Second))
	}
	return ""
}

// alikeBefore is the load before the i-th with which it can be compared: at its rate, and with a quarter of its requests at least.
// Between them may be the short load that compares with the beginning. Without one it is nil.
func alikeBefore(p *result.Prewarm, i int) *result.PrewarmLoad {
	for j := i - 1; j >= max(0, i-2); j-- {
		if l := &p.Loads[j]; l.Rate == p.Loads[i].Rate && 4*l.Requests >= p.Loads[i].Requests {
			return l
		}
	}
	return nil
}

// lastTwo are the last two loads that can be compared, both the last one if there are none.
func lastTwo(p *result.Prewarm) (before, last result.PrewarmLoad) {
	for i, l := range slices.Backward(p.Loads) {
		if before := alikeBefore(p, i); before != nil {
			return *before, l
		}
	}
	last = p.Loads[len(p.Loads)-1]
	return last, last
}

// untilWarm is the time of load until a program is warm, if each doubling of the time halves the fall.
func untilWarm(loaded time.Duration, share float64) time.Duration {
	doublings := math.Ceil(math.Log2(max(share, 2*warmFall) / warmFall))
	return time.Duration(float64(max(loaded, time.Second)) * math.Exp2(doublings))
}
