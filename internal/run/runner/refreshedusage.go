package runner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// span is the time of the load at its rate, and the measure phase within it.
type span struct{ loaded, begin, end, done time.Time }

// refreshedUsage records what each task used, from the counter readings nearest to the edges.
type refreshedUsage struct {
	setup   *setup
	journal *journal
	load    *loadRun
	sampler *sampler
}

// use records for each task the two readings that replace the edges, and warns about their
// distance. begin and end are the readings at the edges themselves, with peaks and restarts.
func (ru *refreshedUsage) use(first, then []platform.Task, begin, end meter.Look) {
	s := ru.span()
	known := map[string]bool{}
	var off, nodes offset
	for _, task := range slices.Concat(first, then, ru.sampler.restarted) {
		if known[task.ID] {
			continue
		}
		known[task.ID] = true
		if ru.unknown(task) {
			continue
		}
		u, i, j := ru.usageOf(task, s, contains(first, task.ID), contains(then, task.ID))
		u.Start, u.End = edged(u.Start, begin.Tasks[task.ID]), edged(u.End, end.Tasks[task.ID])
		switch {
		case i < 0 || j < 0:
		case ofNode(task):
			nodes.add(ru.sampler.history.tasks[task.ID], i, j, s)
		default:
			off.add(ru.sampler.history.tasks[task.ID], i, j, s)
		}
		ru.journal.record.Tasks = append(ru.journal.record.Tasks, u)
	}
	ru.useNode(s, end)
	if text, ok := off.text(); ok {
		ru.journal.warn(result.Warning{Code: "counters-paced", Message: refreshText(ru.sampler.refresh()) + text, Hint: measureHint, Metrics: cpus})
	}
	if text, ok := nodes.text(); ok {
		ru.journal.warn(result.Warning{Code: "node-paced", Message: nodeRefreshText(ru.sampler.nodeRefresh()) + text,
			Hint: measureHint, Metrics: nodeCPUs})
	}
	ru.warnGaps(s.loaded, s.end)
}

// unknown reports whether a fault or change started a task that ended before its first reading, such as an init container.
func (ru *refreshedUsage) unknown(task platform.Task) bool {
	return len(ru.sampler.history.tasks[task.ID]) == 0 && contains(ru.sampler.restarted, task.ID) && !contains(ru.sampler.tasks, task.ID)
}

func contains(tasks []platform.Task, id string) bool {
	return slices.ContainsFunc(tasks, func(t platform.Task) bool { return t.ID == id })
}

// usageOf returns the usage of a task and the indices of its two readings, or -1 for none.
func (ru *refreshedUsage) usageOf(task platform.Task, s span, atFirst, atLast bool) (u result.TaskUsage, i, j int) {
	u = result.TaskUsage{Task: task.Task}
	readings := ru.sampler.history.tasks[task.ID]
	if n := len(readings); replaces(ru.setup.Experiment.Faults, ru.setup.Experiment.Changes.Kinds, task.Plane) && n > 0 && !(atFirst && atLast) && !ofNode(task) {
		return ru.changed(u, readings, s, atFirst, atLast), -1, -1
	}
	i, j = window(timesOf(readings), s)
	switch {
	case !atFirst && !ofNode(task):
		u.Missing = "not read at the beginning: it started during the measure phase"
	case !atLast && !ofNode(task):
		u.Missing = "not read at the end: it ended during the measure phase"
	case i < 0 || j < 0:
		u.Missing = fmt.Sprintf("its counters were refreshed %s under load; two are needed", printable.Counted(count(readings, s), "time"))
		if measure := s.end.Sub(s.begin); ofNode(task) && measure < ru.sampler.nodeRefresh() {
			u.Missing += fmt.Sprintf(", and %v measured is less than their refresh interval of up to %v", measure.Round(time.Second), ru.sampler.nodeRefresh())
		}
		if err := ru.sampler.last.Missing[task.ID]; err != nil {
			u.Missing = err.Error()
		}
	default:
		u.Start, u.End = readings[i], readings[j]
		if u.End.CPU < u.Start.CPU {
			u.Missing = "its CPU counter decreased: the task was restarted"
		}
	}
	return u, i, j
}

// ofNode reports whether a node itself has the task, outside its pods. If such a task cannot be read,
// the trial is valid, and CPU of its nodes is unknown.
func ofNode(task platform.Task) bool { return task.Plane == metric.Node }

// changed is the usage of a task that a fault or change ended, up to its last reading, or of one that
// replaced it and began at 0. Both may happen between the edges.
func (ru *refreshedUsage) changed(u result.TaskUsage, readings []result.Reading, s span, atFirst, atLast bool) result.TaskUsage {
	if !atLast { // a pod of the same name may answer before it is listed as another task
		for i := 1; i < len(readings); i++ {
			if readings[i].CPU < readings[i-1].CPU {
				readings = readings[:i]
			}
		}
	}
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

// edged adds the values read at the edge to the reading that replaces it.
func edged(r, edge result.Reading) result.Reading {
	r.Peak, r.Throttled, r.Periods, r.Reached, r.Restarts, r.OOMKills = max(r.Peak, edge.Peak), edge.Throttled, edge.Periods, edge.Reached, edge.Restarts, edge.OOMKills
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

func (ru *refreshedUsage) useNode(s span, end meter.Look) {
	i, j := window(nodeTimes(ru.sampler.history.node), s)
	if i < 0 || j < 0 {
		ru.journal.nodeUnread(cmp.Or(ru.sampler.last.NodeErr, errFewRefreshes))
		return
	}
	node := ru.sampler.history.node
	u := &result.NodeUsage{CPUs: cmp.Or(end.NodeCPUs, ru.setup.Dir.Environment().CPUs), Start: node[i], End: node[j]}
	for _, m := range end.Nodes {
		readings := ru.sampler.history.nodes[m.Name]
		if i, j := window(nodeTimes(readings), s); i >= 0 && j >= 0 {
			u.Nodes = append(u.Nodes, result.MachineUsage{Name: m.Name, CPUs: m.CPUs, AllocatableCPU: m.AllocatableCPU,
				AllocatableMemory: m.AllocatableMemory, Start: readings[i], End: readings[j]})
		}
	}
	ru.journal.record.Node = u
}

var errFewRefreshes = errors.New("its counters were not refreshed twice under load")

func nodeTimes(readings []result.NodeReading) []time.Time {
	times := make([]time.Time, len(readings))
	for i, r := range readings {
		times[i] = r.At
	}
	return times
}

// covered reports whether every task has a reading for each edge. The tail is
// long enough for the nodes' own tasks, unless the measure phase is too short for them.
func (ru *refreshedUsage) covered() bool {
	s := ru.span()
	for _, task := range ru.sampler.tasks {
		if i, j := window(timesOf(ru.sampler.history.tasks[task.ID]), s); i < 0 || j < 0 {
			return false
		}
	}
	return true
}

// span returns the span of the trial, in its own time.
func (ru *refreshedUsage) span() span {
	steady := ru.setup.clock.steady
	return span{loaded: steady(ru.load.profile.Start.Add(ramp)), begin: steady(ru.load.edges.begin),
		end: steady(ru.load.edges.end), done: steady(ru.load.edges.end.Add(ru.load.profile.Tail))}
}

// window returns the indices of the two times, ascending, that replace the edges: the pair under
// load nearest to both edges. Of equal pairs it takes the later start and the earlier end. -1: no
// pair.
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

// warnGaps warns about times under load without readings.
func (ru *refreshedUsage) warnGaps(from, to time.Time) {
	var texts []string
	for _, g := range ru.sampler.history.gaps {
		until := cmp.Or(g.to, ru.setup.clock.now())
		if until.After(from) && g.from.Before(to) {
			texts = append(texts, fmt.Sprintf("for %v from %s (%v)", until.Sub(g.from).Round(time.Second), g.from.UTC().Format(time.TimeOnly), g.why))
		}
	}
	if texts == nil {
		return
	}
	ru.journal.warn(result.Warning{Code: "meter-gap", Message: "the counters could not be read " + strings.Join(texts, "; ") + ". Counters are cumulative: later readings include that time",
		Hint: "check that the API server and the kubelets are reachable", Metrics: cpus})
}
