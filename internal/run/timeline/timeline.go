// Package timeline makes happen what an experiment schedules for the measure phase of a trial: its faults, and changes of
// routes and endpoints. It picks targets, injects and heals at the times of the file, and returns the windows in which the
// faults suspend checks of validity. Of changes it finds the effect in the answers of the load. The platform ends, suspends
// and changes tasks.
package timeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Timeline is the faults of one trial. It is used once.
type Timeline struct {
	d    *platform.Deployment
	plan []occurrence
	emit func(result.Event)
	now  func() time.Time

	mu       sync.Mutex
	random   *rand.Rand
	held     map[string]*injected // pods and tasks by name, and the fault that holds each until it is healed
	injected []*injected
}

// occurrence is one injection of a fault.
type occurrence struct {
	index int
	fault experiment.Fault
	at    time.Duration // from the start of the measure phase
}

type injected struct {
	occurrence
	kind    kind
	targets []target
	undo    [][]byte
	record  result.Fault
	healed  bool
}

// New makes the timeline of a trial, of faults that [Check] accepted. entry is the target of faults without a service. now gives
// the times of records and events, and emit takes the events.
func New(faults []experiment.Fault, seed uint64, entry string, d *platform.Deployment, now func() time.Time, emit func(result.Event)) *Timeline {
	t := &Timeline{d: d, emit: emit, now: now, random: rand.New(rand.NewPCG(seed, 0x666175)), held: map[string]*injected{}}
	for i, f := range faults {
		f = f.Defaults()
		f.Target.Service = cmp.Or(f.Target.Service, entry)
		for n := range f.Count {
			t.plan = append(t.plan, occurrence{i, f, time.Duration(f.At) + time.Duration(n)*time.Duration(f.Every)})
		}
	}
	slices.SortStableFunc(t.plan, func(a, b occurrence) int { return cmp.Compare(a.at, b.at) })
	return t
}

// Run injects and heals faults at their times after start. It returns at end, or when ctx ends.
// [Timeline.Heal] heals the remaining faults.
func (t *Timeline) Run(ctx context.Context, start, end time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, o := range t.plan {
		group.Go(routine.Guarded(func() error { return t.play(ctx, o, start, end) }))
	}
	return group.Wait()
}

func (t *Timeline) play(ctx context.Context, o occurrence, start, end time.Time) error {
	if came, err := await(ctx, start.Add(o.at), end); err != nil || !came {
		return err
	}
	in, err := t.inject(ctx, o)
	if in == nil || err != nil || o.fault.For == 0 || in.kind.heal == nil {
		return err
	}
	// A heal exactly at the end would delay the reading there. It is left to [Timeline.Heal].
	if came, err := await(ctx, start.Add(o.at+time.Duration(o.fault.For)), end.Add(-1)); err != nil || !came {
		return err
	}
	return t.heal(ctx, in)
}

// await waits until t. came is false if end is earlier.
func await(ctx context.Context, t, end time.Time) (came bool, err error) {
	came = !t.After(end)
	if !came {
		t = end
	}
	if err := wait.For(ctx, time.Until(t)); err != nil {
		return false, err
	}
	return came, nil
}

// inject picks targets and injects the fault. It returns nil if there is no target.
func (t *Timeline) inject(ctx context.Context, o occurrence) (*injected, error) {
	in, err := t.reserve(o)
	if errors.Is(err, errNoTarget) {
		t.event(result.Fault{Index: o.index, Kind: o.fault.Kind}, fmt.Sprintf("%s: %v", o.fault.Kind, err))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inject fault %s (faults[%d]): %w", o.fault.Kind, o.index, err)
	}
	t.event(in.record, fmt.Sprintf("%s %s", o.fault.Kind, strings.Join(in.record.Targets, ", ")))
	var group errgroup.Group
	for i, target := range in.targets {
		group.Go(routine.Guarded(func() (err error) {
			in.undo[i], err = in.kind.inject(ctx, t.d, o.fault, target)
			return err
		}))
	}
	err = group.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	in.record.Done = t.now()
	if err != nil {
		return nil, fmt.Errorf("inject fault %s (faults[%d]): %w", o.fault.Kind, o.index, err)
	}
	if in.kind.heal == nil { // nothing to heal
		in.healed, in.record.Healed = true, in.record.Done
		t.release(in)
	}
	if o.fault.Kind == "scale" && o.fault.By > 0 && o.fault.For == 0 { // nothing removes these pods again
		for _, target := range in.targets {
			maps.DeleteFunc(t.held, func(name string, _ *injected) bool { return slices.Contains(target.tasks, name) })
		}
	}
	return in, nil
}

// reserve picks targets and keeps other faults from them.
func (t *Timeline) reserve(o occurrence) (*injected, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := kinds[o.fault.Kind]
	targets, err := pick(o.fault, k, t.d.TaskFaults.Victims(), t.held, t.random)
	if err != nil {
		return nil, err
	}
	in := &injected{occurrence: o, kind: k, targets: targets, undo: make([][]byte, len(targets))}
	in.record = result.Fault{Index: o.index, Kind: o.fault.Kind, Start: t.now()}
	for _, target := range targets {
		in.record.Targets = append(in.record.Targets, target.name)
		for _, name := range k.holds(target) {
			t.held[name] = in
		}
	}
	t.injected = append(t.injected, in)
	return in, nil
}

// release lets other faults hit the targets. t.mu is held.
func (t *Timeline) release(in *injected) {
	maps.DeleteFunc(t.held, func(_ string, by *injected) bool { return by == in })
}

func (t *Timeline) heal(ctx context.Context, in *injected) error {
	var group errgroup.Group
	for i, target := range in.targets {
		group.Go(routine.Guarded(func() error { return in.kind.heal(ctx, t.d, in.fault, target, in.undo[i]) }))
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("heal fault %s (faults[%d]): %w", in.fault.Kind, in.index, err)
	}
	t.mu.Lock()
	in.healed, in.record.Healed = true, t.now()
	t.release(in)
	record := in.record
	t.mu.Unlock()
	t.event(record, fmt.Sprintf("%s healed: %s", in.fault.Kind, strings.Join(record.Targets, ", ")))
	return nil
}

func (t *Timeline) event(f result.Fault, message string) {
	t.emit(result.Event{Time: t.now(), Kind: result.KindFault, Message: message, Fault: &f})
}

// Heal undoes faults that must not outlive a trial: a suspended task would not receive SIGTERM.
// Ended and changed tasks are removed with the deployment, so only all heals them too.
func (t *Timeline) Heal(ctx context.Context, all bool) error {
	t.mu.Lock()
	var left []*injected
	for _, in := range slices.Backward(t.injected) {
		if !in.healed && in.kind.heal != nil && (all || in.kind.lasting) {
			left = append(left, in)
		}
	}
	t.mu.Unlock()
	return errors.Join(lists.Map(left, func(in *injected) error { return t.heal(ctx, in) })...)
}

// Injected returns the injected faults, in order.
func (t *Timeline) Injected() []result.Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lists.Map(t.injected, func(in *injected) result.Fault { return in.record })
}

// kind is how one kind of fault is injected into one target, and healed. [experiment.FaultKinds] describes it.
type kind struct {
	// pods: its targets are whole pods, not single tasks.
	pods bool
	// inject returns the undo that heal needs.
	inject func(context.Context, *platform.Deployment, experiment.Fault, target) (undo []byte, err error)
	// heal is nil if there is nothing to undo.
	heal func(context.Context, *platform.Deployment, experiment.Fault, target, []byte) error
	// lasting: it must be healed even before the deployment is removed.
	lasting bool
	// network is the impairment of a network, nil if the kind impairs none.
	network func(experiment.Fault) platform.Impairment
}

// kinds by name in the experiment file.
var kinds = map[string]kind{
	"kill":        {inject: endTasks(func(experiment.Fault) time.Duration { return 0 }), heal: restart},
	"terminate":   {inject: endTasks(grace), heal: restart},
	"restart":     {inject: endAndRestart},
	"pause":       {inject: freeze, heal: thaw, lasting: true},
	"scale":       {pods: true, inject: scale, heal: unscale},
	"latency":     configure(func(f experiment.Fault) any { return fields{"delay": f.Delay.String()} }),
	"errors":      configure(func(f experiment.Fault) any { return fields{"errors": fields{"ratio": f.Ratio, "status": f.Status}} }),
	"rate-limit":  configure(func(f experiment.Fault) any { return fields{"rateLimit": f.Rate} }),
	"cpu-burn":    configure(func(f experiment.Fault) any { return fields{"cpu": f.CPU.String()} }),
	"memory":      configure(func(f experiment.Fault) any { return fields{"memory": f.Memory.String()} }),
	"partition":   impair(func(experiment.Fault) platform.Impairment { return platform.Impairment{Loss: 1} }),
	"packet-loss": impair(func(f experiment.Fault) platform.Impairment { return platform.Impairment{Loss: f.Ratio} }),
	"packet-delay": impair(func(f experiment.Fault) platform.Impairment {
		return platform.Impairment{Delay: time.Duration(f.Delay)}
	}),
	"bandwidth": impair(func(f experiment.Fault) platform.Impairment { return platform.Impairment{Bandwidth: f.Rate} }),
}

// fields of a service's configuration.
type fields map[string]any

// Check checks that a platform can inject all faults. The error wraps [errors.ErrUnsupported] and has the reason for
// the first that it cannot, and the supported kinds as its hint.
func Check(faults []experiment.Fault, p platform.Faults) error {
	for i, f := range faults {
		described, known := experiment.FaultKindOf(f.Kind)
		if !known {
			return fmt.Errorf("faults[%d]: fault %q does not exist", i, f.Kind)
		}
		if reason := refusal(described, f, p); reason != "" {
			return hint.New(supported(p), "faults[%d]: fault %s: %w: %s", i, f.Kind, errors.ErrUnsupported, reason)
		}
		if network := kinds[f.Kind].network; network != nil && p.CanImpair != nil {
			if err := p.CanImpair(network(f)); err != nil {
				return fmt.Errorf("faults[%d]: fault %s: %w", i, f.Kind, err)
			}
		}
	}
	return nil
}

// refusal is the reason why a platform cannot inject a fault, "" if it can.
func refusal(described experiment.FaultKind, f experiment.Fault, p platform.Faults) string {
	if !slices.Contains(p.Abilities, described.Ability) {
		return cmp.Or(p.Lacks[described.Ability], "the platform cannot "+string(described.Ability))
	}
	if plane := f.Defaults().Target.Plane; plane != string(metric.App) {
		return p.AppOnly
	}
	return ""
}

// supported lists the kinds of faults that a platform can inject.
func supported(p platform.Faults) string {
	kinds := lists.Where(experiment.FaultKinds(), func(k experiment.FaultKind) bool { return slices.Contains(p.Abilities, k.Ability) })
	if kinds == nil {
		return "remove the faults"
	}
	return "supported here: " + strings.Join(lists.Map(kinds, func(k experiment.FaultKind) string { return k.Name }), ", ")
}

// target is a task, or the tasks of a pod, the application first.
type target struct {
	name  string
	tasks []string
}

// holds are the names that no other fault may hold. A kind that ends whole pods would undo the faults of their
// tasks. One that impairs their network would not.
func (k kind) holds(t target) []string {
	if !k.pods || k.network != nil {
		return []string{t.name}
	}
	return append([]string{t.name}, t.tasks...)
}

func endTasks(grace func(experiment.Fault) time.Duration) func(context.Context, *platform.Deployment, experiment.Fault, target) ([]byte, error) {
	return func(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
		return nil, each(t, func(task string) error { return end(ctx, d, task, grace(f)) })
	}
}

func restart(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target, _ []byte) error {
	return each(t, func(task string) error { return restartTask(ctx, d, task) })
}

func endAndRestart(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
	return nil, each(t, func(task string) error {
		if err := end(ctx, d, task, grace(f)); err != nil {
			return err
		}
		return restartTask(ctx, d, task)
	})
}

func freeze(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target) ([]byte, error) {
	return nil, each(t, func(task string) error { return hint.Prefix(d.TaskFaults.Freeze(ctx, task, true), "freeze %s", task) })
}

func thaw(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target, _ []byte) error {
	return each(t, func(task string) error { return hint.Prefix(d.TaskFaults.Freeze(ctx, task, false), "resume %s", task) })
}

func scale(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
	if f.By < 0 {
		return nil, remove(ctx, d, f, t)
	}
	return nil, bringBack(ctx, d, t)
}

func unscale(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target, _ []byte) error {
	if f.By < 0 {
		return bringBack(ctx, d, t)
	}
	return remove(ctx, d, f, t)
}

// remove ends a pod as a cluster does: the application drains, then its sidecar ends.
func remove(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) error {
	if d.Scaler != nil {
		return hint.Prefix(d.Scaler.Shrink(ctx, t.name, grace(f)), "remove %s", t.name)
	}
	for _, task := range t.tasks {
		if err := end(ctx, d, task, grace(f)); err != nil {
			return err
		}
	}
	return nil
}

func grace(f experiment.Fault) time.Duration { return time.Duration(f.Grace) }

func bringBack(ctx context.Context, d *platform.Deployment, t target) error {
	if d.Scaler != nil {
		return hint.Prefix(d.Scaler.Grow(ctx, t.name), "bring back %s", t.name)
	}
	for i := range t.tasks { // the sidecar first, so that the application can call
		if err := restartTask(ctx, d, t.tasks[len(t.tasks)-1-i]); err != nil {
			return err
		}
	}
	return nil
}

// configure is a kind that changes a service, and reverts the change.
func configure(patch func(experiment.Fault) any) kind {
	return kind{
		inject: func(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
			b, err := json.Marshal(patch(f))
			if err != nil {
				return nil, err
			}
			undo, err := d.Configurer.Configure(ctx, t.tasks[0], b)
			return undo, hint.Prefix(err, "change %s", t.tasks[0])
		},
		heal: func(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target, undo []byte) error {
			_, err := d.Configurer.Configure(ctx, t.tasks[0], undo)
			return hint.Prefix(err, "change %s", t.tasks[0])
		},
	}
}

// impair returns a kind that impairs the network of a pod, shared by all its tasks.
func impair(how func(experiment.Fault) platform.Impairment) kind {
	return kind{
		pods: true, lasting: true, network: how,
		inject: func(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
			return nil, hint.Prefix(d.NetworkFaults.Impair(ctx, t.name, how(f)), "impair the network of %s", t.name)
		},
		heal: func(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target, _ []byte) error {
			return hint.Prefix(d.NetworkFaults.Mend(ctx, t.name), "mend the network of %s", t.name)
		},
	}
}

func end(ctx context.Context, d *platform.Deployment, task string, grace time.Duration) error {
	return hint.Prefix(d.TaskFaults.End(ctx, task, grace), "end %s", task)
}

func restartTask(ctx context.Context, d *platform.Deployment, task string) error {
	return hint.Prefix(d.TaskFaults.Restart(ctx, task), "restart %s", task)
}

func each(t target, do func(task string) error) error {
	var group errgroup.Group
	for _, task := range t.tasks {
		group.Go(routine.Guarded(func() error { return do(task) }))
	}
	return group.Wait()
}

// errNoTarget: the trial has no such target, as a mesh without sidecars. It is not a failure.
var errNoTarget = errors.New("no target")

// pick chooses the targets of a fault among the tasks that no other fault holds.
func pick(f experiment.Fault, k kind, victims []platform.Victim, held map[string]*injected, random *rand.Rand) ([]target, error) {
	all, exists := candidates(f, k, victims)
	if !exists {
		if f.Target.Plane == string(metric.App) {
			return nil, fmt.Errorf("service %s has no replica to hit", f.Target.Service)
		}
		return nil, fmt.Errorf("%w: no task of %s is in the %s plane", errNoTarget, f.Target.Service, f.Target.Plane)
	}
	if f.Kind == "scale" && f.By > 0 {
		return removed(f, all)
	}
	taken := func(name string) bool { return held[name] != nil }
	var free []target
	for _, c := range all {
		if c.up && !slices.ContainsFunc(k.holds(c.target), taken) {
			free = append(free, c.target)
		}
	}
	n := 1
	switch {
	case f.Kind == "scale":
		n = -f.By
	case f.Target.Pick == "all":
		n = len(free)
	}
	if len(free) < max(n, 1) {
		return nil, fmt.Errorf("%d targets of %s run without another fault, %d are needed", len(free), f.Target.Service, max(n, 1))
	}
	if f.Target.Pick == "random" {
		random.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	}
	return free[:n], nil
}

// removed returns pods that an earlier fault removed. There are no others: the lists of replicas
// in proxies and callers are written when a trial is deployed.
func removed(f experiment.Fault, all []candidate) ([]target, error) {
	var gone []target
	for _, c := range all {
		if !c.up {
			gone = append(gone, c.target)
		}
	}
	if len(gone) < f.By {
		return nil, fmt.Errorf("scale %s by %d: %w: %d replicas were removed before, and the number at deployment is the maximum",
			f.Target.Service, f.By, errors.ErrUnsupported, len(gone))
	}
	return gone[:f.By], nil
}

// candidate is a target, which is up if all of its tasks run.
type candidate struct {
	target
	up    bool
	plane bool // one of its tasks is in the fault's plane
}

// candidates are the possible targets of a fault, and exists reports whether there is one. If
// whole pods are hit, one of a pod's tasks must be in the fault's plane.
func candidates(f experiment.Fault, k kind, victims []platform.Victim) (all []candidate, exists bool) {
	for _, v := range victims {
		plane := string(v.Plane) == f.Target.Plane
		if !ofService(f, v) || (!plane && !k.pods) {
			continue
		}
		if f.Target.Replica != nil && *f.Target.Replica != v.Replica {
			continue
		}
		if !k.pods {
			all = append(all, candidate{target{v.ID, []string{v.ID}}, v.Up, true})
			continue
		}
		i := slices.IndexFunc(all, func(c candidate) bool { return c.name == v.Pod })
		if i < 0 {
			all = append(all, candidate{target{name: v.Pod}, true, false})
			i = len(all) - 1
		}
		all[i].tasks = append(all[i].tasks, v.ID)
		all[i].up = all[i].up && v.Up
		all[i].plane = all[i].plane || plane
	}
	all = slices.DeleteFunc(all, func(c candidate) bool { return !c.plane })
	return all, len(all) > 0
}

// ofService reports whether a victim belongs to the fault's service. The control plane belongs to
// none.
func ofService(f experiment.Fault, v platform.Victim) bool {
	return v.Service == f.Target.Service || (f.Target.Plane == string(metric.Control) && v.Plane == metric.Control)
}
