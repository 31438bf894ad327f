package meter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// Beside reads processes of this machine with here, and all other tasks with there. Totals are
// those of there's machines.
func Beside(there, here Meter) Meter { return beside{there, here} }

type beside struct{ there, here Meter }

// Read implements [Meter]. This machine is first: its reading takes no time.
func (b beside) Read(ctx context.Context, tasks []platform.Task, depth Depth) (Look, error) {
	own, others := split(tasks)
	if own == nil {
		return b.there.Read(ctx, tasks, depth)
	}
	near, err := b.here.Read(ctx, own, depth)
	look, failed := b.there.Read(ctx, others, depth)
	if err := errors.Join(err, failed); err != nil {
		return Look{}, err
	}
	return look.with(near), nil
}

// split separates the processes of this machine from other tasks.
func split(tasks []platform.Task) (own, others []platform.Task) {
	for _, t := range tasks {
		if t.PID != 0 {
			own = append(own, t)
		} else {
			others = append(others, t)
		}
	}
	return own, others
}

// with adds the tasks of a reading of this machine.
func (l Look) with(near Look) Look {
	l.Tasks, l.Missing = joined(near.Tasks, l.Tasks), joined(near.Missing, l.Missing)
	return l
}

// Follower implements [Meter].
func (b beside) Follower() Follower {
	if f := b.there.Follower(); f != nil {
		return besideFollower{f, b.here}
	}
	return nil
}

type besideFollower struct {
	there Follower
	here  Meter
}

// Follow implements [Follower]. It reads the processes of this machine at the same instants.
func (b besideFollower) Follow(ctx context.Context, groups [][]platform.Task, at []time.Time) (Following, error) {
	own, others := make([][]platform.Task, len(groups)), make([][]platform.Task, len(groups))
	for i, tasks := range groups {
		own[i], others[i] = split(tasks)
	}
	there, err := b.there.Follow(ctx, others, at)
	if err != nil || !slices.ContainsFunc(own, func(tasks []platform.Task) bool { return len(tasks) > 0 }) {
		return there, err
	}
	f := &besideFollowing{there: there, here: make(chan nearby, len(at))}
	go func() {
		for _, due := range at {
			wait := time.NewTimer(time.Until(due))
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
				return
			}
			var one nearby
			for _, tasks := range own {
				var look Look
				if len(tasks) > 0 {
					var err error
					look, err = b.here.Read(ctx, tasks, Clocks)
					one.err = errors.Join(one.err, err)
				}
				one.looks = append(one.looks, look)
			}
			f.here <- one
		}
	}()
	return f, nil
}

// nearby is a reading of all groups' processes of this machine.
type nearby struct {
	looks []Look
	err   error
}

// besideFollowing joins the instants of both meters.
type besideFollowing struct {
	there Following
	here  chan nearby
}

// Next implements [Following].
func (f *besideFollowing) Next(ctx context.Context) (read []Instant, done bool, err error) {
	read, done, err = f.there.Next(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, one := range read {
		select {
		case near := <-f.here:
			if near.err != nil {
				return nil, false, near.err
			}
			for i := range one.Looks {
				one.Looks[i] = one.Looks[i].with(near.looks[i])
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
