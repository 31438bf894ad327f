//go:build unix

package engine

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

// refused is a URL of this machine where nothing listens before listen is called. Its port is taken.
func refused(t *testing.T) (url string, listen func() (net.Listener, error)) {
	t.Helper()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0))(t)
	bound := os.NewFile(uintptr(fd), "bound socket")
	t.Cleanup(func() { _ = bound.Close() })
	must.OK(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at := must.Get(unix.Getsockname(fd))(t)
	return fmt.Sprintf("http://127.0.0.1:%d", at.(*unix.SockaddrInet4).Port), func() (net.Listener, error) {
		if err := unix.Listen(fd, 16); err != nil {
			return nil, err
		}
		return net.FileListener(bound)
	}
}

// refusedTarget is a URL whose port refuses connections. No other server gets it as long as the test runs.
func refusedTarget(t *testing.T) string {
	t.Helper()
	url, _ := refused(t)
	return url
}

// A load of a number of requests ends with an error if no connection could be opened. Its requests alone would take
// minutes, a second each.
func TestNoConnectionEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits five seconds")
	}
	t.Parallel()
	for name, protocol := range map[string]string{"http1": "", "http2": "http2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := refused(t)
			p := load.Profile{Targets: []string{url}, Connections: 1, Protocol: protocol, Requests: 600, Timeout: 30 * time.Second, Measure: time.Hour, Drain: time.Second}
			r, err := Run(t.Context(), p, nil)
			if !errors.Is(err, ErrNoConnection) || !strings.Contains(err.Error(), strings.TrimPrefix(p.Targets[0], "http://")+": connect refused (") || hint.Of(err) == "" {
				t.Errorf("%v, hint %q", err, hint.Of(err))
			}
			if r.Requests >= p.Requests {
				t.Errorf("all %d requests were tried", r.Requests)
			}
		})
	}
}

// A load with a rate has its requests in their time, and goes on without a connection.
func TestNoConnectionAtARate(t *testing.T) {
	long(t)
	t.Parallel()
	url, _ := refused(t)
	p := load.Profile{Targets: []string{url}, Connections: 1, Rate: 10, Requests: 60, Arrivals: load.Constant, Timeout: 30 * time.Second, Measure: time.Hour, Drain: time.Second}
	r, err := Run(t.Context(), p, nil)
	if err != nil || r.Intended != p.Requests {
		t.Errorf("%v, %d of %d requests", err, r.Intended, p.Requests)
	}
}

// A server that starts late is waited for, and a connection that ends is not an error of this kind.
func TestLateServerIsLoaded(t *testing.T) {
	t.Parallel()
	url, listen := refused(t)
	late := time.AfterFunc(time.Second, func() {
		l, err := listen()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = l.Close() })
		_ = http.Serve(l, http.NotFoundHandler()) // until the listener is closed
	})
	defer late.Stop()
	p := load.Profile{Targets: []string{url}, Connections: 2, Requests: 100, Timeout: 10 * time.Second, Measure: time.Minute, Drain: time.Second}
	if r := mustRun(t, p); r.Statuses["404"] == 0 {
		t.Errorf("%v", r.Statuses)
	}
}
