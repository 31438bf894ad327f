package proxy

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// A burn is right to 2 % of the CPU time of the thread that burns, the calls that read the clock included.
func TestBurnIsExact(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, want := range []time.Duration{50 * time.Microsecond, 100 * time.Microsecond, 500 * time.Microsecond} {
		const times = 200
		before := threadCPU()
		for range times {
			burn(want)
		}
		if got := (threadCPU() - before) / times; got < want || got > want+want/50+2*time.Microsecond {
			t.Errorf("asked for %v, burnt %v", want, got)
		}
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
