package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/lists"
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
	return s.setup.Platform.CounterRefresh.NodeRefresh()
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
	return s.setup.Platform.CounterRefresh.Refresh()
}

// refreshed reports whether counters are refreshed at an interval, with times of their own.
func (s *sampler) refreshed() bool { return s.setup.Platform.CounterRefresh != nil }

// history is the readings of counters with a refresh interval: by task, oldest first,
// each refresh once.
type history struct {
	tasks map[string][]result.Reading
	node  []result.NodeReading
	nodes map[string][]result.NodeReading // by name
	gaps  []gap
}

// gap is a time without readings.
type gap struct {
	from, to time.Time // to is zero until it ends
	why      error
}

// slowAnswer is the time of an answer above which it ends a gap: attempts that failed before it are repeated in silence.
const slowAnswer = 10 * time.Second

// add adds the new readings of l and returns them. asked and answered are the times of the
// request and the answer.
func (h *history) add(l meter.Look, asked, answered time.Time) (fresh map[string]result.Reading, nodes map[string]result.NodeReading) {
	if h.tasks == nil {
		h.tasks, h.nodes = map[string][]result.Reading{}, map[string][]result.NodeReading{}
	}
	if l.Gap != nil {
		if n := len(h.gaps); n == 0 || !h.gaps[n-1].to.IsZero() {
			h.gaps = append(h.gaps, gap{from: asked, why: l.Gap})
		}
		return nil, nil
	}
	if n := len(h.gaps); n > 0 && h.gaps[n-1].to.IsZero() {
		h.gaps[n-1].to = answered
	} else if took := answered.Sub(asked); took > slowAnswer {
		h.gaps = append(h.gaps, gap{asked, answered, fmt.Errorf("the answer took %v", took.Round(time.Second))})
	}
	fresh, nodes = map[string]result.Reading{}, map[string]result.NodeReading{}
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
		before := len(h.nodes[m.Name])
		h.nodes[m.Name] = addNode(h.nodes[m.Name], m.Reading)
		if len(h.nodes[m.Name]) > before {
			nodes[m.Name] = m.Reading
		}
	}
	return fresh, nodes
}

func addNode(to []result.NodeReading, r result.NodeReading) []result.NodeReading {
	if n := len(to); n > 0 && !r.At.After(to[n-1].At) {
		return to
	}
	return append(to, r)
}

// cores is the CPU of each plane between the last two refreshes of each of its tasks.
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

// maxMemoryReadings bounds the readings of a task's resident memory in the record.
const maxMemoryReadings = 64

// memoryTraces has the readings of each task's resident memory since it was deployed, by task ID.
type memoryTraces map[string]*memoryTrace

// memoryTrace is a series of readings that are equally far apart. When it is full, every second one is dropped.
type memoryTrace struct {
	readings []result.Reading
	stride   int // readings that were made for each one that is kept
	made     int
}

// add adds readings of resident memory. Other readings have none.
func (m memoryTraces) add(readings map[string]result.Reading) {
	for id, r := range readings {
		if r.RSS <= 0 {
			continue
		}
		if m[id] == nil {
			m[id] = &memoryTrace{stride: 1}
		}
		m[id].add(r)
	}
}

// add keeps the reading if its turn is due. Twice as many are kept as the record has, because the warm-up and the tail
// are left out later.
func (t *memoryTrace) add(r result.Reading) {
	if t.made++; t.made%t.stride != 0 {
		return
	}
	t.readings = append(t.readings, r)
	if len(t.readings) < 2*maxMemoryReadings {
		return
	}
	t.readings, t.stride = everySecond(t.readings), 2*t.stride
}

// keep puts the readings between the two edges into the usage of each task. The last reading of an interleaved task has no
// CPU: it was divided among the slices.
func (m memoryTraces) keep(tasks []result.TaskUsage, interleaved bool) {
	for i := range tasks {
		u := &tasks[i]
		if t := m[u.ID]; t != nil && u.Missing == "" && !u.Ended {
			u.Memory = t.between(u.Start.At, u.End)
			if u.End.Peak > 0 { // the kernel's peak begins again if a reload executes the program again, as HAProxy's does
				u.End.Peak = max(u.End.Peak, u.Start.Peak)
				for _, m := range u.Memory {
					u.End.Peak = max(u.End.Peak, m.RSS)
				}
			}
			if n := len(u.Memory); n > 0 && interleaved {
				u.Memory[n-1].CPU = 0
			}
		}
	}
}

// between returns the readings from the start to the end of the measure phase, with the last one.
func (t *memoryTrace) between(start time.Time, end result.Reading) []result.MemoryReading {
	inside := lists.Where(t.readings, func(r result.Reading) bool { return !r.At.Before(start) && r.At.Before(end.At) })
	for len(inside) >= maxMemoryReadings {
		inside = everySecond(inside)
	}
	if end.RSS > 0 {
		inside = append(inside, end)
	}
	return lists.Map(inside, func(r result.Reading) result.MemoryReading {
		return result.MemoryReading{Seconds: r.At.Sub(start).Seconds(), RSS: r.RSS, CPU: r.CPU}
	})
}

func everySecond(readings []result.Reading) (kept []result.Reading) {
	for i := 1; i < len(readings); i += 2 {
		kept = append(kept, readings[i])
	}
	return kept
}

// memoryByPlane adds up the resident memory of readings, MiB. It is nil without any.
func memoryByPlane(tasks []platform.Task, readings map[string]result.Reading) (sums map[string]float64) {
	for _, t := range tasks {
		if r := readings[t.ID]; r.RSS > 0 {
			if sums == nil {
				sums = map[string]float64{}
			}
			sums[string(t.Plane)] += float64(r.RSS) / (1 << 20)
		}
	}
	return sums
}

// outside follows the CPU of this machine that no process of the run uses: of other programs, of the kernel, and of helpers that
// a treatment has elsewhere. The kernel counts the machine's CPU in ticks, so that single slices are rough.
type outside struct {
	busy meter.Busy // nil: the meter reads no machine
	last int64      // busy time of the machine less the CPU of all tasks, ns
	any  bool
}

func newOutside(m meter.Meter) *outside {
	busy, _ := m.(meter.Busy)
	return &outside{busy: busy}
}

// since returns the CPU outside since the last call. It is not ok at the first call, and where a task or the machine was not read.
func (o *outside) since(looks []meter.Look, tasks [][]platform.Task) (ns int64, ok bool) {
	if o.busy == nil {
		return 0, false
	}
	now, err := o.busy.Busy()
	seen := map[int]bool{} // tare is a task of every trial
	for i, all := range tasks {
		for _, t := range all {
			r, read := looks[i].Tasks[t.ID]
			if !read {
				o.any = false
				return 0, false
			}
			if !seen[t.PID] {
				now -= r.CPU
			}
			seen[t.PID] = true
		}
	}
	ns, ok = now-o.last, o.any && err == nil
	o.last, o.any = now, err == nil
	return ns, ok
}
