package host

import (
	"context"
	"runtime"
	"time"
)

// LockPunctual locks the calling goroutine to a thread that wakes up punctually. It is never unlocked: the thread, with its
// timer slack, ends with the goroutine.
func LockPunctual() {
	runtime.LockOSThread()
	_ = PrepareThread(-1) // pins nothing, so it cannot fail
	prioritise()
}

// nap bounds a sleep, so that the end of a context is noticed.
const nap = 50 * time.Millisecond

// SleepUntil blocks the calling thread until an instant. The error is the cause of ctx's end before it.
func SleepUntil(ctx context.Context, at time.Time) error {
	for wait := time.Until(at); wait > 0; wait = time.Until(at) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		Sleep(min(wait, nap))
	}
	return nil
}
