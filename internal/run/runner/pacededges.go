package runner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

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
	for _, task := range slices.Concat(first, then, t.sampler.reborn) {
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
	if n := len(readings); len(t.Experiment.Faults) > 0 && n > 0 && !(atFirst && atLast) {
		return t.changed(u, readings, s, atFirst, atLast), -1, -1
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
// One may have come and gone between the edges.
func (t *trial) changed(u result.TaskUsage, readings []result.Reading, s span, atFirst, atLast bool) result.TaskUsage {
	u.Start, u.End = result.Reading{At: s.begin}, readings[len(readings)-1]
	if atLast {
		return u
	}
	u.Ended = true
	if !atFirst {
		u.End.At, u.End.RSS = s.end, 0
		return u
	}
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
		Message: fmt.Sprintf("%s: the readings used lie up to %v from the beginning and %v from the end of the measure phase, under the same load, with %d independent readings or more a task; CPU is off by %.1f %% at most, going by how it varied between refreshes",
			pace(refresh), round(o.before), round(o.after), o.fewest, 100*o.unsure/o.used),
		Hint:    "a longer measure phase makes it less",
		Metrics: cpus}, true
}

// pace says how often counters move. Containers' may be read whenever they are asked for and those of a node's own
// tasks still be refreshed at times of their own.
func pace(refresh time.Duration) string {
	if refresh <= 0 {
		return "containers' counters are read when they are asked for, but not all of a node's own are"
	}
	return fmt.Sprintf("counters are refreshed every %v at least", refresh)
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
