package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// measurement reads every task at both edges of the measure phase, and between them.
type measurement struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	load       *loadRun
	sampler    *sampler
	faults     *faultPhase
	changes    *changePhase
}

// run returns after the measure phase, with the usage of every task in the record: from the readings at the edges or, of counters
// with a refresh interval, from those nearest to the edges.
func (m *measurement) run(ctx context.Context) error {
	control := m.controlTimes(ctx)
	if err := m.sampler.look(ctx, meter.Edge); err != nil {
		return err
	}
	begin, first := m.sampler.last, m.sampler.tasks
	m.sampler.uses = nil // of the warm-up
	from, depth := &begin, meter.Full
	if m.sampler.refreshed() {
		from, depth = nil, meter.Edge
	}
	if err := m.duringMeasure(ctx, from); err != nil {
		return err
	}
	if err := m.sampler.look(ctx, depth); err != nil {
		return err
	}
	end, then := m.sampler.last, m.sampler.tasks
	m.journal.record.ControlTimes = timesBetween(control, m.controlTimes(ctx))
	after := m.sampler.connected
	if m.sampler.refreshed() {
		after = m.awaitRefresh
	}
	if err := after(ctx); err != nil {
		return err
	}
	if m.sampler.refreshed() {
		m.useNearest(first, then, begin, end)
	} else {
		m.useEdges(first, begin, then, end)
	}
	m.visits()
	return m.faults.end(ctx)
}

// awaitRefresh reads counters in the tail until each was refreshed.
func (m *measurement) awaitRefresh(ctx context.Context) error {
	last := m.load.edges.end.Add(m.load.profile.Tail)
	for next := time.Now(); !m.covered() && next.Before(last); {
		next = next.Add(m.sampler.period())
		if err := await(ctx, next); err != nil {
			return err
		}
		if err := m.sampler.look(ctx, meter.Edge); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) duringMeasure(ctx context.Context, begin *meter.Look) error {
	m.faults.plan()
	if err := m.changes.plan(); err != nil {
		return err
	}
	tasks := slices.Clone(m.sampler.listed)
	// The concurrency of a trial is here, a line each.
	group, during := errgroup.WithContext(ctx)
	group.Go(routine.Guarded(func() error { return m.load.healthy(during, m.load.edges.end) }))
	group.Go(routine.Guarded(func() error { return m.until(during, m.load.edges.end, begin) }))
	group.Go(routine.Guarded(func() error { return m.faults.timeline.Run(during, m.load.edges.begin, m.load.edges.end) }))
	group.Go(routine.Guarded(func() error { return m.changes.run(during, tasks) }))
	group.Go(routine.Guarded(func() error { return m.changes.background(during) }))
	return group.Wait()
}

// until samples once a second until the edge. Its caller reads the edge. It lists the tasks again
// shortly before. Seconds count from the reading at begin, if there is one.
func (m *measurement) until(ctx context.Context, edge time.Time, begin *meter.Look) error {
	from, period := time.Now(), m.sampler.period()
	if begin != nil {
		from = m.load.edges.begin
	}
	listAt := edge.Add(-listLead)
	for next := from.Add(period); next.Before(listAt); next = next.Add(period) {
		if err := await(ctx, next); err != nil {
			return err
		}
		if begin == nil {
			if err := broken(m.deployment); err != nil {
				return err
			}
			if err := m.sampler.relist(ctx); err != nil {
				return err
			}
		}
		if err := m.sampler.look(ctx, meter.Counters); err != nil {
			return err
		}
	}
	if err := await(ctx, listAt); err != nil {
		return err
	}
	if err := m.sampler.list(ctx); err != nil {
		return err
	}
	if begin == nil {
		if err := m.sampler.connected(ctx); err != nil {
			return err
		}
	}
	if err := m.load.loading.early(m.load.edges.end); err != nil {
		return err
	}
	return await(ctx, edge)
}

// broken returns the error of a deployment that can no longer be measured.
func broken(d *platform.Deployment) error {
	err := d.Broken()
	if err == nil {
		return nil
	}
	code := "task-died"
	if lost, ok := errors.AsType[*platform.Lost](err); ok {
		code = lost.Code
	}
	return unusable(code, err.Error(), hint.Of(err))
}

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
	u.End = result.Reading{At: m.setup.clock.steady(m.load.edges.end), CPU: int64(e.CPU), Peak: u.Start.Peak, PSS: new(int64(0)),
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

// visits records the tasks of others that came and went within the measure phase. Their CPU
// is unknown, and the sums do not contain it. Those of the cluster and of other workloads are a warning. Others may be
// parts of a mesh, and invalidate the trial.
func (m *measurement) visits() {
	if m.deployment.Visitors == nil {
		return
	}
	// Tasks were listed a moment before the edge at the beginning.
	all := m.deployment.Visitors(m.load.edges.begin.Add(-listLead), m.load.edges.end)
	all = slices.DeleteFunc(all, func(v platform.Visitor) bool { // changes started it
		return slices.ContainsFunc(m.load.journal.record.Tasks, func(t result.TaskUsage) bool { return t.ID == v.Name })
	})
	unknown := lists.Where(all, func(v platform.Visitor) bool { return !v.System })
	w := result.Warning{Code: "came-and-went", Hint: "find the workload, Job or CronJob that starts it, and suspend it during the run"}
	if len(unknown) > 0 {
		w.Invalidates, w.Message = true, visitText(unknown)
	} else if len(all) > 0 {
		w.Message = visitText(all)
	} else {
		return
	}
	m.load.journal.warn(w)
}

// visitText names at most four visitors.
func visitText(all []platform.Visitor) string {
	return "containers were started and ended in the measure phase, and their CPU is in no sum: " + printable.Listed(lists.Map(all, func(v platform.Visitor) string {
		return fmt.Sprintf("%s (for %v)", v.Name, v.Ended.Sub(v.Began).Round(100*time.Millisecond))
	}), 4)
}

// controlTimes reads what the control plane counts of its own stages, in trials with changes. It runs outside the edges, so that its cost
// is not measured. A reading that fails leaves the times unknown.
func (m *measurement) controlTimes(ctx context.Context) []mesh.CountedTime {
	changes := m.setup.Experiment.Changes.Count > 0 || m.setup.treatment.Levels.BackgroundChanges > 0
	if !changes || m.deployment.ControlTimes == nil {
		return nil
	}
	all, err := m.deployment.ControlTimes(ctx)
	if err != nil {
		return nil
	}
	return all
}

// timesBetween returns the times counted from a reading to the next. A stage is absent if a process ended or started between, or
// if nothing was counted.
func timesBetween(begin, end []mesh.CountedTime) (all []result.ControlTime) {
	type key struct{ stage, instance string }
	before := map[key]mesh.CountedTime{}
	for _, b := range begin {
		before[key{b.Stage, b.Instance}] = b
	}
	of, within := map[string]*result.ControlTime{}, map[string]map[float64]int64{}
	var stages []string
	for _, e := range end {
		b, has := before[key{e.Stage, e.Instance}]
		if !has {
			return nil
		}
		delete(before, key{e.Stage, e.Instance})
		if of[e.Stage] == nil {
			of[e.Stage], within[e.Stage] = &result.ControlTime{Stage: e.Stage}, map[float64]int64{}
			stages = append(stages, e.Stage)
		}
		of[e.Stage].Count += e.Count - b.Count
		of[e.Stage].Seconds += e.Seconds - b.Seconds
		for bound, n := range e.Within {
			within[e.Stage][bound] += n - b.Within[bound]
		}
	}
	if len(before) > 0 {
		return nil
	}
	for _, stage := range stages {
		t := of[stage]
		if t.Count <= 0 {
			continue
		}
		var below int64
		for _, bound := range slices.SortedFunc(maps.Keys(within[stage]), cmp.Compare[float64]) {
			n := within[stage][bound]
			t.Buckets = append(t.Buckets, result.TimeBucket{UpTo: bound, Count: n - below})
			below = n
		}
		all = append(all, *t)
	}
	return all
}
