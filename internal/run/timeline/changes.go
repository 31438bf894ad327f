package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
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
	return hint.Wrap(errors.Join(failed...), "use mesh envoy-xds, or leave the kind out of changes.kinds")
}

// Changes are the changes of one trial. They are used once.
type Changes struct {
	changer platform.Changer
	plan    []change

	mu   sync.Mutex
	made []result.Change
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
	return &Changes{changer: d.Changer, plan: planned(c, endpoints, random)}, nil
}

// planned draws the order of the kinds, each once in as many changes as there are kinds. An endpoint is removed before it
// is added.
func planned(c experiment.Changes, endpoints []string, random *rand.Rand) (all []change) {
	version, out := 0, ""
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
		next.Endpoints = endpoints
		switch next.Kind {
		case mesh.RouteChanged:
			version++
		case mesh.EndpointRemoved:
			out = endpoints[random.IntN(len(endpoints))]
			next.endpoint = out
			next.Endpoints = slices.DeleteFunc(slices.Clone(endpoints), func(e string) bool { return e == out })
		case mesh.EndpointAdded:
			next.endpoint = out
		}
		next.Version = version
		all = append(all, next)
	}
	return all
}

// Run makes each change when it is due after begin, also while an earlier one is under way. start is the start of the
// load, from which the instants of the results count.
func (c *Changes) Run(ctx context.Context, start, begin, end time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, next := range c.plan {
		group.Go(routine.Guarded(func() error {
			came, err := await(ctx, begin.Add(next.at), end)
			if err != nil || !came {
				return err
			}
			return c.make(ctx, next, start, begin)
		}))
	}
	return group.Wait()
}

func (c *Changes) make(ctx context.Context, next change, start, begin time.Time) error {
	sent := time.Since(start)
	if err := c.changer.Change(ctx, next.Change); err != nil {
		return fmt.Errorf("change %s: %w", next.Kind, err)
	}
	accepted := time.Since(start)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, result.Change{Kind: next.Kind, Version: next.Version, Endpoint: next.endpoint,
		DueSeconds: seconds(begin.Add(next.at).Sub(start)), SentSeconds: seconds(sent), AcceptedSeconds: seconds(accepted)})
	return nil
}

// seconds is rounded once, unlike [time.Duration.Seconds], so that nanoseconds remain.
func seconds(d time.Duration) float64 { return float64(d) / 1e9 }

// Made returns the changes that were made, in the order of sending.
func (c *Changes) Made() []result.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.made, func(a, b result.Change) int { return cmp.Compare(a.SentSeconds, b.SentSeconds) })
	return c.made
}
