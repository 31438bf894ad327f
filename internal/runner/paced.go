package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/mesh"
	"github.com/tare-mesh/tare/internal/meter"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/platform"
	"github.com/tare-mesh/tare/internal/result"
)

const (
	// warmupRefreshes is the least warm-up in refreshes of the counters: one refresh
	// lies then within the load and before the measure phase, with half to spare.
	warmupRefreshes = 1.5
	// ramp is how long after its beginning the load has its rate for certain.
	ramp = time.Second
	// looksPerRefresh is how often the counters are asked for between two refreshes.
	looksPerRefresh = 4
	// shortRefreshes is a measure phase, in refreshes, that may end with no refresh
	// in it: the load then goes on until one has come.
	shortRefreshes = 2
	// asking is how long it may take until every node of a cluster has told its counters.
	asking = time.Second
	// promptly read is a counter that was read so soon after an edge that no refresh stands between.
	promptly = 200 * time.Millisecond
)

// PacedPhases is what becomes of the phases of x where counters are refreshed
// only so often: the warm-up is raised, so that each counter is refreshed under
// load before the measure phase, and a tail is added to a short measure phase, so
// that each is refreshed again under the same load.
func PacedPhases(x experiment.Phases, refresh time.Duration) (warmup, tail time.Duration) {
	warmup = max(time.Duration(x.Warmup), time.Duration(warmupRefreshes*float64(refresh)))
	if time.Duration(x.Measure) < shortRefreshes*refresh {
		tail = refresh
	}
	return warmup, tail + asking
}

const (
	// usualUnrest is how much CPU under one and the same load differs between two refreshes of its counter.
	usualUnrest = 0.05
	// wantedError of CPU per request is that beyond which a measure phase counts as short.
	wantedError = 0.02
)

// LeastMeasure is the measure phase from which on CPU per request is off by no
// more than 2 % because of when its counters were refreshed: readings lie half a
// refresh from each edge at most, so that one refresh of the phase is measured
// beside it, where CPU differs by 5 % as a rule. 0: any length will do.
func LeastMeasure(refresh time.Duration) time.Duration {
	return time.Duration(float64(refresh) * usualUnrest / wantedError).Round(time.Second)
}

// ShortMeasure says that the measure phase is too short for its counters; empty: it is not.
func ShortMeasure(x experiment.Phases, refresh time.Duration) string {
	least := LeastMeasure(refresh)
	measure := time.Duration(x.Measure)
	if measure >= least {
		return ""
	}
	return fmt.Sprintf("counters are refreshed every %v at least, and a measure phase of %v is short for that: CPU per request may be off by %.0f %%, and by 2 %% or less from %v on",
		refresh, measure, 100*usualUnrest*min(1, float64(refresh)/float64(measure)), least)
}

// PacedExtra is about how much longer a trial takes where counters are refreshed only so often.
func PacedExtra(x experiment.Phases, refresh time.Duration) time.Duration {
	warmup, tail := PacedPhases(x, refresh)
	// Coming to rest takes two refreshes before the load, and two after it.
	return warmup - time.Duration(x.Warmup) + tail + 4*refresh
}

// refresh is how often the deployment's counters are refreshed; 0: whenever they are read.
func (t *trial) refresh() time.Duration {
	if p, ok := t.deployment.(platform.Paced); ok {
		return p.Refresh()
	}
	return 0
}

// paced says that the counters carry times of their own, by which they are used.
func (t *trial) paced() bool {
	_, ok := t.deployment.(platform.Paced)
	return ok
}

// pace fits the schedule of the load to the counters.
func (t *trial) pace() {
	if !t.paced() {
		return
	}
	refresh := t.refresh()
	warmup, tail := PacedPhases(t.Experiment.Phases, refresh)
	t.profile.Tail = max(t.profile.Tail, tail)
	if short := ShortMeasure(t.Experiment.Phases, refresh); short != "" {
		t.warn(result.Warning{Code: "measure-short", Message: short, Metrics: cpus,
			Hint: fmt.Sprintf("set phases.measure to %v or more", LeastMeasure(refresh))})
	}
	if warmup <= t.profile.Warmup {
		return
	}
	t.profile.Warmup = warmup
	t.warn(result.Warning{Code: "warm-up-raised",
		Message: fmt.Sprintf("the counters are refreshed every %v at least: the warm-up was %v in place of the %v asked for, so that each was refreshed under load before the measure phase",
			refresh, warmup, time.Duration(t.Experiment.Phases.Warmup)),
		Hint: fmt.Sprintf("set phases.warmup to %v or more", warmup)})
}

// history is what counters said that are refreshed only so often: each task's
// readings, oldest first, no refresh twice.
type history struct {
	tasks map[string][]result.Reading
	node  []result.NodeReading
	nodes map[string][]result.NodeReading // by name
	gaps  []gap
}

// gap is a time in which nothing could be read.
type gap struct {
	from, to time.Time // to is zero while it lasts
	why      error
}

// add takes what is new in a look, asked for and answered at these times, and returns it.
func (h *history) add(l meter.Look, asked, answered time.Time) (fresh map[string]result.Reading) {
	if h.tasks == nil {
		h.tasks, h.nodes = map[string][]result.Reading{}, map[string][]result.NodeReading{}
	}
	if l.Gap != nil {
		if n := len(h.gaps); n == 0 || !h.gaps[n-1].to.IsZero() {
			h.gaps = append(h.gaps, gap{from: asked, why: l.Gap})
		}
		return nil
	}
	if n := len(h.gaps); n > 0 && h.gaps[n-1].to.IsZero() {
		h.gaps[n-1].to = answered
	}
	fresh = map[string]result.Reading{}
	for id, r := range l.Tasks {
		if all := h.tasks[id]; len(all) == 0 || r.At.After(all[len(all)-1].At) {
			h.tasks[id] = append(all, r)
			fresh[id] = r
		}
	}
	if l.Node != nil {
		h.node = addNode(h.node, *l.Node)
	}
	for _, m := range l.Nodes {
		h.nodes[m.Name] = addNode(h.nodes[m.Name], m.Reading)
	}
	return fresh
}

func addNode(to []result.NodeReading, r result.NodeReading) []result.NodeReading {
	if n := len(to); n > 0 && !r.At.After(to[n-1].At) {
		return to
	}
	return append(to, r)
}

// cores is the CPU each plane used between the last two refreshes of each of its tasks.
func (h *history) cores(tasks []platform.Task) map[string]float64 {
	cores := map[string]float64{}
	for _, task := range tasks {
		if all := h.tasks[task.ID]; len(all) > 1 {
			was, is := all[len(all)-2], all[len(all)-1]
			cores[string(task.Plane)] += float64(is.CPU-was.CPU) / float64(is.At.Sub(was.At))
		}
	}
	return cores
}

// span is when the load had its rate, and the measure phase within it.
type span struct{ loaded, begin, end, done time.Time }

// spanOf is the span of the trial, in its own time.
func (t *trial) spanOf() span {
	steady := t.clock.steady
	return span{loaded: steady(t.profile.Start.Add(ramp)), begin: steady(t.edges.begin),
		end: steady(t.edges.end), done: steady(t.edges.end.Add(t.profile.Tail))}
}

// window are the two of times, ascending, that stand for the edges: of all pairs
// under the load the one that is nearest to both, and of two as near the later
// first and the earlier last. -1: there is no pair.
func window(times []time.Time, s span) (first, last int) {
	first, last = -1, -1
	best := time.Duration(math.MaxInt64)
	for i, a := range times {
		if a.Before(s.loaded) {
			continue
		}
		for j := len(times) - 1; j > i; j-- {
			off := a.Sub(s.begin).Abs() + times[j].Sub(s.end).Abs()
			if b := times[j]; !b.After(s.done) && b.After(a) && off <= best {
				first, last, best = i, j, off
			}
		}
	}
	return first, last
}

func timesOf(readings []result.Reading) []time.Time {
	times := make([]time.Time, len(readings))
	for i, r := range readings {
		times[i] = r.At
	}
	return times
}

// usePaced keeps of each task the two readings that stand for the edges, and
// says how far they may be off. begin and end are the looks at the edges: what is
// no counter that is refreshed, peaks and restarts, say, is taken from them.
func (t *trial) usePaced(first, then []platform.Task, begin, end meter.Look) {
	s := t.spanOf()
	known := map[string]bool{}
	var off offset
	for _, task := range append(slices.Clone(first), then...) {
		if known[task.ID] {
			continue
		}
		known[task.ID] = true
		u, i, j := t.pacedUsage(task, s, lists(first, task.ID), lists(then, task.ID))
		if own(task) && u.Missing != "" {
			t.unreadNode(fmt.Errorf("%s: %s", task.ID, u.Missing))
			continue
		}
		u.Start, u.End = edged(u.Start, begin.Tasks[task.ID]), edged(u.End, end.Tasks[task.ID])
		if i >= 0 && j >= 0 {
			off.add(t.sampler.history.tasks[task.ID], i, j, s)
		}
		t.record.Tasks = append(t.record.Tasks, u)
	}
	t.usePacedNode(s, end)
	if w, ok := off.warning(t.refresh()); ok {
		t.warn(w)
	}
	t.warnGaps(s.loaded, s.end)
}

// own are the tasks that a node has of its own. Where one of them cannot be read,
// the node's total falls short, and nothing else.
func own(task platform.Task) bool {
	return task.Role == mesh.RoleDaemon || task.Role == mesh.RoleRemainder
}

func lists(tasks []platform.Task, id string) bool {
	return slices.ContainsFunc(tasks, func(t platform.Task) bool { return t.ID == id })
}

// pacedUsage is what a task used, and the readings that stand for the edges; -1 where there are none.
func (t *trial) pacedUsage(task platform.Task, s span, atFirst, atLast bool) (u result.TaskUsage, i, j int) {
	u = result.TaskUsage{Task: task.Task}
	readings := t.sampler.history.tasks[task.ID]
	if n := len(readings); len(t.Experiment.Faults) > 0 && n > 0 && atFirst != atLast {
		return t.changed(u, readings, s, atFirst), -1, -1
	}
	i, j = window(timesOf(readings), s)
	switch {
	case !atFirst && !own(task):
		u.Missing = "not read at the beginning: it started during the measure phase"
	case !atLast && !own(task):
		u.Missing = "not read at the end: it ended during the measure phase"
	case i < 0 || j < 0:
		u.Missing = fmt.Sprintf("its counters were refreshed %d times under load, and it takes two", count(readings, s))
		if err := t.sampler.last.Missing[task.ID]; err != nil {
			u.Missing = err.Error()
		}
	default:
		u.Start, u.End = readings[i], readings[j]
		if u.End.CPU < u.Start.CPU {
			u.Missing = "its CPU counter went backwards: it was started again"
		}
	}
	return u, i, j
}

// changed is the usage of a task that a fault ended, as far as its counters were
// seen to come, or that was started in the place of one: it had used nothing before.
func (t *trial) changed(u result.TaskUsage, readings []result.Reading, s span, ended bool) result.TaskUsage {
	u.Start, u.End = result.Reading{At: s.begin}, readings[len(readings)-1]
	if !ended {
		return u
	}
	u.Ended = true
	if i := slices.IndexFunc(readings, func(r result.Reading) bool { return !r.At.Before(s.loaded) }); i >= 0 {
		u.Start = readings[i]
		for _, r := range readings[i:] {
			if r.At.Sub(s.begin).Abs() < u.Start.At.Sub(s.begin).Abs() {
				u.Start = r
			}
		}
	} else {
		u.Missing = "its counters were not refreshed under load before a fault ended it"
	}
	u.End.At, u.End.RSS = s.end, 0
	return u
}

// edged adds to a reading what was asked for at the edge it stands for.
func edged(r, edge result.Reading) result.Reading {
	r.Peak, r.Throttled, r.Restarts, r.OOMKills = max(r.Peak, edge.Peak), edge.Throttled, edge.Restarts, edge.OOMKills
	return r
}

func count(readings []result.Reading, s span) (n int) {
	for _, r := range readings {
		if !r.At.Before(s.loaded) && !r.At.After(s.done) {
			n++
		}
	}
	return n
}

func (t *trial) usePacedNode(s span, end meter.Look) {
	i, j := window(nodeTimes(t.sampler.history.node), s)
	if i < 0 || j < 0 {
		t.unreadNode(cmp.Or(t.sampler.last.NodeErr, errFewRefreshes))
		return
	}
	node := t.sampler.history.node
	u := &result.NodeUsage{CPUs: cmp.Or(end.NodeCPUs, t.Dir.Environment().CPUs), Start: node[i], End: node[j]}
	for _, m := range end.Nodes {
		readings := t.sampler.history.nodes[m.Name]
		if i, j := window(nodeTimes(readings), s); i >= 0 && j >= 0 {
			u.Nodes = append(u.Nodes, result.MachineUsage{Name: m.Name, CPUs: m.CPUs, AllocatableCPU: m.AllocatableCPU,
				AllocatableMemory: m.AllocatableMemory, Start: readings[i], End: readings[j]})
		}
	}
	t.record.Node = u
}

var errFewRefreshes = errors.New("its counters were not refreshed twice under load")

func nodeTimes(readings []result.NodeReading) []time.Time {
	times := make([]time.Time, len(readings))
	for i, r := range readings {
		times[i] = r.At
	}
	return times
}

// offset is how far the readings are from the edges, over all tasks.
type offset struct {
	before, after time.Duration // the worst distances to begin and end, either way
	fewest        int           // readings that a task has between its two, these included
	used, unsure  float64       // CPU between the readings, and how much of it the distance may have wrong; ns
}

// add takes one task. The readings cover other moments than the measure phase: a
// part of its time is not covered, and as much is that lies beside it. What is
// wrong is at most that part, times how much the task's use differed between
// refreshes under the same load.
func (o *offset) add(readings []result.Reading, i, j int, s span) {
	a, b := readings[i], readings[j]
	o.before, o.after = max(o.before, s.begin.Sub(a.At).Abs()), max(o.after, s.end.Sub(b.At).Abs())
	if n := j - i + 1; o.fewest == 0 || n < o.fewest {
		o.fewest = n
	}
	covered := b.At.Sub(a.At)
	if covered <= 0 {
		return
	}
	mean := float64(b.CPU-a.CPU) / float64(covered)
	differs := 0.0
	for k := 1; k < len(readings); k++ {
		was, is := readings[k-1], readings[k]
		if was.At.Before(s.loaded) || is.At.After(b.At) {
			continue
		}
		differs = max(differs, math.Abs(float64(is.CPU-was.CPU)/float64(is.At.Sub(was.At))-mean))
	}
	length := float64(s.end.Sub(s.begin))
	beside := float64(s.begin.Sub(a.At).Abs() + s.end.Sub(b.At).Abs())
	o.used += float64(b.CPU - a.CPU)
	o.unsure += differs * min(beside, length) / length * float64(covered)
}

func (o offset) warning(refresh time.Duration) (result.Warning, bool) {
	if o.used <= 0 || max(o.before, o.after) < promptly {
		return result.Warning{}, false
	}
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	return result.Warning{Code: "counters-paced",
		Message: fmt.Sprintf("counters are refreshed every %v at least: the readings used lie up to %v from the beginning and %v from the end of the measure phase, under the same load, with %d independent readings or more a task; CPU is off by %.1f %% at most, going by how it varied between refreshes",
			refresh, round(o.before), round(o.after), o.fewest, 100*o.unsure/o.used),
		Hint:    "a longer measure phase makes it less",
		Metrics: cpus}, true
}

// warnGaps tells of the times under load in which nothing could be read.
func (t *trial) warnGaps(from, to time.Time) {
	var told []string
	for _, g := range t.sampler.history.gaps {
		until := cmp.Or(g.to, t.clock.now())
		if until.After(from) && g.from.Before(to) {
			told = append(told, fmt.Sprintf("for %v from %s on (%v)", until.Sub(g.from).Round(time.Second), g.from.UTC().Format(time.TimeOnly), g.why))
		}
	}
	if told == nil {
		return
	}
	t.warn(result.Warning{Code: "meter-gap", Message: "the counters could not be read " + strings.Join(told, "; ") + ": they count on meanwhile, and what they came to was read afterwards",
		Hint: "see that the API server and the nodes' kubelets can be reached", Metrics: cpus})
}

// covered tells whether every task has a reading for each edge.
func (t *trial) covered() bool {
	s := t.spanOf()
	for _, task := range t.sampler.tasks {
		if i, j := window(timesOf(t.sampler.history.tasks[task.ID]), s); (i < 0 || j < 0) && !own(task) {
			return false
		}
	}
	return true
}

// measurePaced looks at the counters until the end of the measure phase, and
// beyond it as long as the load goes on, until each was refreshed.
func (t *trial) measurePaced(ctx context.Context) error {
	if err := t.sampler.look(ctx, meter.Edge); err != nil {
		return err
	}
	begin, first, stages := t.sampler.last, t.sampler.tasks, t.stageTimes(ctx)
	if err := t.duringMeasure(ctx, nil); err != nil {
		return err
	}
	if err := t.sampler.look(ctx, meter.Edge); err != nil {
		return err
	}
	end, then := t.sampler.last, t.sampler.tasks
	t.keepStages(stages, t.stageTimes(ctx))
	last := t.edges.end.Add(t.profile.Tail)
	for next := time.Now(); !t.covered() && next.Before(last); {
		next = next.Add(t.lookPeriod())
		if err := await(ctx, next); err != nil {
			return err
		}
		if err := t.sampler.look(ctx, meter.Edge); err != nil {
			return err
		}
	}
	t.usePaced(first, then, begin, end)
	if err := t.endFaults(ctx); err != nil {
		return err
	}
	return t.broken()
}

// lookPeriod is the time between two looks at every task.
func (t *trial) lookPeriod() time.Duration {
	return max(samplePeriod, t.refresh()/looksPerRefresh)
}

// rest waits until application and data plane are idle: below the thresholds of
// phases.idle between two refreshes that both came after it began to wait.
func (t *trial) rest(ctx context.Context) (idle bool, cores float64, err error) {
	limits := t.Experiment.Phases.Idle
	deadline := time.Now().Add(time.Duration(limits.Deadline))
	began := t.clock.now()
	for {
		if err := t.sampler.list(ctx); err != nil {
			return false, 0, err
		}
		if err := t.sampler.look(ctx, meter.Counters); err != nil {
			return false, 0, err
		}
		cores, memory, known := t.resting(began)
		if known && cores < limits.CPU && (limits.Memory == 0 || memory <= int64(limits.Memory)) {
			return true, cores, nil
		}
		if time.Now().After(deadline) {
			return false, cores, nil
		}
		if err := t.broken(); err != nil {
			return false, 0, err
		}
		if err := await(ctx, time.Now().Add(max(samplePeriod, t.lookPeriod()/2))); err != nil {
			return false, 0, err
		}
	}
}

// resting is what application and data plane used between their last two
// refreshes since a moment, and hold; not known as long as one has fewer.
func (t *trial) resting(since time.Time) (cores float64, memory int64, known bool) {
	for _, task := range t.sampler.tasks {
		if task.Plane != metric.App && task.Plane != metric.Data {
			continue
		}
		all := t.sampler.history.tasks[task.ID]
		n := len(all)
		if n < 2 || all[n-1].At.Before(since) {
			return 0, 0, false
		}
		cores += float64(all[n-1].CPU-all[n-2].CPU) / float64(all[n-1].At.Sub(all[n-2].At))
		memory += all[n-1].RSS
	}
	return cores, memory, true
}

// settlePaced is [trial.settle] where counters are refreshed only so often: the
// study's state STARTING.
func (t *trial) settlePaced(ctx context.Context) error {
	runtime.GC() // what tare itself left behind is collected now, not while it measures
	t.sampler = sampler{trial: t}
	idle, cores, err := t.rest(ctx)
	if err != nil || idle {
		return err
	}
	t.warn(result.Warning{Code: "not-settled",
		Message: fmt.Sprintf("application and data plane were not idle %v after they were up, without any load: they used %.2f cores", t.Experiment.Phases.Idle.Deadline, cores),
		Hint:    "raise phases.idle.deadline or its thresholds, or see in the trial's provenance what they are doing"})
	return nil
}

// calm waits after the load until application and data plane are idle: the study's state DRAINING.
func (t *trial) calm(ctx context.Context) error {
	if !t.paced() {
		return nil
	}
	idle, cores, err := t.rest(ctx)
	if err != nil || idle {
		return err
	}
	t.warn(result.Warning{Code: "not-drained",
		Message: fmt.Sprintf("application and data plane were not idle %v after the load: they used %.2f cores", t.Experiment.Phases.Idle.Deadline, cores),
		Hint:    "see in the trial's provenance what they are doing", Metrics: []string{"cpu_cores"}})
	return nil
}
