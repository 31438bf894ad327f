package runner

import (
	"context"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
)

// clock is the time of one trial. It advances with the monotonic clock from the wall-clock time at
// which the trial began. Differences between time stamps of a trial are correct even if the wall
// clock is stepped.
type clock struct {
	wall   func() time.Time
	began  time.Time // with its monotonic reading
	anchor time.Time // the wall clock then
}

func newClock(wall func() time.Time) *clock {
	return &clock{wall: wall, began: time.Now(), anchor: wall().Round(0)}
}

// drift is the distance of the wall clock from the monotonic clock since the trial began.
func (c *clock) drift() time.Duration {
	return c.wall().Round(0).Sub(c.now())
}

func (c *clock) now() time.Time { return c.steady(time.Now()) }

// steady converts t to the trial's time. t has a monotonic reading, or is used unchanged.
func (c *clock) steady(t time.Time) time.Time { return c.anchor.Add(t.Sub(c.began)) }

// await waits until t. t has a monotonic reading. If ctx ends first, await returns the cause.
func await(ctx context.Context, t time.Time) error { return wait.For(ctx, time.Until(t)) }
