package runner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
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
)

// PacedPhases is what becomes of the phases of x where counters are refreshed
// only so often: the warm-up is raised, so that each counter is refreshed under
// load before the measure phase, and a tail is added to a short measure phase, so
// that each is refreshed again under the same load.
func PacedPhases(x experiment.Phases, refresh time.Duration) (warmup, tail time.Duration) {
	warmup = max(time.Duration(x.Warmup), time.Duration(warmupRefreshes*float64(refresh)))
	if time.Duration(x.Measure) < shortRefreshes*refresh {
		tail = refresh + ramp
	}
	return warmup, tail
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

// pace fits the schedule of the load to the counters.
func (t *trial) pace() {
	refresh := t.refresh()
	if refresh == 0 {
		return
	}
	warmup, tail := PacedPhases(t.Experiment.Phases, refresh)
	t.profile.Tail = max(t.profile.Tail, tail)
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
	gaps  []gap
}

// gap is a time in which nothing could be read.
type gap struct {
	from, to time.Time // to is zero while it lasts
	why      error
}

// add takes what is new in a look and returns it.
func (h *history) add(l meter.Look, at time.Time) (fresh map[string]result.Reading) {
	if h.tasks == nil {
		h.tasks = map[string][]result.Reading{}
	}
	if l.Gap != nil {
		if n := len(h.gaps); n == 0 || !h.gaps[n-1].to.IsZero() {
			h.gaps = append(h.gaps, gap{from: at, why: l.Gap})
		}
		return nil
	}
	if n := len(h.gaps); n > 0 && h.gaps[n-1].to.IsZero() {
		h.gaps[n-1].to = at
	}
	fresh = map[string]result.Reading{}
	for id, r := range l.Tasks {
		if all := h.tasks[id]; len(all) == 0 || r.At.After(all[len(all)-1].At) {
			h.tasks[id] = append(all, r)
			fresh[id] = r
		}
	}
	if n := len(h.node); l.Node != nil && (n == 0 || l.Node.At.After(h.node[n-1].At)) {
		h.node = append(h.node, *l.Node)
	}
	return fresh
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

// window are the two of times, ascending, that stand for the edges: the last
// before begin that is after loaded, and the last before end; where there is
// none in between, the first after end. -1: there is none.
func window(times []time.Time, loaded, begin, end time.Time) (first, last int) {
	first, last = -1, -1
	for i, at := range times {
		switch {
		case at.Before(loaded):
		case first < 0 || !at.After(begin):
			first = i
		case last < 0 || !at.After(end):
			last = i
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
// says how far they may be off.
func (t *trial) usePaced(first, then []platform.Task) {
	steady := t.clock.steady
	loaded, begin, end := steady(t.profile.Start.Add(ramp)), steady(t.edges.begin), steady(t.edges.end)
	h := &t.sampler.history
	known := map[string]bool{}
	var off offset
	for _, task := range append(slices.Clone(first), then...) {
		if known[task.ID] {
			continue
		}
		known[task.ID] = true
		u := result.TaskUsage{Task: task.Task}
		readings := h.tasks[task.ID]
		i, j := window(timesOf(readings), loaded, begin, end)
		switch {
		case i < 0 || j < 0:
			u.Missing = fmt.Sprintf("its counters were refreshed %d times under load, and not on both sides of the measure phase's beginning", count(readings, loaded))
			if err := t.sampler.last.Missing[task.ID]; err != nil {
				u.Missing = err.Error()
			}
		default:
			u.Start, u.End = readings[i], readings[j]
			off.add(readings, i, j, loaded, begin, end)
			if u.End.CPU < u.Start.CPU {
				u.Missing = "its CPU counter went backwards: it was started again"
			}
		}
		t.record.Tasks = append(t.record.Tasks, u)
	}
	t.usePacedNode(loaded, begin, end)
	if w, ok := off.warning(t.refresh()); ok {
		t.warn(w)
	}
	t.warnGaps(loaded, end)
}

func count(readings []result.Reading, since time.Time) (n int) {
	for _, r := range readings {
		if !r.At.Before(since) {
			n++
		}
	}
	return n
}

func (t *trial) usePacedNode(loaded, begin, end time.Time) {
	node := t.sampler.history.node
	times := make([]time.Time, len(node))
	for i, n := range node {
		times[i] = n.At
	}
	i, j := window(times, loaded, begin, end)
	if i < 0 || j < 0 {
		t.unreadNode(t.sampler.last.NodeErr)
		return
	}
	cpus := cmp.Or(t.sampler.last.NodeCPUs, t.Dir.Environment().CPUs)
	t.record.Node = &result.NodeUsage{CPUs: cpus, Start: node[i], End: node[j]}
}

// offset is how far the readings are from the edges, over all tasks.
type offset struct {
	before, after time.Duration // the worst distances to begin and end, either way
	used, unsure  float64       // CPU between the readings, and how much of it the distance may have wrong; ns
}

// add takes one task. The readings cover other moments than the measure phase: a
// part of its time is not covered, and as much is that lies beside it. What is
// wrong is at most that part, times how much the task's use differed between
// refreshes under the same load.
func (o *offset) add(readings []result.Reading, i, j int, loaded, begin, end time.Time) {
	a, b := readings[i], readings[j]
	o.before, o.after = max(o.before, begin.Sub(a.At).Abs()), max(o.after, end.Sub(b.At).Abs())
	covered := b.At.Sub(a.At)
	if covered <= 0 {
		return
	}
	mean := float64(b.CPU-a.CPU) / float64(covered)
	differs := 0.0
	for k := 1; k < len(readings); k++ {
		was, is := readings[k-1], readings[k]
		if was.At.Before(loaded) || is.At.After(b.At) {
			continue
		}
		differs = max(differs, math.Abs(float64(is.CPU-was.CPU)/float64(is.At.Sub(was.At))-mean))
	}
	beside := float64(begin.Sub(a.At).Abs() + end.Sub(b.At).Abs())
	o.used += float64(b.CPU - a.CPU)
	o.unsure += differs * min(beside, float64(end.Sub(begin))) / float64(end.Sub(begin)) * float64(covered)
}

func (o offset) warning(refresh time.Duration) (result.Warning, bool) {
	if o.used <= 0 {
		return result.Warning{}, false
	}
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	return result.Warning{Code: "counters-paced",
		Message: fmt.Sprintf("counters are refreshed every %v at least: the readings used lie up to %v from the beginning and %v from the end of the measure phase, under the same load; CPU is off by %.1f %% at most, going by how it varied between refreshes",
			refresh, round(o.before), round(o.after), 100*o.unsure/o.used),
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
	steady := t.clock.steady
	for _, task := range t.sampler.tasks {
		i, j := window(timesOf(t.sampler.history.tasks[task.ID]), steady(t.profile.Start.Add(ramp)), steady(t.edges.begin), steady(t.edges.end))
		if i < 0 || j < 0 {
			return false
		}
	}
	return true
}

// measurePaced looks at the counters until the end of the measure phase, and
// beyond it as long as the load goes on, until each was refreshed.
func (t *trial) measurePaced(ctx context.Context) error {
	first := t.sampler.tasks
	if err := t.duringMeasure(ctx, nil); err != nil {
		return err
	}
	if err := t.sampler.look(ctx, meter.Edge); err != nil {
		return err
	}
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
	t.usePaced(first, t.sampler.tasks)
	if err := t.endFaults(ctx); err != nil {
		return err
	}
	return t.broken()
}

// lookPeriod is the time between two looks at every task.
func (t *trial) lookPeriod() time.Duration {
	if r := t.refresh(); r > 0 {
		return max(samplePeriod, r/looksPerRefresh)
	}
	return samplePeriod
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
		if err := await(ctx, time.Now().Add(t.lookPeriod()/2)); err != nil {
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
	if t.refresh() == 0 {
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
