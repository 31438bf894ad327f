package runner_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// follower is a meter that reads the meter below at planned instants, and loses the last ones.
type follower struct {
	meter.Meter
	lost int
}

type following struct {
	read  chan meter.Instant
	count int
}

func (f follower) Follower() meter.Follower { return f }

func (f follower) Follow(ctx context.Context, groups [][]platform.Task, at []time.Time) (meter.Following, error) {
	plan := &following{read: make(chan meter.Instant, len(at)), count: len(at) - f.lost}
	go func() {
		for _, due := range at {
			time.Sleep(time.Until(due))
			one := meter.Instant{At: time.Now()}
			for _, tasks := range groups {
				look, err := f.Read(ctx, tasks, meter.Clocks)
				if err != nil {
					return
				}
				one.Looks = append(one.Looks, look)
			}
			plan.read <- one
		}
	}()
	return plan, nil
}

// Next implements [meter.Following]. It returns up to three instants.
func (f *following) Next(ctx context.Context) (read []meter.Instant, done bool, err error) {
	for len(read) < 3 && f.count > 0 {
		select {
		case one := <-f.read:
			read = append(read, one)
			f.count--
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
	return read, f.count == 0, nil
}

// A meter that reads by itself gives the same slices as one that is read at each edge.
func TestRoundOfFollower(t *testing.T) {
	t.Parallel()
	cfg, _ := fakeRound(t, &fake{}, "")
	cfg.Meter = follower{Meter: cfg.Meter}
	records := ran(t, cfg, 3, 0)
	for _, r := range records {
		rows, err := result.ReadSlices(cfg.Dir.TrialFile(r.ID, result.SlicesFile))
		if err != nil || len(rows) != 3*fakeSlices {
			t.Fatalf("%s has %d slices, want %d: %v", r.ID, len(rows), 3*fakeSlices, err)
		}
		own := 0
		for i, s := range rows {
			if s.Own {
				own++
			}
			// The instants are tare's, on the schedule of the load.
			if s.Slice != 3+i || s.End <= s.Begin || (s.End-s.Begin-100*time.Millisecond).Abs() > time.Second {
				t.Errorf("%s: row %d is slice %d, from %v to %v", r.ID, i, s.Slice, s.Begin, s.End)
			}
		}
		if own != fakeSlices {
			t.Errorf("%s: %d own slices, want %d", r.ID, own, fakeSlices)
		}
		for _, u := range r.Tasks {
			if u.Missing == "" && u.IdleCPU == nil {
				t.Errorf("%s: task %s: %+v", r.ID, u.ID, u)
			}
		}
	}
}

// Readings that are lost fail the trials of the round, with their number.
func TestRoundOfIncompleteFollower(t *testing.T) {
	t.Parallel()
	cfg, _ := fakeRound(t, &fake{}, "")
	cfg.Meter = follower{cfg.Meter, 2}
	records := ran(t, cfg, -1, 3)
	for _, r := range records {
		var read, planned int
		if _, err := fmt.Sscanf(r.Error, "%d of %d readings", &read, &planned); err != nil || read != planned-2 || planned <= 3*fakeSlices {
			t.Errorf("%s: %q, want the loss of 2 of more than %d readings", r.ID, r.Error, 3*fakeSlices)
		}
	}
}
