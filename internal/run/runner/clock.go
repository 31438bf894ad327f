package runner

import (
	"context"
	"time"
)

// clock tells the time of one trial. Its times advance with the monotonic clock
// from the wall-clock time at which the trial began: differences between the
// stamps of a trial hold even where somebody sets the wall clock meanwhile.
type clock struct {
	wall   func() time.Time
	began  time.Time // with its monotonic reading
	anchor time.Time // the wall clock then
}

func newClock(wall func() time.Time) *clock {
	return &clock{wall: wall, began: time.Now(), anchor: wall().Round(0)}
}

func (c *clock) now() time.Time { return c.steady(time.Now()) }

// steady is t in the trial's time; t carries a monotonic reading, or is taken as it is.
func (c *clock) steady(t time.Time) time.Time { return c.anchor.Add(t.Sub(c.began)) }

// drift is how far the wall clock has gone from the monotonic one since the trial began.
func (c *clock) drift() time.Duration {
	return c.wall().Round(0).Sub(c.now())
}

// await waits until t, which carries a monotonic reading, or for the end of ctx, whose cause it returns.
func await(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
