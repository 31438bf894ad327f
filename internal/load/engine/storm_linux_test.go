package engine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
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
		// 200 a second by the budget, and the first attempts. Without one, tens of thousands.
		if n := accepted.Load(); n > 64+1000 || r.Reconnects > 1000 {
			t.Errorf("rate %v: %d connections accepted, %d reconnects", rate, n, r.Reconnects)
		}
		if d := difftest.Wrong("r.Held < 10", r.Held < 10, "r.Held > 40", r.Held > 40, "r.ClosedUnused < 44", r.ClosedUnused < 44, `!strings.Contains(strings.Join(r.Warnings, "\n"), "the server holds only")`, !strings.Contains(strings.Join(r.Warnings, "\n"), "the server holds only")); d != "" {
			t.Errorf("%s: rate %v: %d held, %d closed unused: %q", d, rate, r.Held, r.ClosedUnused, r.Warnings)
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
	p.Connections, p.Timeout, p.Warmup, p.Tail, p.Measure, p.Drain = 1000, 300*time.Millisecond, 0, 0, brief, 0
	began := time.Now()
	r := mustRun(t, p)
	// One batch of 64 after another would take 15 times the timeout.
	if took := r.Started.Sub(began); took > 10*p.Timeout || r.Connected == 1000 {
		t.Errorf("began after %v, with %d connections", took, r.Connected)
	}
}

// TestDeadAddress checks that a name with an address that does not answer keeps its
// connections: the next address is tried in time.
func TestDeadAddress(t *testing.T) {
	t.Parallel()
	port := onAddresses(t, replying(helloResponse), "127.0.0.1")
	n := must.Get(strconv.Atoi(port))(t)
	fullListenerOn(t, [4]byte{127, 0, 0, 2}, n)
	p := profile("http://two.test:" + port)
	p.Timeout, p.Rate, p.Connections, p.Warmup, p.Tail = 10*time.Second, 100, 4, 0, 0
	r, err := run(t.Context(), p, nil, func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")}, nil
	})
	if err != nil {
		t.Errorf("%v: %d connected to %v, %v, %v", err, r.Connected, r.Addresses, r.ConnectErrors, r.Classes)
	} else if d := difftest.Of("r.Connected", r.Connected, 4, "r.Classes[load.OK]", r.Classes[load.OK], 50, `r.Addresses["127.0.0.1:"+port]`, r.Addresses["127.0.0.1:"+port], 4, `r.ConnectErrors["timeout"] == 0`, r.ConnectErrors["timeout"] == 0, false); d != "" {
		t.Errorf("%s: %v: %d connected to %v, %v, %v", d, err, r.Connected, r.Addresses, r.ConnectErrors, r.Classes)
	}
}

// fullListener is the address of a listener that accepts nothing and has no room for more.
func fullListener(t *testing.T) string {
	t.Helper()
	return fullListenerOn(t, [4]byte{127, 0, 0, 1}, 0)
}

func fullListenerOn(t *testing.T, ip [4]byte, port int) string {
	t.Helper()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	must.OK(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: ip, Port: port}))
	must.OK(t, unix.Listen(fd, 1))
	sa := must.Get(unix.Getsockname(fd))(t)
	address := fmt.Sprintf("%d.%d.%d.%d:%d", ip[0], ip[1], ip[2], ip[3], sa.(*unix.SockaddrInet4).Port)
	for { // fill its queue
		c, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { c.Close() })
	}
}
