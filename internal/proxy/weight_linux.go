package proxy

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// burn uses that much CPU time. It is read off the clock of the thread, not off
// the wall or a number of loops: what another process takes in between, and how
// fast the processor runs at the moment, do not count.
func burn(d time.Duration) {
	if d <= 0 {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := threadCPU() + d; threadCPU() < end; {
	}
}

func threadCPU() time.Duration {
	var t unix.Timespec
	// It fails for a clock the kernel does not know; Linux has had this one since 2.6.12.
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
