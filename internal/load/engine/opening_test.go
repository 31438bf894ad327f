package engine

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/load"
)

// refused is a URL of this machine where nothing listens.
func refused(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return "http://" + l.Addr().String()
}

// A load of a number of requests ends with an error if no connection could be opened. Its requests alone would take
// minutes, a second each.
func TestNoConnectionEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits five seconds")
	}
	t.Parallel()
	for name, protocol := range map[string]string{load.EngineEpoll: "", load.EnginePortable: "", "http2": "http2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := load.Profile{Targets: []string{refused(t)}, Connections: 1, Protocol: protocol, Requests: 600, Timeout: 30 * time.Second, Measure: time.Hour, Drain: time.Second}
			if name == load.EnginePortable {
				p.Engine = name
			}
			r, err := Run(t.Context(), p, nil)
			if !errors.Is(err, errNoConnection) || !strings.Contains(err.Error(), strings.TrimPrefix(p.Targets[0], "http://")+": connect refused (") || hint.Of(err) == "" {
				t.Errorf("%v, hint %q", err, hint.Of(err))
			}
			if r.Requests >= p.Requests {
				t.Errorf("all %d requests were tried", r.Requests)
			}
		})
	}
}

// A server that starts late is waited for, and a connection that ends is not an error of this kind.
func TestLateServerIsLoaded(t *testing.T) {
	t.Parallel()
	url := refused(t)
	late := time.AfterFunc(time.Second, func() {
		l, err := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
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
