//go:build linux

package service

import (
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/part"
)

// The race detector of make race alone has these tests, as in the load engine.
var _ = part.Of("race", TestGRPC, TestRedirects, TestSleepIsRight, TestStatus, TestWebSocket, TestWebSocketEnds)

func TestMain(m *testing.M) { part.M{M: m}.Run() }

// paced calls f at a rate, each time in a goroutine of its own, and waits for
// all.
func paced(t *testing.T, rate, n int, f func(i int)) {
	var all sync.WaitGroup
	start := time.Now()
	for i := range n {
		_ = sleep(t.Context(), time.Until(start.Add(time.Duration(i)*time.Second/time.Duration(rate))))
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// Waits are exact to 2 % at 100 and at 1000 requests per second, in the median.
// The test retries because the machine may be busy: a wrong wait is wrong in
// every attempt.
func TestSleepIsRight(t *testing.T) {
	part := 2 // of a second's sleeps
	if testing.Short() {
		t.Attr("short", "for a tenth of a second")
		part = 10
	}
	for _, tc := range []struct {
		rate int
		wait time.Duration
	}{{100, 100 * time.Millisecond}, {1000, 100 * time.Millisecond}, {100, 10 * time.Millisecond}, {1000, 10 * time.Millisecond}} {
		n := tc.rate / part
		off := math.Inf(1)
		for try := 0; try < 20 && off > 0.02; try++ {
			took := make([]time.Duration, n)
			paced(t, tc.rate, n, func(i int) {
				start := time.Now()
				if err := sleep(t.Context(), tc.wait); err != nil {
					t.Error(err)
				}
				took[i] = time.Since(start)
			})
			slices.Sort(took)
			median := took[n/2]
			t.Logf("%v at %d/s: median %v, p99 %v", tc.wait, tc.rate, median, took[n*99/100])
			if took[0] < tc.wait-maxLate {
				t.Errorf("%v at %d/s: woken after %v", tc.wait, tc.rate, took[0])
			}
			off = math.Abs(float64(median-tc.wait)) / float64(tc.wait)
		}
		if off > 0.02 {
			t.Errorf("%v at %d/s is off by %.1f %%", tc.wait, tc.rate, 100*off)
		}
	}
}

// spin uses d of CPU time as exactly as possible: it reads the clock all the
// time.
func spin(d time.Duration) {
	for start := threadTime(); threadTime()-start < d; {
	}
}

// Burnt CPU time is exact to 2 % by the CPU clock of the thread. Every second
// request spins instead: cold caches and thread switches of the machine affect
// both equally.
func TestBurnIsRight(t *testing.T) {
	part := 1 // of a second's requests
	if testing.Short() {
		t.Attr("short", "for a quarter of a second")
		part = 4
	}
	calibrated()
	for _, tc := range []struct {
		rate int
		cpu  time.Duration
	}{{100, time.Millisecond}, {1000, 100 * time.Microsecond}, {1000, 200 * time.Microsecond}} {
		n := tc.rate / part
		off := math.Inf(1)
		for range 20 { // one undisturbed attempt is enough
			var used [2][]time.Duration
			all := make([]time.Duration, n)
			paced(t, tc.rate, n, func(i int) {
				all[i] = onThread(func() { []func(time.Duration){burn, spin}[i%2](tc.cpu) })
			})
			for i, u := range all {
				used[i%2] = append(used[i%2], u)
			}
			slices.Sort(used[0])
			slices.Sort(used[1])
			burnt, spun := used[0][n/4], used[1][n/4]
			t.Logf("%v at %d/s: median %v, p99 %v; spinning %v", tc.cpu, tc.rate, burnt, used[0][n/2*99/100], spun)
			for _, ideal := range []time.Duration{tc.cpu, spun} {
				off = min(off, math.Abs(float64(burnt)/float64(ideal)-1))
			}
			if off <= 0.02 {
				break
			}
		}
		if off > 0.02 {
			t.Errorf("%v at %d/s is off by %.1f %%", tc.cpu, tc.rate, 100*off)
		}
	}
}

func processTime(t testing.TB) time.Duration {
	t.Helper()
	var ts unix.Timespec
	must.OK(t, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts))
	return time.Duration(ts.Nano())
}

// The kernel accounts the configured CPU time to the process, including locking
// and clock readings. Spinning beside it shows what a busy machine adds to both.
func TestBurnByTheProcessClock(t *testing.T) {
	const cpu, n = 2 * time.Millisecond, 200
	calibrated()
	off := math.Inf(1)
	for try := 0; try < 20 && off > 0.02; try++ { // one undisturbed attempt is enough
		var used [2]time.Duration
		for range n {
			for i, use := range []func(time.Duration){burn, spin} {
				start := processTime(t)
				onThread(func() { use(cpu) })
				used[i] += processTime(t) - start
			}
		}
		for _, ideal := range []time.Duration{n * cpu, used[1]} {
			off = min(off, math.Abs(float64(used[0])/float64(ideal)-1))
		}
	}
	if off > 0.02 {
		t.Errorf("off by %.1f %%", 100*off)
	}
}

// onThread returns the CPU time that f uses on its thread.
func onThread(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	f()
	return threadTime() - start
}

// BenchmarkAgainstBare compares the CPU time of an echo with the CPU time of a bare
// net/http handler with the same response. It adds up client and server, and
// alternates the two so that other load affects both equally.
func BenchmarkAgainstBare(b *testing.B) {
	body := []byte(strings.Repeat("x", 1024))
	s := must.Get(New(app.Instance{Name: "s", Behavior: app.Behavior{ResponseSize: app.FixedSize(1024)}}, Options{}))(b)
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", "1024")
		_, _ = w.Write(body)
	}))
	defer bare.Close()
	served := httptest.NewServer(s)
	defer served.Close()
	var used [2][]time.Duration
	const requests = 200
	for b.Loop() {
		for i, url := range []string{bare.URL, served.URL} {
			start := processTime(b)
			for range requests {
				get(b, url)
			}
			used[i] = append(used[i], (processTime(b)-start)/requests)
		}
	}
	slices.Sort(used[0])
	slices.Sort(used[1])
	one, other := used[0][len(used[0])/2], used[1][len(used[1])/2]
	b.ReportMetric(float64(other)/float64(one), "service/bare")
}
