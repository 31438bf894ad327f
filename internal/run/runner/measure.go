package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load/loadgen"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// samplePeriod is the time between two looks at every task.
	samplePeriod = time.Second
	// watchPeriod is how soon a task that died, or a generator that ended, is noticed.
	watchPeriod = 100 * time.Millisecond
	// listLead is how long before an edge the tasks are listed: listing reads every
	// process of the machine and must not stand between the edge and its reading.
	listLead = 250 * time.Millisecond
)

// edges are the two moments at which counters are read.
type edges struct {
	begin, end time.Time // with their monotonic readings
	// drift of the wall clock when the generator was told its schedule, and at the begin.
	told, began time.Duration
}

// warmUp starts the load and waits for the first edge. The edges follow from
// the instant at which the schedule begins, on the monotonic clock.
func (t *trial) warmUp(ctx context.Context) error {
	var err error
	if t.generator, err = t.generatorOf(t.treatment); err != nil {
		return err
	}
	if err := t.probe(ctx, func(p *result.Probe, r *probe.Reading) { p.Before = r }); err != nil {
		return err
	}
	t.countMesh(ctx, -1)
	if err := t.schedule(); err != nil {
		return err
	}
	t.longer()
	t.edges.told = t.clock.drift()
	if t.loading, err = startLoad(ctx, t.deployment, t.generator, t.profile, t.heard); err != nil {
		return err
	}
	t.profile.Start = t.loading.start
	t.edges.begin = t.profile.Start.Add(t.profile.Warmup)
	t.edges.end = t.edges.begin.Add(t.profile.Measure)
	if err := t.keepProfile(); err != nil {
		return err
	}
	t.sampler = sampler{trial: t, history: t.sampler.history}
	if err := t.sampler.list(ctx); err != nil {
		return err
	}
	return t.until(ctx, t.edges.begin, nil)
}

// schedule makes the load profile. The generator gets a time of the wall clock
// to start at, or, where it begins when its process does, none.
func (t *trial) schedule() error {
	hdr, err := filepath.Abs(t.dir.Path(result.LatencyFile))
	if err != nil {
		return fmt.Errorf("find latency file: %w", err)
	}
	levels := t.treatment.Levels
	t.profile = profileOf(t.Experiment, levels, t.generator, t.Timing.Tail)
	t.profile.Protocol = t.entryProtocol()
	if loadWorkers(t.deployment) > 0 {
		t.profile.Workers = 1 // each has one thread
	}
	t.pace()
	t.profile.Targets, t.profile.ExpectSize, t.profile.Seed, t.profile.HDRPath = t.deployment.Entry(), t.answerSize(), t.of.Seed, hdr
	if !needs(t.generator).AtOnce {
		t.profile.Start = time.Now().Add(t.Timing.Lead + time.Duration(levels.Connections)*time.Millisecond)
	}
	return nil
}

// keepProfile keeps the load as it was, among the trial's provenance.
func (t *trial) keepProfile() error {
	b, err := json.MarshalIndent(t.profile, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(t.dir.Provenance(), "load-profile.json"), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write load profile: %w", err)
	}
	return nil
}

// entryProtocol is what the entry speaks, the treatment's where it does not say.
func (t *trial) entryProtocol() string {
	entry, _ := t.topology.Service(t.topology.Entry)
	return cmp.Or(entry.Protocol, t.treatment.Levels.Protocol)
}

// answerSize is the size every answer must have, bytes; negative: any, as where
// statuses are expected that may come without the service's answer.
func (t *trial) answerSize() int64 {
	entry, ok := t.topology.Service(t.topology.Entry)
	other := slices.ContainsFunc(t.profile.ExpectStatus, func(s string) bool { return s[0] != '2' && s != "grpc-0" })
	if !ok || other || t.entryProtocol() == app.TCP {
		return -1 // an echo is as long as what was sent
	}
	return t.topology.AnswerSize(entry, int64(t.treatment.Levels.ResponseSize))
}

// measure reads every task at both edges, and once a second between.
func (t *trial) measure(ctx context.Context) error {
	t.edges.began = t.clock.drift()
	if t.paced() {
		return t.measurePaced(ctx)
	}
	stages := t.stageTimes(ctx)
	if err := t.sampler.look(ctx, meter.Edge); err != nil {
		return err
	}
	begin, tasks := t.sampler.last, t.sampler.tasks
	if err := t.duringMeasure(ctx, &begin); err != nil {
		return err
	}
	if err := t.sampler.look(ctx, meter.Full); err != nil {
		return err
	}
	t.use(tasks, begin, t.sampler.tasks, t.sampler.last)
	t.keepStages(stages, t.stageTimes(ctx))
	if err := t.endFaults(ctx); err != nil {
		return err
	}
	return t.broken()
}

// duringMeasure returns at the end of the measure phase.
func (t *trial) duringMeasure(ctx context.Context, begin *meter.Look) error {
	if err := t.planFaults(); err != nil {
		return err
	}
	// All that happens at once in a trial happens here, a line each.
	group, during := errgroup.WithContext(ctx)
	group.Go(func() error { return t.healthy(during, t.edges.end) })
	group.Go(func() error { return t.until(during, t.edges.end, begin) })
	group.Go(func() error { return t.faults.Run(during, t.edges.begin, t.edges.end) })
	return group.Wait()
}

// drain waits for the generator, which keeps up the load for a little while and then collects what is in flight.
func (t *trial) drain(ctx context.Context) error {
	deadline := t.edges.end.Add(t.profile.Tail + t.profile.Drain + t.profile.Timeout + t.Timing.Overtime)
	var err error
	l, err := t.loading.wait(ctx, deadline)
	if err != nil {
		return err
	}
	if err := t.loading.early(t.edges.end); err != nil { // in the last moments of the measure phase nobody looked
		return err
	}
	t.foreign(&l)
	t.record.Load = &l
	t.mergeMeasured()
	t.seen.stepped = t.clock.drift()
	t.countMesh(ctx, 1)
	if err := t.calm(ctx); err != nil {
		return err
	}
	if err := t.probe(ctx, func(p *result.Probe, r *probe.Reading) { p.After = r }); err != nil {
		return err
	}
	return t.broken()
}

// until samples once a second until the edge, which it leaves to its caller. The
// tasks are listed anew shortly before it; the look at begin, where there is
// one, is where the seconds are counted from.
func (t *trial) until(ctx context.Context, edge time.Time, begin *meter.Look) error {
	from, period := time.Now(), t.lookPeriod()
	if begin != nil {
		from = t.edges.begin
	}
	listAt := edge.Add(-listLead)
	for next := from.Add(period); next.Before(listAt); next = next.Add(period) {
		if err := await(ctx, next); err != nil {
			return err
		}
		if begin == nil {
			if err := t.broken(); err != nil {
				return err
			}
			if err := t.relist(ctx); err != nil {
				return err
			}
		}
		if err := t.sampler.look(ctx, meter.Counters); err != nil {
			return err
		}
	}
	if err := await(ctx, listAt); err != nil {
		return err
	}
	if err := t.sampler.list(ctx); err != nil {
		return err
	}
	if err := t.loading.early(t.edges.end); err != nil {
		return err
	}
	return await(ctx, edge)
}

// healthy ends with an error as soon as a task has died or the generator has ended before the edge.
func (t *trial) healthy(ctx context.Context, edge time.Time) error {
	for time.Until(edge) > watchPeriod {
		if err := await(ctx, time.Now().Add(watchPeriod)); err != nil {
			return err
		}
		if err := t.broken(); err != nil {
			return err
		}
		if err := t.loading.early(t.edges.end); err != nil {
			return err
		}
	}
	return nil
}

// broken is the error of a deployment that can no longer be measured.
func (t *trial) broken() error {
	if t.deployment.Watcher == nil {
		return nil
	}
	err := t.deployment.Watcher.Err()
	if err == nil {
		return nil
	}
	return unusable("task-died", err.Error(), hint(err))
}

// heard passes on what the generator says of one second.
func (t *trial) heard(p loadgen.Progress) {
	t.mu.Lock()
	t.progress = append(t.progress, p)
	t.mu.Unlock()
	t.emit(result.Event{Kind: result.KindProgress, Progress: &result.Progress{
		Second: p.Second, AskedRate: t.profile.Rate, Rate: float64(p.Completed), Errors: p.Errors, P50MS: p.P50MS, P99MS: p.P99MS,
	}})
}

// sampler looks at the tasks of a trial.
type sampler struct {
	trial  *trial
	listed []platform.Task // by the deployment
	tasks  []platform.Task // listed, and what the meter found beside them
	last   meter.Look
	any    bool // last is a look
	// history is kept where counters are refreshed only so often.
	history history
	// reborn were started in the place of tasks that faults had ended, whether or not they still run.
	reborn []platform.Task
}

func (s *sampler) list(ctx context.Context) error {
	tasks, err := s.trial.deployment.Tasks(ctx)
	if err != nil {
		return err
	}
	s.listed = tasks
	s.tasks = append(slices.Clone(tasks), s.last.Found...)
	return nil
}

// look reads every task and tells it. Its times are the trial's.
func (s *sampler) look(ctx context.Context, depth meter.Depth) error {
	asked := s.trial.clock.now()
	now, err := s.trial.Meter.Read(ctx, s.listed, depth)
	if err != nil {
		return fmt.Errorf("read the meters: %w", err)
	}
	s.tasks = append(slices.Clone(s.listed), now.Found...)
	for id, r := range now.Tasks {
		r.At = s.trial.clock.steady(r.At)
		now.Tasks[id] = r
	}
	sample := &result.Sample{Tasks: now.Tasks}
	if now.Node != nil {
		now.Node.At = s.trial.clock.steady(now.Node.At)
		sample.Node = *now.Node
	}
	for i := range now.Nodes {
		now.Nodes[i].Reading.At = s.trial.clock.steady(now.Nodes[i].Reading.At)
	}
	if s.trial.paced() {
		// What was not refreshed is not told again: a row more would be no observation more.
		sample.Tasks, sample.Nodes = s.history.add(now, asked, s.trial.clock.now())
		if len(sample.Tasks)+len(sample.Nodes) == 0 {
			s.last, s.any = now, true
			return nil
		}
		sample.Cores = s.history.cores(s.tasks)
	} else if s.any {
		sample.Cores = coresByPlane(s.tasks, s.last, now)
	}
	s.last, s.any = now, true
	s.trial.emit(result.Event{Kind: result.KindSample, Sample: sample})
	return nil
}

// use keeps what every task used between the edges.
func (t *trial) use(first []platform.Task, begin meter.Look, then []platform.Task, end meter.Look) {
	known, ended := map[string]bool{}, t.endedTasks()
	for _, task := range append(append([]platform.Task{}, first...), then...) {
		if known[task.ID] {
			continue
		}
		known[task.ID] = true
		if e, ok := ended[task.ID]; ok {
			t.record.Tasks = append(t.record.Tasks, t.departed(e, begin))
			continue
		}
		u := result.TaskUsage{Task: task.Task, Start: begin.Tasks[task.ID], End: end.Tasks[task.ID]}
		if task.Restarted {
			u.Start = t.unborn(task.ID, begin)
		}
		u.Missing = missing(task, u, begin, end)
		t.record.Tasks = append(t.record.Tasks, u)
	}
	for _, e := range ended {
		if !known[e.ID] {
			t.record.Tasks = append(t.record.Tasks, t.departed(e, begin))
		}
	}
	if begin.Node != nil && end.Node != nil {
		t.record.Node = &result.NodeUsage{CPUs: t.Dir.Environment().CPUs, Start: *begin.Node, End: *end.Node}
		return
	}
	t.unreadNode(errors.Join(begin.NodeErr, end.NodeErr))
}

func (t *trial) unreadNode(why error) {
	t.warn(result.Warning{Code: "node-unread", Message: fmt.Sprintf("the machine's total could not be read: %v", why), Metrics: []string{metric.NodeCPU}})
}

// missing says why the difference of a task's counters cannot be had; empty: it can.
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
		return "its CPU counter went backwards: another process has taken its number"
	}
	return ""
}
