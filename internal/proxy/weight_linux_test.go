package proxy

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A burn is right to 5 % of the CPU time the whole process uses for it, the calls
// that read the clock and Go's own threads included.
func TestBurnIsExact(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, want := range []time.Duration{50 * time.Microsecond, 100 * time.Microsecond, 500 * time.Microsecond} {
		const times = 200
		before := cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID)
		for range times {
			burn(want)
		}
		if got := (cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) - before) / times; got < want || got > want+want/20+2*time.Microsecond {
			t.Errorf("asked for %v, burnt %v", want, got)
		}
	}
}

// With several workers it is the thread that burns.
func TestBurnOfAThread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const times, want = 200, 100 * time.Microsecond
	before := cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
	for range times {
		burn(want)
	}
	if got := (cpuTime(unix.CLOCK_THREAD_CPUTIME_ID) - before) / times; got < want || got > want+want/50+2*time.Microsecond {
		t.Errorf("asked for %v, burnt %v", want, got)
	}
}

func TestMemoryIsHeld(t *testing.T) {
	const mib = 64
	before := resident(t)
	b, err := hold(mib)
	if err != nil {
		t.Fatal(err)
	}
	defer release(b)
	if got := resident(t) - before; got < mib<<20*9/10 {
		t.Errorf("%d MiB more are resident, want %d", got>>20, mib)
	}
}

// resident memory of this process, bytes (proc_pid_statm(5)).
func resident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(b)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
