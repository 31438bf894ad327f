package proxy

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// burn uses that much CPU time. It is read off a CPU clock, not off the wall or
// a number of loops: what another process takes in between, and how fast the
// processor runs at the moment, do not count.
//
// With one worker it is the clock of the process. While a goroutine runs, Go's
// own watchman thread wakes every 20 µs and costs near a tenth as much again;
// that is burnt because we burn, and belongs to the weight. Nothing else runs
// meanwhile. With several workers others may, and it is the clock of the thread.
func burn(d time.Duration) {
	if d <= 0 {
		return
	}
	clock := int32(unix.CLOCK_PROCESS_CPUTIME_ID)
	if runtime.GOMAXPROCS(0) > 1 {
		clock = unix.CLOCK_THREAD_CPUTIME_ID
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := cpuTime(clock) + d; cpuTime(clock) < end; {
	}
}

func cpuTime(clock int32) time.Duration {
	var t unix.Timespec
	// It fails for a clock the kernel does not know; Linux has had these since 2.6.12.
	_ = unix.ClockGettime(clock, &t)
	return time.Duration(t.Nano())
}
