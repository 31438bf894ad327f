package runner

import (
	"errors"
	"slices"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// useEdges records the usage of every task between the readings at the edges.
func (m *measurement) useEdges(first []platform.Task, begin meter.Look, then []platform.Task, end meter.Look) {
	known, ended := map[string]bool{}, m.endedTasks()
	reloaded := m.setup.Experiment.Changing()
	for _, task := range append(append([]platform.Task{}, first...), then...) {
		if known[task.ID] {
			continue
		}
		known[task.ID] = true
		if e, ok := ended[task.ID]; ok {
			m.journal.record.Tasks = append(m.journal.record.Tasks, m.departed(e, begin))
			continue
		}
		u := result.TaskUsage{Task: task.Task, Start: begin.Tasks[task.ID], End: end.Tasks[task.ID], IdleRSS: m.journal.idle[task.ID]}
		if task.Restarted {
			u.Start = m.atStart(task.ID, begin)
		}
		if u.Missing = missing(task, u, begin, end); u.Missing != "" && reloaded && task.Parent {
			if m.replaced(&u, begin, end) {
				continue
			}
		}
		m.journal.record.Tasks = append(m.journal.record.Tasks, u)
	}
	for _, e := range ended {
		if !known[e.ID] {
			m.journal.record.Tasks = append(m.journal.record.Tasks, m.departed(e, begin))
		}
	}
	if begin.Node != nil && end.Node != nil {
		m.outside(begin, end)
		m.journal.record.Node = &result.NodeUsage{CPUs: m.setup.Dir.Environment().CPUs, Start: *begin.Node, End: *end.Node}
		return
	}
	m.journal.nodeUnread(errors.Join(begin.NodeErr, end.NodeErr))
}

// replaced completes the usage of a process that another one of its parent replaced during the load, as a reload does. What it used
// at the beginning is a part of its parent's from then on. It reports whether the process has ended.
func (m *measurement) replaced(u *result.TaskUsage, begin, end meter.Look) (gone bool) {
	if _, atEnd := end.Tasks[u.ID]; atEnd {
		u.Start, u.Missing = m.atStart(u.ID, begin), ""
		return false
	}
	tasks := m.journal.record.Tasks
	i := slices.IndexFunc(tasks, func(t result.TaskUsage) bool { return t.Pod == u.Pod && t.Container == u.Container && t.Missing == "" })
	if i >= 0 {
		tasks[i].Start.CPU += u.Start.CPU
		tasks[i].Reloaded += u.Start.CPU
	}
	return i >= 0
}

// outside records the CPU of this machine that no task used. Of slices the reader of slices records it.
func (m *measurement) outside(begin, end meter.Look) {
	if _, here := m.setup.Meter.(meter.Busy); !here || m.load.inRound != nil {
		return
	}
	ns := end.Node.Busy - begin.Node.Busy
	for _, t := range m.journal.record.Tasks {
		if t.Missing != "" {
			return
		}
		ns -= t.End.CPU - t.Start.CPU
	}
	m.journal.record.Outside = &ns
}

func (m *measurement) endedTasks() map[string]platform.Ended {
	ended := map[string]platform.Ended{}
	if m.deployment.Ended == nil {
		return ended
	}
	for _, e := range m.deployment.Ended() {
		ended[e.ID] = e
	}
	return ended
}

// departed is the usage of a task that a fault ended. Its last counters count as those at the end
// of the measure phase.
func (m *measurement) departed(e platform.Ended, begin meter.Look) result.TaskUsage {
	u := result.TaskUsage{Task: e.Task.Task, Ended: true, Start: begin.Tasks[e.ID]}
	if e.Restarted {
		u.Start = m.atStart(e.ID, begin)
	} else if _, ok := begin.Tasks[e.ID]; !ok {
		u.Missing = "not read at the beginning, and ended by a fault"
	}
	none := int64(0)
	u.End = result.Reading{At: m.setup.clock.steady(m.load.edges.end), CPU: int64(e.CPU), Peak: u.Start.Peak, PSS: &none,
		Voluntary: e.Voluntary, Involuntary: e.Involuntary}
	// The kernel reports the total of an ended process in microseconds, and the clock at
	// the beginning is in nanoseconds. An idle process must not get a negative usage.
	u.End.CPU = max(u.End.CPU, u.Start.CPU)
	if u.End.At.Before(u.Start.At) { // tare was late by more than the measure phase
		u.End.At = u.Start.At
	}
	return u
}

// atStart is the first reading of a task that replaced another: 0 at the start of the phase,
// unless it already ran.
func (m *measurement) atStart(id string, begin meter.Look) result.Reading {
	if r, ok := begin.Tasks[id]; ok {
		return r
	}
	return result.Reading{At: m.setup.clock.steady(m.load.edges.begin)}
}

// missing is the reason for a missing difference of a task's counters, "" if there is a
// difference.
func missing(task platform.Task, u result.TaskUsage, begin, end meter.Look) string {
	id := task.ID
	_, atBegin := begin.Tasks[id]
	_, atEnd := end.Tasks[id]
	why := func(l meter.Look, otherwise string) string {
		if err := l.Missing[id]; err != nil {
			return err.Error()
		}
		return otherwise
	}
	switch {
	case !atBegin && !task.Restarted:
		return "not read at the beginning: " + why(begin, "it started during the measure phase")
	case !atEnd:
		return "not read at the end: " + why(end, "it ended during the measure phase")
	case u.End.CPU < u.Start.CPU:
		return "its CPU counter decreased: another process has its PID"
	}
	return ""
}
