package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func profile(urls ...string) load.Profile {
	return load.Profile{
		Targets: urls, Rate: 500, Arrivals: load.Constant, Connections: 8, Timeout: 20 * time.Second,
		Warmup: 200 * time.Millisecond, Measure: 500 * time.Millisecond, Tail: 100 * time.Millisecond, Drain: 20 * time.Second, // a busy machine is not a failure
		ExpectSize: -1,
	}
}

// atRate makes p a load at a rate, or a closed loop of n requests, however long a busy
// machine takes for them.
func atRate(p load.Profile, rate float64, n int64) load.Profile {
	if p.Rate = rate; rate == 0 {
		p.Requests, p.Measure, p.Tail = n, time.Minute, 0
	}
	return p
}

func mustRun(t testing.TB, p load.Profile) load.Report {
	t.Helper()
	r := must.Get(Run(t.Context(), p, nil))(t)
	if t.Failed() || testing.Verbose() {
		b, _ := json.Marshal(r)
		t.Logf("%s", b)
	}
	var ended int64
	for _, n := range r.Classes {
		ended += n
	}
	if ended != r.Requests || r.Intended != ended {
		t.Errorf("%d intended, %d ended: a request was lost", r.Intended, ended)
	}
	return r
}

func TestOpenLoopSendsTheScheduleExactly(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			p := profile(rawServer(t, replying(helloResponse)))
			p.Workers, p.ExpectSize = workers, 5
			r := mustRun(t, p)
			if d := difftest.Of("r.Intended", r.Intended, 250, "r.Sent", r.Sent, 250, "r.Classes[load.OK]", r.Classes[load.OK], 250, "r.ResponseMS.Count", r.ResponseMS.Count, 250, "r.LatenessUS.Count", r.LatenessUS.Count, 250); d != "" {
				t.Errorf("%s: not the 250 requests of half a second at 500/s: %+v", d, r)
			}
			if r.Loop != "open" || r.Arrivals != load.Constant || r.Statuses["200"] != 250 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestClosedLoopKeepsEveryConnectionBusy(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	answer := replying(helloResponse)
	p := profile(rawServer(t, func(c net.Conn) {
		conns.Add(1)
		answer(c)
	}))
	p.Workers = 2
	r := mustRun(t, atRate(p, 0, 500))
	if r.Loop != "closed" || r.Requests != 500 || r.Classes[load.OK] != r.Requests {
		t.Errorf("%+v", r)
	}
	if conns.Load() != 8 || r.Connected != 8 || r.Reconnects != 0 {
		t.Errorf("%d connections opened, %d again, want 8 and 0", conns.Load(), r.Reconnects)
	}
	if r.ResponseMS != r.ServiceMS {
		t.Error("closed loop: response and service time differ")
	}

}

func TestTargetsAreVisitedInTurn(t *testing.T) {
	t.Parallel()
	var a, b atomic.Int64
	count := func(n *atomic.Int64) func(net.Conn) {
		return answering(func(c net.Conn, _ int) bool {
			n.Add(1)
			_, err := c.Write([]byte(helloResponse))
			return err == nil
		})
	}
	r := mustRun(t, profile(rawServer(t, count(&a)), rawServer(t, count(&b))))
	if r.Classes[load.OK] != 250 || a.Load() != b.Load() {
		t.Errorf("%d and %d requests reached the two targets", a.Load(), b.Load())
	}

}

// TestAgainstNetHTTP runs against net/http with bodies in both directions and every common framing.
func TestAgainstNetHTTP(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := http.MaxBytesReader(w, r.Body, 1<<20)
		var got int
		for b := make([]byte, 4096); ; {
			k, err := n.Read(b)
			got += k
			if err != nil {
				break
			}
		}
		if got != 70_000 || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(http.StatusEarlyHints)
		for range 4 { // no Content-Length: chunked
			fmt.Fprint(w, strings.Repeat("y", 25_000))
			w.(http.Flusher).Flush()
		}
	}))
	defer s.Close()
	p := profile(s.URL + "/x?y=z")
	p.RequestSize, p.ExpectSize, p.Rate = 70_000, 100_000, 100
	if r := mustRun(t, p); r.Classes[load.OK] != 50 {
		t.Errorf("%+v", r)
	}

}

// TestStoppedServerShowsInResponseTime stops a server for a second at 1,000
// requests/s. The response times include the wait from the intended start. The
// service times do not: most requests were sent only after the stop.
func TestStoppedServerShowsInResponseTime(t *testing.T) {
	long(t)
	var resumed atomic.Int64 // when the server went on, ns after it stopped
	var begin atomic.Int64   // unix ns of the first request after the warm-up. The stop lasts from 500 ms to 1500 ms after it
	began := time.Now()
	p := profile(rawServer(t, answering(func(c net.Conn, _ int) bool {
		begin.CompareAndSwap(0, int64(time.Since(began)))
		stop := time.Duration(begin.Load()) + 500*time.Millisecond
		if d := time.Since(began) - stop; d > 0 && d < time.Second {
			time.Sleep(time.Second - d)
			resumed.CompareAndSwap(0, int64(time.Since(began)-stop))
		}
		_, err := c.Write([]byte(helloResponse))
		return err == nil
	})))
	p.Rate, p.Warmup, p.Measure, p.Timeout = 1000, 0, 2*time.Second, 5*time.Second
	p.HDRPath = filepath.Join(t.TempDir(), "latency.hdr")
	r := mustRun(t, p)
	if r.Classes[load.OK] != 2000 {
		t.Fatalf("%+v", r)
	}
	response, service := hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3), hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)
	eachLine(t, p.HDRPath, func(_ int, tag string, h *hdrhistogram.Histogram) {
		switch tag {
		case load.TagResponse + string(load.OK):
			response.Merge(h)
		case load.TagService + string(load.OK):
			service.Merge(h)
		}
	})
	slow, slowService := above(response, 500*time.Millisecond), above(service, 500*time.Millisecond)
	// Those intended until half a second before the server went on: 500, or a
	// little more by as much as the server overslept, and the queue took to empty
	// on a machine that others use. None may be missing.
	want := (resumed.Load() - 500e6) / 1e6
	if slow < want-10 || slow > want+300 {
		t.Errorf("%d requests took more than 500 ms from their intended start, want %d", slow, want)
	}
	if slowService != int64(p.Connections) {
		t.Errorf("%d requests were under way for more than 500 ms, want one per connection (%d)", slowService, p.Connections)
	}
	if r.QueueMax < 900 {
		t.Errorf("the queue grew to %d, want nearly 1000", r.QueueMax)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "waited for a free connection") {
		t.Errorf("no warning about the wait: %q", r.Warnings)
	}
	if r.OwnLatenessUS.P99 > r.LatenessUS.P99/10 {
		t.Errorf("the wait for the server is charged to the generator: own lateness %v, lateness %v", r.OwnLatenessUS, r.LatenessUS)
	}

}

func above(h *hdrhistogram.Histogram, d time.Duration) (n int64) {
	for _, b := range h.Distribution() {
		if b.From > int64(d) {
			n += b.Count
		}
	}
	return n
}

func eachLine(t *testing.T, path string, line func(second int, tag string, h *hdrhistogram.Histogram)) {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	must.OK(t, hdrlog.ReadSeconds(f, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		line(second, tag, hdrlog.Dense(h))
		return nil
	}))
}

// The lines of the log are seconds, divided at the edges of the measure window.
func TestLogHasALinePerSecondOfTheSchedule(t *testing.T) {
	long(t)
	p := profile(rawServer(t, replying(helloResponse)))
	p.Workers, p.Measure, p.HDRPath = 2, 2*time.Second, filepath.Join(t.TempDir(), "l.hdr")
	mustRun(t, p)
	got := map[string]int64{}
	f := must.Get(os.Open(p.HDRPath))(t)
	defer f.Close()
	must.OK(t, hdrlog.ReadIntervals(f, func(from, to time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
		got[fmt.Sprint(from, to, tag)] += h.TotalCount()
		return nil
	}))
	want := map[string]int64{}
	for _, line := range []struct{ from, to time.Duration }{{0, 200}, {200, 1000}, {1000, 2000}, {2000, 2200}, {2200, 3000}} {
		for _, tag := range []string{"response.2xx", "service.2xx", "lateness"} {
			n := min(line.to, 2300) - line.from // 500 requests/s
			want[fmt.Sprint(line.from*time.Millisecond, line.to*time.Millisecond, tag)] = int64(n) / 2
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestStopReportsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := profile(rawServer(t, replying(helloResponse)))
	p.Measure = time.Minute
	seconds := 0
	r, err := Run(ctx, p, func(load.Progress) {
		if seconds++; seconds == 1 {
			cancel()
		}
	})
	must.OK(t, err)
	length := r.MeasureEnd.Sub(r.MeasureStart)
	if d := difftest.Wrong("length < 500*time.Millisecond", length < 500*time.Millisecond, "length > 20*time.Second", length > 20*time.Second, "r.Classes[load.OK] == 0", r.Classes[load.OK] == 0, "r.Intended != r.Requests", r.Intended != r.Requests); d != "" {
		t.Errorf("%s: window of %v: %+v", d, length, r)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "stopped before") {
		t.Errorf("no warning: %q", r.Warnings)
	}
	cancel()
	if r, err = Run(ctx, p, nil); err != nil || !strings.HasPrefix(r.Verdict, "invalid: stopped before the measure window") {
		t.Errorf("stopped at once: %v, %v", r.Verdict, err)
	}

}

func TestNoDescriptorIsLeaked(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc") // other systems; never on the CI's
		}
		return len(fds)
	}
	p := profile(refusedTarget(t), refusedTarget(t))
	run := func() {
		p.Measure, p.Tail, p.Drain = 100*time.Millisecond, 0, 0
		mustRun(t, p)
	}
	run()
	before := count()
	for range 3 {
		run()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
