package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
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
	if err := errors.Join(m.faults.plan(), m.changes.plan()); err != nil {
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
	if d.Broken == nil {
		return nil
	}
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
