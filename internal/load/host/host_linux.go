package host

import (
	"time"

	"github.com/prometheus/procfs"
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

// Arrived reports whether the peer's system acknowledged any of the last written bytes of a
// connection. A server that had closed the connection before has certainly not read them.
// It is true where that is unknown, as on a Unix socket.
func Arrived(fd int32, written int) bool {
	if written == 0 {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Bytes_sent == 0 { // before Linux 4.19
		return true
	}
	const syn = 1 // counts as acknowledged
	return int64(info.Bytes_sent-info.Bytes_retrans)-int64(info.Bytes_acked)+syn < int64(written)
}

type reading struct {
	steal, all float64 // CPU seconds since boot
	pressure   float64 // s since boot in which some task waited for a CPU
}

// read reads /proc, where unreadable figures are zero.
func read() (h reading) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return h
	}
	if s, err := fs.Stat(); err == nil {
		c := s.CPUTotal
		h.steal = c.Steal
		// Guest time is part of user time already.
		h.all = c.User + c.Nice + c.System + c.Idle + c.Iowait + c.IRQ + c.SoftIRQ + c.Steal
	}
	if p, err := fs.PSIStatsForResource("cpu"); err == nil && p.Some != nil {
		h.pressure = float64(p.Some.Total) / 1e6
	}
	return h
}
