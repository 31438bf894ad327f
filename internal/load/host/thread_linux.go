package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// PrepareThread makes the calling thread punctual (timer slack 1 ns instead of
// 50 µs) and pins it to cpu, if that is not negative. The caller has locked it.
func PrepareThread(cpu int) error {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// prioritise makes the calling thread wake up before all others, where the process may do that. The
// thread must sleep most of the time.
func prioritise() {
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1}, 0)
}

// Sleep blocks the calling thread for max d, and less if a signal arrives. Unlike [time.Sleep] it
// wakes up as punctually as the thread's timer slack allows.
func Sleep(d time.Duration) {
	if d > 0 {
		ts := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&ts, nil)
	}
}

// ThreadCPU is the CPU time of the calling thread, processCPU of all threads,
// ended ones included.
func ThreadCPU() time.Duration { return clockCPU(unix.CLOCK_THREAD_CPUTIME_ID) }

func ProcessCPU() time.Duration { return clockCPU(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clockCPU(id int32) time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// AllowedCPUs is how many processors this process may run on.
func AllowedCPUs() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 1
	}
	return set.Count()
}

// Preempted counts how often the calling thread was taken off its processor
// while it had work: on a core of its own, hardly ever.
func Preempted() int64 {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &ru) != nil {
		return 0
	}
	return ru.Nivcsw
}
