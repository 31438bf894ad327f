package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// CheckChanges checks that all meshes can make the changes. The error has the meshes that cannot.
func CheckChanges(c experiment.Changes, meshes []mesh.Definition) error {
	var failed []error
	for _, kind := range c.Kinds {
		for _, m := range meshes {
			if err := m.CanChange(kind); err != nil {
				failed = append(failed, fmt.Errorf("changes: mesh %s cannot make %s: %w: %w", m.Name, kind, errors.ErrUnsupported, err))
			}
		}
	}
	if failed == nil {
		return nil
	}
	return hint.Wrap(errors.Join(failed...), able(c.Kinds))
}

// able lists the meshes of tare that can make all kinds.
func able(kinds []string) string {
	var names []string
	for _, d := range mesh.Builtin() {
		if !slices.ContainsFunc(kinds, func(kind string) bool { return d.CanChange(kind) != nil }) {
			names = append(names, d.Name)
		}
	}
	if names == nil {
		return "leave a kind out of changes.kinds"
	}
	return "these can: " + strings.Join(names, ", ") + "; or leave the kind out of changes.kinds"
}

// Changes are the changes of one trial. They are used once.
type Changes struct {
	changer platform.Changer
	every   time.Duration
	plan    []change

	clocks []Clocks // at each half of the time between changes, from the first change on

	mu   sync.Mutex
	made map[int]*result.Change // by their number in the plan
}

// change is one change that is due.
type change struct {
	platform.Change
	endpoint string        // that leaves or comes back, empty for a route
	at       time.Duration // from the start of the measure phase
}

// NewChanges plans the changes of a trial. Trials of a seed have the same.
func NewChanges(c experiment.Changes, seed uint64, d *platform.Deployment) (*Changes, error) {
	if c.Every == 0 {
		return &Changes{}, nil
	}
	if d.Changer == nil {
		return nil, fmt.Errorf("changes: %w by the platform", errors.ErrUnsupported)
	}
	random := rand.New(rand.NewPCG(seed, 0x636861))
	endpoints := d.Changer.Endpoints()
	return &Changes{made: map[int]*result.Change{}, changer: d.Changer, every: time.Duration(c.Every), plan: planned(c, endpoints, random)}, nil
}

// planned draws the order of the kinds, each once in as many changes as there are kinds. An endpoint is removed before it
// is added.
func planned(c experiment.Changes, endpoints []string, random *rand.Rand) (all []change) {
	version, out, listed := 0, "", endpoints
	var kinds []string
	for n := range c.Count {
		if len(kinds) == 0 {
			kinds = slices.Clone(c.Kinds)
			random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
			removed, added := slices.Index(kinds, mesh.EndpointRemoved), slices.Index(kinds, mesh.EndpointAdded)
			if removed > added {
				kinds[removed], kinds[added] = kinds[added], kinds[removed]
			}
		}
		next := change{at: time.Duration(n+1) * time.Duration(c.Every)}
		next.Kind, kinds = kinds[0], kinds[1:]
		switch next.Kind {
		case mesh.RouteChanged, mesh.WeightShifted:
			version++
		case mesh.EndpointRemoved:
			out = endpoints[random.IntN(len(endpoints))]
			next.endpoint = out
			listed = slices.DeleteFunc(slices.Clone(endpoints), func(e string) bool { return e == out })
		case mesh.EndpointAdded:
			next.endpoint, listed = out, endpoints
		}
		next.Version, next.Endpoints = version, listed
		all = append(all, next)
	}
	return all
}

// Run makes each change when it is due after begin, also while an earlier one is under way. start is the start of the
// load, from which the instants of the results count. made gets each change after it was made.
func (c *Changes) Run(ctx context.Context, start, begin, end time.Time, made func(result.Change)) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, next := range c.plan {
		group.Go(routine.Guarded(func() error {
			came, err := await(ctx, begin.Add(next.at), end)
			if err != nil || !came {
				return err
			}
			change, err := c.make(ctx, i, next, start, begin)
			if err == nil {
				made(change)
			}
			return err
		}))
	}
	return group.Wait()
}

func (c *Changes) make(ctx context.Context, number int, next change, start, begin time.Time) (made result.Change, err error) {
	sent := time.Since(start)
	if err := c.changer.Change(ctx, next.Change); err != nil {
		return made, fmt.Errorf("change %s: %w", next.Kind, err)
	}
	accepted := time.Since(start)
	c.mu.Lock()
	defer c.mu.Unlock()
	made = result.Change{Kind: next.Kind, Version: next.Version, Endpoint: next.endpoint,
		DueSeconds: seconds(begin.Add(next.at).Sub(start)), SentSeconds: seconds(sent), AcceptedSeconds: seconds(accepted)}
	c.made[number] = &made
	return made, nil
}

// clockLead is how long before a change CPU clocks are read, so that the reading is over when it is made.
const clockLead = time.Millisecond

// Clocks are the CPU times of all planes at one instant.
type Clocks struct {
	At time.Time
	NS map[metric.Plane]int64
}

// Watch reads the CPU clocks shortly before each change, and in the middle of the time to the next. A change has them
// if none of its three readings failed, or came after the change.
func (c *Changes) Watch(ctx context.Context, begin, end time.Time, read func(context.Context) (Clocks, error)) error {
	if c.every == 0 {
		return nil
	}
	half := c.every / 2
	for i := range 2*len(c.plan) + 1 {
		due := begin.Add(c.every + time.Duration(i)*half)
		came, err := await(ctx, due.Add(-clockLead), end)
		if err != nil || !came {
			return err
		}
		clocks, err := read(ctx)
		if err != nil {
			return err
		}
		if clocks.At.After(due) {
			clocks.NS = nil
		}
		c.clocks = append(c.clocks, clocks)
	}
	return nil
}

// seconds is rounded once, unlike [time.Duration.Seconds], so that nanoseconds remain.
func seconds(d time.Duration) float64 { return float64(d) / 1e9 }

// Made returns the changes that were made, in the order of sending, with the CPU time around each.
func (c *Changes) Made() []result.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []result.Change
	for number, made := range c.made {
		if from := 2 * number; from+2 < len(c.clocks) {
			made.CPU = around(c.clocks[from], c.clocks[from+1], c.clocks[from+2])
		}
		all = append(all, *made)
	}
	slices.SortFunc(all, func(a, b result.Change) int { return cmp.Compare(a.SentSeconds, b.SentSeconds) })
	return all
}

// around returns the CPU time in the two halves between three readings, nil if one is missing.
func around(begin, middle, end Clocks) *result.ChangeCPU {
	if begin.NS == nil || middle.NS == nil || end.NS == nil {
		return nil
	}
	cpu := &result.ChangeCPU{NS: map[metric.Plane][2]int64{}}
	cpu.Seconds = [2]float64{middle.At.Sub(begin.At).Seconds(), end.At.Sub(middle.At).Seconds()}
	for plane, ns := range begin.NS {
		cpu.NS[plane] = [2]int64{middle.NS[plane] - ns, end.NS[plane] - middle.NS[plane]}
	}
	return cpu
}
