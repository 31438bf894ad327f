package engine

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// holding is a server that holds a number of connections and closes any other at once.
func holding(most int64, accepted *atomic.Int64) func(net.Conn) {
	var open atomic.Int64
	return func(c net.Conn) {
		accepted.Add(1)
		defer open.Add(-1)
		if open.Add(1) <= most {
			replying(helloResponse)(c)
		}
	}
}

// TestServerThatHoldsFewerConnections checks that connections which the server closes unused
// are opened again rarely, and that the report names the server's limit.
func TestServerThatHoldsFewerConnections(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{200, 0} {
		var accepted atomic.Int64
		p := profile(rawServer(t, holding(20, &accepted)))
		p.Connections, p.Rate, p.Warmup, p.Tail, p.Measure = 64, rate, 0, 0, time.Second
		r := mustRun(t, p)
		// 200 a second by the budget, and the first attempts; without one, tens of thousands.
		if n := accepted.Load(); n > 64+1000 || r.Reconnects > 1000 {
			t.Errorf("rate %v: %d connections accepted, %d reconnects", rate, n, r.Reconnects)
		}
		if r.Held < 10 || r.Held > 40 || r.ClosedUnused < 44 || !strings.Contains(strings.Join(r.Warnings, "\n"), "the server holds only") {
			t.Errorf("rate %v: %d held, %d closed unused: %q", rate, r.Held, r.ClosedUnused, r.Warnings)
		}
		if rate > 0 && r.Requests != 200 {
			t.Errorf("%d requests, want 200", r.Requests)
		}
	}
}

// TestPrewarmEnds checks that a load begins though connections cannot be opened: the listener
// never accepts, and its queue is full.
func TestPrewarmEnds(t *testing.T) {
	t.Parallel()
	p := profile("http://" + fullListener(t))
	p.Connections, p.Timeout, p.Warmup, p.Tail, p.Measure, p.Drain = 1000, 300*time.Millisecond, 0, 0, brief(), 0
	began := time.Now()
	r := mustRun(t, p)
	// One batch of 64 after another would take 15 times the time-out.
	if took := r.Started.Sub(began); took > 10*p.Timeout || r.Connected == 1000 {
		t.Errorf("began after %v, with %d connections", took, r.Connected)
	}
}

// fullListener is the address of a listener that accepts nothing and has no room for more.
func fullListener(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
}
