package proxy

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// burn uses d of CPU time, measured with a CPU clock. Preemption by other
// processes and the CPU's current frequency have no effect.
//
// With one worker it uses the clock of the process. Go's sysmon thread wakes
// every 20 µs while a goroutine runs, and costs nearly a tenth more. The burn
// causes this cost, so it belongs to the weight, and nothing else runs
// meanwhile. With several workers other goroutines may run, so burn uses the
// clock of the thread.
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
	// ClockGettime fails only for unknown clocks, and Linux has had these since
	// 2.6.12.
	_ = unix.ClockGettime(clock, &t)
	return time.Duration(t.Nano())
}
