package engine

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// TestNewConnectionsPerSecond checks that connections are replaced at the rate asked for, with no request lost: over
// HTTP/1.1 and HTTP/2, whose streams overlap, with and without TLS, also if the rates do not divide.
func TestNewConnectionsPerSecond(t *testing.T) {
	t.Parallel()
	a := serverAuthority(t)
	for name, test := range map[string]struct {
		protocol string
		tls      bool
	}{
		"HTTP/1.1":          {load.ProtocolHTTP1, false},
		"HTTP/1.1 over TLS": {load.ProtocolHTTP1, true},
		"HTTP/2 over TLS":   {load.ProtocolHTTP2, true},
		"HTTP/2":            {load.ProtocolHTTP2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var accepted atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				time.Sleep(20 * time.Millisecond) // the work of this handler
			}))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					accepted.Add(1)
				}
			}
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetHTTP1(true)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Config.Protocols.SetHTTP2(true)
			s.TLS, s.EnableHTTP2 = a.config(t, "server"), true
			start := s.Start
			if test.tls {
				start = s.StartTLS
			}
			start()
			t.Cleanup(s.Close)
			p := profile(strings.Replace(s.URL, "example.com", "127.0.0.1", 1))
			if test.tls {
				p = a.trusting(p)
			}
			p.Protocol, p.Connections, p.Rate, p.ConnectionRate = test.protocol, 20, 300, 70
			p.Warmup, p.Measure, p.Tail, p.ExpectSize = 0, 2*time.Second, 0, 0
			r := mustRun(t, p)
			const want = 2 * 70
			if r.Requests != 600 || r.Classes[load.OK] != 600 {
				t.Errorf("%d requests, %v, %v, want 600 without a failure", r.Requests, r.Classes, r.Errors)
			}
			var unopened int64
			for _, n := range r.ConnectErrors {
				unopened += n
			}
			// Counts of the whole run: a busy machine ends it after the window, maybe while the server accepts a connection.
			if d := difftest.Wrong("r.Reconnects < want-20", r.Reconnects < want-20, "r.Reconnects > want+20", r.Reconnects > want+20,
				"r.Opened == 0", r.Opened == 0, "r.Opened > r.Whole.Connections", r.Opened > r.Whole.Connections, "accepted.Load() < r.Whole.Connections", accepted.Load() < r.Whole.Connections, "accepted.Load() > r.Whole.Connections+unopened", accepted.Load() > r.Whole.Connections+unopened); d != "" {
				t.Errorf("%s: %d connections opened in the window, %d reconnects, want %d; %d accepted, %d in all, and %d that failed", d, r.Opened, r.Reconnects, want, accepted.Load(), r.Whole.Connections, unopened)
			}
			if testing.Short() {
				t.Attr("short", "the wait for replaced connections is not judged")
			} else if test.protocol == load.ProtocolHTTP2 && r.Generator.OK && r.ResponseMS.P99 > 10*r.ResponseMS.P50 {
				t.Errorf("requests waited for replaced connections: %+v", r.ResponseMS)
			}
		})
	}
}

func TestNewConnectionsNeedRequests(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*load.Profile){
		"need a rate of requests, not max":                  func(p *load.Profile) { p.Rate = 0 },
		"600 new connections/s with 500 requests/s":         func(p *load.Profile) { p.ConnectionRate = 600 },
		"a connection for every request":                    func(p *load.Profile) { p.NoKeepAlive = true },
		"websocket does not support new connections per se": func(p *load.Profile) { p.Protocol = load.ProtocolWebSocket },
	} {
		p := profile("http://127.0.0.1:1/")
		p.Rate, p.ConnectionRate = 500, 50
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
