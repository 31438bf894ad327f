package runner

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
)

// answersFile has the answers of the load during a trial with changes. It is removed when the effects are recorded.
const answersFile = "answers.csv"

type changePhase struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	load       *loadRun
	changes    *timeline.Changes
	sent       map[int]time.Time // changes of background services, by number
}

// plan plans the changes. There are none in a trial without.
func (c *changePhase) plan() (err error) {
	meshed := c.setup.mesh.Local != nil || c.setup.mesh.Kubernetes != nil
	c.changes, err = timeline.NewChanges(c.setup.Experiment.Changes, c.setup.of.Seed, c.setup.topology.EntryName(), meshed, c.deployment)
	if local := c.setup.mesh.Local; err == nil && local != nil && local.Sidecar.Reload != nil {
		c.changes.Restarts = true // of workers
	}
	if err == nil {
		c.changes.Remote = c.deployment.LoadWorkers != nil
	}
	return err
}

// run makes the changes, and reads the CPU time around each.
func (c *changePhase) run(ctx context.Context, tasks []platform.Task) error {
	group, ctx := errgroup.WithContext(ctx)
	edges := c.load.edges
	group.Go(routine.Guarded(func() error { return c.changes.Run(ctx, c.load.profile.Start, edges.begin, edges.end, c.show) }))
	switch {
	case c.deployment.CounterRefresh != nil && c.deployment.CounterRefresh.Refresh() > 0: // counters of one refresh span several changes
		return group.Wait()
	}
	group.Go(routine.Guarded(func() error {
		return c.changes.Watch(ctx, edges.begin, edges.end, func(ctx context.Context) (timeline.Clocks, error) { return c.clocks(ctx, tasks) })
	}))
	return group.Wait()
}

// background changes services that no request calls, and records how often.
func (c *changePhase) background(ctx context.Context) error {
	levels, edges := c.setup.treatment.Levels, c.load.edges
	if levels.BackgroundServices == 0 || c.deployment.Background == nil {
		return nil
	}
	var err error
	c.sent, err = timeline.Background(ctx, c.deployment.Background, float64(levels.BackgroundChanges), c.setup.of.Seed, edges.begin, edges.end)
	c.journal.record.Background = &result.Background{Services: levels.BackgroundServices, Pods: levels.BackgroundPods, Changes: len(c.sent), Asked: float64(levels.BackgroundChanges)}
	return err
}

// received records what the simulated proxies received of these changes, after the drain phase has given the last ones time.
func (c *changePhase) received(ctx context.Context) error {
	b := c.journal.record.Background
	if b == nil {
		return nil
	}
	r, err := c.deployment.Background.Received(ctx)
	if err != nil || r == nil {
		return err
	}
	b.Pushes = timeline.Pushes(c.sent, b.Services, r)
	return nil
}

func (c *changePhase) show(made result.Change) {
	message := fmt.Sprintf("%s, accepted after %.1f ms", made.Kind, 1000*(made.AcceptedSeconds-made.SentSeconds))
	if made.NothingRestarted() {
		message = made.Kind + ": nothing restarts without a mesh"
	}
	c.journal.emit(result.Event{Kind: result.KindChange, Change: &made, Message: message})
}

// clocks reads the CPU time of each plane. It is unknown if a task ended meanwhile.
func (c *changePhase) clocks(ctx context.Context, tasks []platform.Task) (timeline.Clocks, error) {
	var ended []platform.Ended
	if c.changes.Restarts {
		var err error
		if tasks, err = c.deployment.Tasks(ctx); err != nil {
			return timeline.Clocks{}, err
		}
		if c.deployment.Ended != nil {
			ended = c.deployment.Ended()
		}
	}
	look, err := c.setup.Meter.Read(ctx, tasks, meter.Clocks)
	if err != nil {
		return timeline.Clocks{}, fmt.Errorf("read the CPU time around changes: %w", err)
	}
	now := timeline.Clocks{At: time.Now(), NS: map[metric.Plane]int64{}}
	if c.changes.Restarts && c.deployment.Ended == nil { // a task that ended has its last reading
		c.load.sampler.clocks.add(tasks, look)
		now.NS = c.load.sampler.clocks.byPlane()
		return now, nil
	}
	for _, t := range tasks {
		now.NS[t.Plane] += look.Tasks[t.ID].CPU
	}
	for _, e := range ended {
		now.NS[e.Plane] += int64(e.CPU)
	}
	if len(look.Missing) > 0 {
		now.NS = nil
	}
	return now, nil
}

// observe records the changes with their effects on the answers of load or probe.
func (c *changePhase) observe(ctx context.Context) error {
	path := c.load.answers
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the answers to the load: %w", err)
	}
	defer f.Close()
	answers, err := record.ReadAnswers(f)
	if err != nil {
		return err
	}
	c.journal.record.Changes = c.changes.Made()
	timeline.Observe(c.journal.record.Changes, answers, c.load.edges.end.Sub(c.load.profile.Start), c.workers())
	if err := c.widen(ctx); err != nil {
		return err
	}
	c.changes.Parts(ctx, c.load.profile.Start, c.journal.record.Changes)
	return c.setup.dir.Remove(answersFile)
}

// workers is the number of workers that take over a change one by one: of all sidecars of the entry on this machine, 0 if it is
// unknown.
func (c *changePhase) workers() int {
	if c.deployment.LoadWorkers != nil {
		return 0
	}
	entry, _ := c.setup.topology.Service(c.setup.topology.EntryName())
	replicas := max(1, cmp.Or(entry.Replicas, c.setup.treatment.Levels.Replicas))
	if c.setup.mesh.Local == nil { // the applications read the configuration
		return replicas
	}
	return replicas * max(1, c.setup.mesh.Local.Sidecar.Concurrency)
}

// widen adds the error of the load worker's clock to the effects of changes. The answers are on the clock of the changes by the
// offset from before the load. Afterwards it is measured again: the clocks may have drifted apart.
func (c *changePhase) widen(ctx context.Context) error {
	if c.deployment.LoadWorkers == nil {
		return nil
	}
	before := c.load.loading.workers[0].part
	ahead, unsure, err := c.deployment.LoadWorkers.LoadClock(ctx, 0)
	if err != nil {
		return err
	}
	wrong := max(before.Unsure, (ahead-before.Ahead).Abs()+unsure)
	timeline.Widen(c.journal.record.Changes, wrong)
	c.journal.record.ChangeClockMS = new(float64(wrong) / float64(time.Millisecond))
	return nil
}
