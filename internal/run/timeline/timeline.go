// Package timeline makes happen what an experiment schedules for the measure phase of a trial: its faults, and changes of
// routes and endpoints. It picks targets, injects and heals at the times of the file, and returns the windows in which the
// faults suspend checks of validity. Of changes it finds the effect in the answers of the load. The platform ends, suspends
// and changes tasks.
package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment"
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

// New makes the timeline of a trial. entry is the target of faults without a service. now gives
// the times of records and events, and emit takes the events.
func New(faults []experiment.Fault, seed uint64, entry string, d *platform.Deployment, now func() time.Time, emit func(result.Event)) (*Timeline, error) {
	t := &Timeline{d: d, emit: emit, now: now, random: rand.New(rand.NewPCG(seed, 0x666175)), held: map[string]*injected{}}
	if len(faults) == 0 {
		return t, nil
	}
	for i, f := range faults {
		if _, ok := kinds[f.Kind]; !ok {
			return nil, fmt.Errorf("faults[%d]: fault %q does not exist", i, f.Kind)
		}
	}
	if lacks := missing(faults, d); lacks != "" {
		return nil, fmt.Errorf("faults: %w: the platform cannot %s", errors.ErrUnsupported, lacks)
	}
	for i, f := range faults {
		f = f.Defaults()
		f.Target.Service = cmp.Or(f.Target.Service, entry)
		for n := range f.Count {
			t.plan = append(t.plan, occurrence{i, f, time.Duration(f.At) + time.Duration(n)*time.Duration(f.Every)})
		}
	}
	slices.SortStableFunc(t.plan, func(a, b occurrence) int { return cmp.Compare(a.at, b.at) })
	return t, nil
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
	var failed []error
	for _, in := range left {
		failed = append(failed, t.heal(ctx, in))
	}
	return errors.Join(failed...)
}

// Injected returns the injected faults, in order.
func (t *Timeline) Injected() []result.Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []result.Fault
	for _, in := range t.injected {
		all = append(all, in.record)
	}
	return all
}
