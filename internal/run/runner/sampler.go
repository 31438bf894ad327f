package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// samplePeriod is the time between two readings of every task.
	samplePeriod = time.Second
	// watchPeriod is the time between two checks for a dead task or an ended generator.
	watchPeriod = 100 * time.Millisecond
	// listLead is the time from the listing of tasks to the edge. Listing reads every
	// process of the machine and must not delay the reading at the edge.
	listLead = 250 * time.Millisecond
)

// sampler reads the tasks of a trial.
type sampler struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment

	listed []platform.Task // by the deployment
	tasks  []platform.Task // listed, and found by the meter
	last   meter.Look
	any    bool  // last is a reading
	uses   []use // between the readings of the measure phase, without uses from counters with a refresh interval
	// history has the readings of counters with a refresh interval.
	history history
	// restarted are the tasks that replaced ended ones or can have, even if they have ended themselves.
	restarted []platform.Task
	// clocks are the CPU times of all tasks, ended ones too.
	clocks lastClocks
	// shown are the tasks that a sample listed, and machines reports whether one had the nodes.
	shown    map[string]bool
	machines bool
}

// lastClocks have the last CPU time that was read of each task.
type lastClocks struct {
	mu    sync.Mutex
	tasks map[string]lastClock
}

type lastClock struct {
	plane metric.Plane
	ns    int64
}

func (l *lastClocks) add(tasks []platform.Task, look meter.Look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks == nil {
		l.tasks = map[string]lastClock{}
	}
	for _, t := range tasks {
		if r, read := look.Tasks[t.ID]; read {
			l.tasks[t.ID] = lastClock{t.Plane, max(r.CPU, l.tasks[t.ID].ns)}
		}
	}
}

// byPlane are the sums of each plane, in nanoseconds.
func (l *lastClocks) byPlane() map[metric.Plane]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[metric.Plane]int64{}
	for _, t := range l.tasks {
		all[t.plane] += t.ns
	}
	return all
}

// reset forgets all tasks and readings, and history replaces its own.
func (s *sampler) reset(history history) {
	*s = sampler{setup: s.setup, journal: s.journal, deployment: s.deployment, history: history}
}

// connected checks who is connected to the applications, and keeps the last or the first failed result of each check. It
// takes 10 ms and more, so it precedes or follows the readings at an edge.
func (s *sampler) connected(ctx context.Context) error {
	if s.deployment.CheckConnections == nil {
		return nil
	}
	checks, err := s.deployment.CheckConnections(ctx, s.listed)
	if err != nil {
		return err
	}
	record := &s.journal.record
	for _, c := range checks {
		i := slices.IndexFunc(record.Checks, func(o check.Check) bool { return o.Name == c.Name })
		switch {
		case i < 0:
			record.Checks = append(record.Checks, c)
		case record.Checks[i].OK:
			record.Checks[i] = c
		default:
			continue // it has failed before
		}
		if !c.OK { // the trial goes on: the counters of requests may locate the cause
			s.journal.warn(result.Warning{Code: "verify-failed", Message: c.Name + ": " + c.Detail, Hint: c.Hint, Invalidates: true})
		}
	}
	return nil
}

// look reads every task and emits the sample. Its times are the trial's.
func (s *sampler) look(ctx context.Context, depth meter.Depth) error {
	asked := s.setup.clock.now()
	now, err := s.setup.Meter.Read(ctx, s.listed, depth)
	if err != nil {
		return fmt.Errorf("read the meters: %w", err)
	}
	s.tasks = append(slices.Clone(s.listed), now.Found...)
	for id, r := range now.Tasks {
		r.At = s.setup.clock.steady(r.At)
		now.Tasks[id] = r
	}
	sample := &result.Sample{Tasks: now.Tasks}
	if now.Node != nil {
		now.Node.At = s.setup.clock.steady(now.Node.At)
		sample.Node = *now.Node
	}
	for i := range now.Nodes {
		now.Nodes[i].Reading.At = s.setup.clock.steady(now.Nodes[i].Reading.At)
	}
	s.describe(sample, now)
	s.clocks.add(s.tasks, now)
	if s.refreshed() {
		// Readings without a refresh are not emitted: they are not further observations.
		sample.Tasks, sample.Nodes = s.history.add(now, asked, s.setup.clock.now())
		if len(sample.Tasks)+len(sample.Nodes)+len(sample.Listed) == 0 {
			s.last, s.any = now, true
			return nil
		}
		sample.Cores = s.history.cores(s.tasks)
	} else if s.any {
		sample.Cores = coresByPlane(s.tasks, s.last, now)
		s.addUse(s.last, now)
	}
	if len(now.Nodes) > 0 && !s.refreshed() {
		sample.Nodes = map[string]result.NodeReading{}
		for _, m := range now.Nodes {
			sample.Nodes[m.Name] = m.Reading
		}
	}
	s.last, s.any = now, true
	sample.Memory = memoryByPlane(s.tasks, sample.Tasks)
	s.journal.memory.add(sample.Tasks)
	s.journal.emit(result.Event{Kind: result.KindSample, Sample: sample})
	return nil
}

// describe lists the tasks and nodes of a cluster that no earlier sample listed: a live view needs their planes and
// capacity before the record has them.
func (s *sampler) describe(sample *result.Sample, now meter.Look) {
	if !slices.ContainsFunc(s.tasks, func(t platform.Task) bool { return t.Namespace != "" }) {
		return
	}
	if s.shown == nil {
		s.shown = map[string]bool{}
	}
	for _, t := range s.tasks {
		if !s.shown[t.ID] {
			s.shown[t.ID] = true
			sample.Listed = append(sample.Listed, t.Task)
		}
	}
	if !s.machines {
		for _, m := range now.Nodes {
			memory := float64(m.AllocatableMemory)
			sample.Machines = append(sample.Machines, result.SampledNode{Name: m.Name, AllocatableCores: &m.AllocatableCPU, AllocatableMemory: &memory})
		}
		s.machines = len(now.Nodes) > 0
	}
}

// addUse adds the use of the compared tasks between two readings.
func (s *sampler) addUse(before, after meter.Look) {
	var u use
	if n := len(s.uses); n > 0 {
		u.at = s.uses[n-1].at + s.uses[n-1].time
	}
	for _, task := range s.tasks {
		b, ok := before.Tasks[task.ID]
		a, ok2 := after.Tasks[task.ID]
		if ok && ok2 && compared(task.Plane) {
			u.ns += a.CPU - b.CPU
			u.time = max(u.time, a.At.Sub(b.At))
		}
	}
	if u.time > 0 {
		s.uses = append(s.uses, u)
	}
}

// bursts finds the bursts between the readings of the measure phase.
func (s *sampler) bursts() *burstsSeen {
	var cost int64
	var over time.Duration
	for _, u := range s.uses {
		cost, over = cost+u.ns, over+u.time
	}
	return burstsIn(s.uses, cost, over)
}

// nodeRefresh is the refresh interval of the counters of nodes outside their pods.
func (s *sampler) nodeRefresh() time.Duration {
	if !s.refreshed() {
		return 0
	}
	return s.deployment.CounterRefresh.NodeRefresh()
}

// relist lists the tasks again if faults or changes end and replace them.
func (s *sampler) relist(ctx context.Context) error {
	faults, changes := s.setup.Experiment.Faults, s.setup.Experiment.Changes.Kinds
	replaced := func(p metric.Plane) bool { return replaces(faults, changes, p) }
	if !s.refreshed() || len(faults) == 0 && !slices.ContainsFunc(metric.Planes(), replaced) {
		return nil
	}
	if err := s.list(ctx); err != nil {
		return err
	}
	for _, task := range s.listed {
		if (task.Restarted || replaced(task.Plane)) && !contains(s.restarted, task.ID) {
			s.restarted = append(s.restarted, task)
		}
	}
	return nil
}

func (s *sampler) list(ctx context.Context) error {
	tasks, err := s.deployment.Tasks(ctx)
	if err != nil {
		return err
	}
	s.listed = tasks
	s.tasks = append(slices.Clone(tasks), s.last.Found...)
	return nil
}

// period is the time between two readings of every task.
func (s *sampler) period() time.Duration {
	return max(samplePeriod, s.refresh()/readsPerRefresh)
}

// refresh is the refresh interval of the counters, 0 if each reading is current.
func (s *sampler) refresh() time.Duration {
	if !s.refreshed() {
		return 0
	}
	return s.deployment.CounterRefresh.Refresh()
}

// refreshed reports whether counters are refreshed at an interval, with times of their own.
func (s *sampler) refreshed() bool { return s.deployment.CounterRefresh != nil }
