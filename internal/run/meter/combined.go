package meter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Combine reads processes of this machine with local, and all other tasks with cluster. Totals are
// the sums over the cluster's machines.
func Combine(cluster, local Meter) Meter { return combined{cluster, local} }

type combined struct{ cluster, local Meter }

// Read implements [Meter]. This machine is first: its reading takes no time.
func (c combined) Read(ctx context.Context, tasks []platform.Task, depth Depth) (Look, error) {
	own, others := splitLocal(tasks)
	if own == nil {
		return c.cluster.Read(ctx, tasks, depth)
	}
	local, err := c.local.Read(ctx, own, depth)
	look, failed := c.cluster.Read(ctx, others, depth)
	if err := errors.Join(err, failed); err != nil {
		return Look{}, err
	}
	return look.merge(local), nil
}

// splitLocal separates the processes of this machine from other tasks.
func splitLocal(tasks []platform.Task) (own, others []platform.Task) {
	for _, t := range tasks {
		if t.PID != 0 {
			own = append(own, t)
		} else {
			others = append(others, t)
		}
	}
	return own, others
}

// merge adds the tasks of a reading of this machine.
func (l Look) merge(local Look) Look {
	l.Tasks, l.Missing = joined(local.Tasks, l.Tasks), joined(local.Missing, l.Missing)
	return l
}

// Follower implements [Meter].
func (c combined) Follower() Follower {
	if f := c.cluster.Follower(); f != nil {
		return combinedFollower{f, c.local}
	}
	return nil
}

type combinedFollower struct {
	cluster Follower
	local   Meter
}

// Follow implements [Follower]. It reads the processes of this machine at the same instants.
func (c combinedFollower) Follow(ctx context.Context, groups [][]platform.Task, at []time.Time) (Following, error) {
	own, others := make([][]platform.Task, len(groups)), make([][]platform.Task, len(groups))
	for i, tasks := range groups {
		own[i], others[i] = splitLocal(tasks)
	}
	cluster, err := c.cluster.Follow(ctx, others, at)
	if err != nil || !slices.ContainsFunc(own, func(tasks []platform.Task) bool { return len(tasks) > 0 }) {
		return cluster, err
	}
	f := &combinedFollowing{cluster: cluster, local: make(chan localReading, len(at))}
	go routine.Guarded(func() {
		for _, due := range at {
			if wait.For(ctx, time.Until(due)) != nil {
				return
			}
			var one localReading
			for _, tasks := range own {
				var look Look
				if len(tasks) > 0 {
					var err error
					look, err = c.local.Read(ctx, tasks, Clocks)
					one.err = errors.Join(one.err, err)
				}
				one.looks = append(one.looks, look)
			}
			f.local <- one
		}
	})()
	return f, nil
}

// localReading is a reading of all groups' processes of this machine.
type localReading struct {
	looks []Look
	err   error
}

// combinedFollowing joins the instants of both meters.
type combinedFollowing struct {
	cluster Following
	local   chan localReading
}

// Next implements [Following].
func (f *combinedFollowing) Next(ctx context.Context) (read []Instant, done bool, err error) {
	read, done, err = f.cluster.Next(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, one := range read {
		select {
		case local := <-f.local:
			if local.err != nil {
				return nil, false, local.err
			}
			for i := range one.Looks {
				one.Looks[i] = one.Looks[i].merge(local.looks[i])
			}
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
	return read, done, nil
}

func joined[V any](a, b map[string]V) map[string]V {
	all := make(map[string]V, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
