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

// useNearest records for each task the two readings that replace the edges, and warns about their
// distance. begin and end are the readings at the edges themselves, with peaks and restarts.
func (m *measurement) useNearest(first, then []platform.Task, begin, end meter.Look) {
	s := m.span()
	known := map[string]bool{}
	var off, nodes offset
	for _, task := range slices.Concat(first, then, m.sampler.restarted) {
		if known[task.ID] {
			continue
		}
		known[task.ID] = true
		if m.unknown(task) {
			continue
		}
		u, i, j := m.usageOf(task, s, contains(first, task.ID), contains(then, task.ID))
		u.Start, u.End = edged(u.Start, begin.Tasks[task.ID]), edged(u.End, end.Tasks[task.ID])
		switch {
		case i < 0 || j < 0:
		case ofNode(task):
			nodes.add(m.sampler.history.tasks[task.ID], i, j, s)
		default:
			off.add(m.sampler.history.tasks[task.ID], i, j, s)
		}
		m.journal.record.Tasks = append(m.journal.record.Tasks, u)
	}
	m.useNode(s, end)
	if text, ok := off.text(); ok {
		m.journal.warn(result.Warning{Code: "counters-paced", Message: refreshText(m.sampler.refresh()) + text, Hint: measureHint, Metrics: cpus})
	}
	if text, ok := nodes.text(); ok {
		m.journal.warn(result.Warning{Code: "node-paced", Message: nodeRefreshText(m.sampler.nodeRefresh()) + text,
			Hint: measureHint, Metrics: nodeCPUs})
	}
	m.warnGaps(s.loaded, s.end)
}

// unknown reports whether a fault or change started a task that ended before its first reading, such as an init container.
func (m *measurement) unknown(task platform.Task) bool {
	return len(m.sampler.history.tasks[task.ID]) == 0 && contains(m.sampler.restarted, task.ID) && !contains(m.sampler.tasks, task.ID)
}

func contains(tasks []platform.Task, id string) bool {
	return slices.ContainsFunc(tasks, func(t platform.Task) bool { return t.ID == id })
}

// usageOf returns the usage of a task and the indices of its two readings, or -1 for none.
func (m *measurement) usageOf(task platform.Task, s span, atFirst, atLast bool) (u result.TaskUsage, i, j int) {
	u = result.TaskUsage{Task: task.Task}
	readings := m.sampler.history.tasks[task.ID]
	if n := len(readings); replaces(m.setup.Experiment.Faults, m.setup.Experiment.Changes.Kinds, task.Plane) && n > 0 && !(atFirst && atLast) && !ofNode(task) {
		return m.changed(u, readings, s, atFirst, atLast), -1, -1
	}
	i, j = window(timesOf(readings), s)
	switch {
	case !atFirst && !ofNode(task):
		u.Missing = "not read at the beginning: it started during the measure phase"
	case !atLast && !ofNode(task):
		u.Missing = "not read at the end: it ended during the measure phase"
	case i < 0 || j < 0:
		u.Missing = fmt.Sprintf("its counters were refreshed %s under load; two are needed", printable.Counted(count(readings, s), "time"))
		if measure := s.end.Sub(s.begin); ofNode(task) && measure < m.sampler.nodeRefresh() {
			u.Missing += fmt.Sprintf(", and %v measured is less than their refresh interval of up to %v", measure.Round(time.Second), m.sampler.nodeRefresh())
		}
		if err := m.sampler.last.Missing[task.ID]; err != nil {
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
func (m *measurement) changed(u result.TaskUsage, readings []result.Reading, s span, atFirst, atLast bool) result.TaskUsage {
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

func (m *measurement) useNode(s span, end meter.Look) {
	i, j := window(nodeTimes(m.sampler.history.node), s)
	if i < 0 || j < 0 {
		m.journal.nodeUnread(cmp.Or(m.sampler.last.NodeErr, errFewRefreshes))
		return
	}
	node := m.sampler.history.node
	u := &result.NodeUsage{CPUs: cmp.Or(end.NodeCPUs, m.setup.Dir.Environment().CPUs), Start: node[i], End: node[j]}
	for _, n := range end.Nodes {
		readings := m.sampler.history.nodes[n.Name]
		if i, j := window(nodeTimes(readings), s); i >= 0 && j >= 0 {
			u.Nodes = append(u.Nodes, result.MachineUsage{Name: n.Name, CPUs: n.CPUs, AllocatableCPU: n.AllocatableCPU,
				AllocatableMemory: n.AllocatableMemory, Start: readings[i], End: readings[j]})
		}
	}
	m.journal.record.Node = u
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
func (m *measurement) covered() bool {
	s := m.span()
	for _, task := range m.sampler.tasks {
		if i, j := window(timesOf(m.sampler.history.tasks[task.ID]), s); i < 0 || j < 0 {
			return false
		}
	}
	return true
}

// span returns the span of the trial, in its own time.
func (m *measurement) span() span {
	steady := m.setup.clock.steady
	return span{loaded: steady(m.load.profile.Start.Add(ramp)), begin: steady(m.load.edges.begin),
		end: steady(m.load.edges.end), done: steady(m.load.edges.end.Add(m.load.profile.Tail))}
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
func (m *measurement) warnGaps(from, to time.Time) {
	var texts []string
	for _, g := range m.sampler.history.gaps {
		until := cmp.Or(g.to, m.setup.clock.now())
		if until.After(from) && g.from.Before(to) {
			texts = append(texts, fmt.Sprintf("for %v from %s (%v)", until.Sub(g.from).Round(time.Second), g.from.UTC().Format(time.TimeOnly), g.why))
		}
	}
	if texts == nil {
		return
	}
	m.journal.warn(result.Warning{Code: "meter-gap", Message: "the counters could not be read " + strings.Join(texts, "; ") + ". Counters are cumulative: later readings include that time",
		Hint: "check that the API server and the kubelets are reachable", Metrics: cpus})
}
