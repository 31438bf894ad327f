package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// sampler looks at the tasks of a trial.
type sampler struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment

	listed []platform.Task // by the deployment
	tasks  []platform.Task // listed, and what the meter found beside them
	last   meter.Look
	any    bool // last is a look
	// history is kept where counters are refreshed only so often.
	history history
	// reborn were started in the place of tasks that faults had ended, whether or not they still run.
	reborn []platform.Task
}

// reset forgets all tasks and readings but these.
func (s *sampler) reset(history history) {
	*s = sampler{setup: s.setup, journal: s.journal, deployment: s.deployment, history: history}
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

// look reads every task and tells it. Its times are the trial's.
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
	if s.refreshed() {
		// What was not refreshed is not told again: a row more would be no observation more.
		sample.Tasks, sample.Nodes = s.history.add(now, asked, s.setup.clock.now())
		if len(sample.Tasks)+len(sample.Nodes) == 0 {
			s.last, s.any = now, true
			return nil
		}
		sample.Cores = s.history.cores(s.tasks)
	} else if s.any {
		sample.Cores = coresByPlane(s.tasks, s.last, now)
	}
	s.last, s.any = now, true
	s.journal.emit(result.Event{Kind: result.KindSample, Sample: sample})
	return nil
}

// refreshed says that the counters carry times of their own, by which they are used.
func (s *sampler) refreshed() bool { return s.deployment.CounterRefresh != nil }

// refresh is how often the deployment's counters are refreshed; 0: whenever they are read.
func (s *sampler) refresh() time.Duration {
	if !s.refreshed() {
		return 0
	}
	return s.deployment.CounterRefresh.Refresh()
}

// relist lists the tasks anew where faults end some and others take their place.
func (s *sampler) relist(ctx context.Context) error {
	if len(s.setup.Experiment.Faults) == 0 || !s.refreshed() {
		return nil
	}
	if err := s.list(ctx); err != nil {
		return err
	}
	for _, task := range s.listed {
		if task.Restarted && !lists(s.reborn, task.ID) {
			s.reborn = append(s.reborn, task)
		}
	}
	return nil
}

// period is the time between two looks at every task.
func (s *sampler) period() time.Duration {
	return max(samplePeriod, s.refresh()/looksPerRefresh)
}
