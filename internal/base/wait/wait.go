// Package wait repeats an attempt until it succeeds, or a call until it is ended.
package wait

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
)

// Until calls attempt at once and then at an interval, until it returns nil or an error of [Stop], or ctx ends. At its end
// the error wraps the cause, and the error of the last attempt that the end did not cut short: the reason for the wait.
func Until(ctx context.Context, interval time.Duration, attempt func(context.Context) error) error {
	again := time.NewTicker(interval)
	defer again.Stop()
	var last error
	for {
		err := attempt(ctx)
		final, stopped := errors.AsType[*stop](err)
		switch {
		case err == nil:
			return nil
		case stopped:
			return final.error
		case last == nil || ctx.Err() == nil:
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-again.C:
		}
	}
}

// Within is [Until] with a limit. After it the error wraps [context.DeadlineExceeded].
func Within(ctx context.Context, limit, interval time.Duration, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late(limit))
	defer cancel()
	return Until(ctx, interval, attempt)
}

// late is the end of a limit.
type late time.Duration

func (l late) Error() string { return "not within " + time.Duration(l).String() }

// Is reports a deadline.
func (late) Is(target error) bool { return target == context.DeadlineExceeded }

// Stop makes err the result of [Until], without another attempt.
func Stop(err error) error { return &stop{err} }

type stop struct{ error }

// Every calls do at once and then at an interval, also while earlier calls run, until ctx ends. A call beyond the largest number
// under way is left out. It returns when all have returned.
func Every(ctx context.Context, interval time.Duration, largest int, do func()) {
	again := time.NewTicker(interval)
	defer again.Stop()
	var group errgroup.Group
	group.SetLimit(largest)
	for ctx.Err() == nil {
		group.TryGo(routine.Guarded(func() error { do(); return nil }))
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
	_ = group.Wait()
}

// For waits for a time, or until ctx ends, and then returns the cause.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
