package proxy

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/test/must"
)

// A burn is exact to 5 % of the CPU time of the whole process, including clock
// readings and the threads of the Go runtime.
func TestBurnIsExact(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, want := range []time.Duration{50 * time.Microsecond, 100 * time.Microsecond, 500 * time.Microsecond} {
		limit := want + want/20 + 2*time.Microsecond
		if got := burnt(unix.CLOCK_PROCESS_CPUTIME_ID, want, limit); got < want || got > limit {
			t.Errorf("asked for %v, burnt %v", want, got)
		}
	}
}

// undisturbed bounds the wait for an attempt that other load does not disturb. A
// disturbance can last a second: on two busy processors, 14 attempts in a row were
// above the limit.
const undisturbed = 20 * time.Second

// burnt returns the mean CPU time by clock of one burn of d. It retries while
// the mean is above limit: other load on the machine only increases it.
func burnt(clock int32, d, limit time.Duration) time.Duration {
	least := time.Duration(math.MaxInt64)
	for start := time.Now(); time.Since(start) < undisturbed; {
		const times = 200
		before := cpuTime(clock)
		for range times {
			burn(d)
		}
		if least = min(least, (cpuTime(clock)-before)/times); least <= limit {
			break
		}
	}
	return least
}

// With several workers burn uses the clock of the thread.
func TestBurnOfAThread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const want = 100 * time.Microsecond
	const limit = want + want/50 + 2*time.Microsecond
	if got := burnt(unix.CLOCK_THREAD_CPUTIME_ID, want, limit); got < want || got > limit {
		t.Errorf("asked for %v, burnt %v", want, got)
	}
}

func TestMemoryIsHeld(t *testing.T) {
	const mib = 64
	before := resident(t)
	b := must.Get(hold(mib))(t)
	defer release(b)
	if got := resident(t) - before; got < mib<<20*9/10 {
		t.Errorf("%d MiB more are resident, want %d", got>>20, mib)
	}
}

// resident returns the resident memory of this process, bytes
// (proc_pid_statm(5)).
func resident(t *testing.T) int64 {
	t.Helper()
	b := must.Get(os.ReadFile("/proc/self/statm"))(t)
	pages := must.Get(strconv.ParseInt(string(bytes.Fields(b)[1]), 10, 64))(t)
	return pages * int64(os.Getpagesize())
}
