package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
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
	if counters := c.setup.Platform.CounterRefresh; counters != nil && counters.Refresh() > 0 { // counters of one refresh span several changes
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

// faultPhase is the faults of one trial, and the counters of the data plane that change because of
// them.
type faultPhase struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	timeline   *timeline.Timeline          // nil before the measure phase
	before     map[string]map[string]int64 // the data plane's counters before the load; nil: unknown
}

// plan makes the timeline of faults. It is empty in a trial without faults.
func (f *faultPhase) plan() {
	f.timeline = timeline.New(f.setup.Experiment.Faults, f.setup.of.Seed, f.setup.topology.EntryName(), f.deployment, f.setup.clock.now, f.journal.emit)
}

// end records the injected faults, and heals faults that delay requests in flight.
func (f *faultPhase) end(ctx context.Context) error {
	f.journal.record.Faults = f.timeline.Injected()
	return f.timeline.Heal(ctx, false)
}

// keepMesh records what the proxies that run after the load counted since the reading before it. A restarted proxy
// counts from 0.
func (f *faultPhase) keepMesh(ctx context.Context) {
	if f.before == nil {
		return
	}
	for proxy, counters := range f.countMesh(ctx) {
		for name, n := range counters {
			if f.journal.record.MeshCounters == nil {
				f.journal.record.MeshCounters = map[string]int64{}
			}
			f.journal.record.MeshCounters[name] += n - f.before[proxy][name]
		}
	}
}

// countMesh reads the data plane's counters, by proxy and name. It returns nil if they are unknown. Reading them
// costs the proxies CPU outside the measure phase, so it is done only in trials with faults.
func (f *faultPhase) countMesh(ctx context.Context) map[string]map[string]int64 {
	if f.deployment.MeshCounters == nil || len(f.setup.Experiment.Faults) == 0 {
		return nil
	}
	counters, err := f.deployment.MeshCounters(ctx)
	if err != nil {
		f.journal.warn(result.Warning{Code: "mesh-uncounted", Message: fmt.Sprintf("the data plane's counters could not be read: %v", err),
			Withholds: true, Metrics: []string{metric.MeshRetries, metric.MeshTimeouts}})
		return nil
	}
	return counters
}

// replaces reports whether faults or changes can have ended or started tasks of a plane. Sidecars end with their
// pods. Tasks of other planes are only hit by a fault or change of their own.
func replaces(faults []experiment.Fault, changes []string, plane metric.Plane) bool {
	return slices.ContainsFunc(changes, func(name string) bool {
		kind, _ := metric.ChangeKindOf(name)
		return kind.Replaces(plane)
	}) || slices.ContainsFunc(faults, func(f experiment.Fault) bool {
		kind, _ := experiment.FaultKindOf(f.Kind)
		if !slices.Contains(kind.Suspends, experiment.Restarted) {
			return false
		}
		return plane == metric.App || plane == metric.Data || string(plane) == f.Target.Plane
	})
}

// Services lists and changes services of running trials by hand, which invalidates these trials: the others of their treatments have
// another configuration. The zero value is ready. Its methods may be called from several goroutines.
type Services struct {
	mu      sync.Mutex
	running []*changeable
}

// changeable is a running trial, and its changes so far.
type changeable struct {
	trial *trial
	made  []result.ByHand
}

// Replica is one replica of a service of a running trial.
type Replica struct {
	Trial  string `json:"trial"`
	Name   string `json:"name"` // such as front-0
	Config string `json:"config,omitempty"`
	Why    string `json:"why,omitempty"` // why it cannot be changed
}

// Replicas returns the replicas of the services in all running trials, with their current configuration.
func (s *Services) Replicas(ctx context.Context) (all []Replica) {
	for _, t := range s.trials("") {
		for _, v := range replicasOf(t, "") {
			one := Replica{Trial: t.setup.of.ID, Name: v.Pod}
			if config, err := t.deployment.Configurer.Configuration(ctx, v.ID); err != nil {
				one.Why = err.Error()
			} else {
				one.Config = string(config)
			}
			all = append(all, one)
		}
	}
	return all
}

// Change applies a JSON merge patch (RFC 7396) to a replica, or to all replicas of a service. Without a trial it changes
// each trial that runs now.
func (s *Services) Change(ctx context.Context, trial, target, patch string) (made []result.ByHand, err error) {
	if !json.Valid([]byte(patch)) {
		return nil, hint.New(`write a JSON merge patch, such as {"delay": "250ms"}`, "the patch is not JSON")
	}
	trials := s.trials(trial)
	if len(trials) == 0 {
		return nil, hint.New("changes are possible from the end of `deploy` to the end of `drain`", "no trial %sruns now", spaced(trial))
	}
	for _, t := range trials {
		found := replicasOf(t, target)
		if len(found) == 0 {
			pods := lists.Map(replicasOf(t, ""), func(v platform.Victim) string { return v.Pod })
			return made, hint.New("its replicas: "+strings.Join(pods, ", "), "trial %s has no service or replica %q", t.setup.of.ID, target)
		}
		for _, v := range found {
			if _, err := t.deployment.Configurer.Configure(ctx, v.ID, []byte(patch)); err != nil {
				return made, fmt.Errorf("change %s of trial %s: %w", v.Pod, t.setup.of.ID, err)
			}
			one := result.ByHand{Target: v.Pod, At: t.setup.clock.now(), Patch: patch}
			if !s.keep(t, one) {
				return made, fmt.Errorf("change %s of trial %s: %w", v.Pod, t.setup.of.ID, errEnded)
			}
			t.journal.emit(result.Event{Time: one.At, Kind: result.KindByHand, Message: fmt.Sprintf("%s changed by hand: %s", v.Pod, patch)})
			made = append(made, one)
		}
	}
	return made, nil
}

var errEnded = errors.New("it ended meanwhile")

func spaced(word string) string {
	if word == "" {
		return ""
	}
	return word + " "
}

// trials are the running trials whose services can be changed, or one of them.
func (s *Services) trials(id string) (all []*trial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.running {
		if id == "" || one.trial.setup.of.ID == id {
			all = append(all, one.trial)
		}
	}
	return all
}

// replicasOf are the replicas that a name selects: of a service, or one. An empty name selects all.
func replicasOf(t *trial, name string) []platform.Victim {
	return slices.DeleteFunc(t.deployment.TaskFaults.Victims(), func(v platform.Victim) bool {
		return v.Plane != metric.App || name != "" && v.Service != name && v.Pod != name
	})
}

// keep records a change, unless the trial ended meanwhile.
func (s *Services) keep(t *trial, made result.ByHand) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(t)
	if i >= 0 {
		s.running[i].made = append(s.running[i].made, made)
	}
	return i >= 0
}

func (s *Services) index(t *trial) int {
	return slices.IndexFunc(s.running, func(one *changeable) bool { return one.trial == t })
}

// begin makes the services of a trial changeable. s may be nil.
func (s *Services) begin(t *trial) {
	if s == nil || t.deployment.Configurer == nil || t.deployment.TaskFaults == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, &changeable{trial: t})
}

// end returns the changes of a trial, which can have no more. It may be called again.
func (s *Services) end(t *trial) (made []result.ByHand) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(t); i >= 0 {
		made = s.running[i].made
		s.running = slices.Delete(s.running, i, i+1)
	}
	return made
}

// changedByHand describes the changes by hand, by `tare services` or through the REST interface of a service. Faults and
// changes of the experiment change configurations too.
func changedByHand(s seen) string {
	if all := s.record.ByHand; len(all) > 0 {
		return fmt.Sprintf("%s by hand: %s to %.200s first", printable.Counted(len(all), "change"), all[0].Target, all[0].Patch)
	}
	if s.record.Balance == nil || len(s.faults) > 0 || len(s.record.Changes) > 0 {
		return ""
	}
	for _, f := range s.record.Balance.Flows {
		if f.Reconfigured && f.Unknown == "" {
			return fmt.Sprintf("the configuration of service %s was changed during the load, through its REST interface", f.Service)
		}
	}
	return ""
}
