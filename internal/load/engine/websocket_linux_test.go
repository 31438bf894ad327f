package engine

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// socketServer is gorilla's server with counts of what came.
type socketServer struct {
	handshakes, messages, bytes, pings, pongs, closes atomic.Int64
	asked                                             atomic.Int64 // pings of the server
	answer                                            func(c *websocket.Conn, kind int, message []byte, n int) error
	ping                                              time.Duration // between pings, 0 for none
}

// echo sends a message back.
func echo(c *websocket.Conn, kind int, message []byte, _ int) error {
	return c.WriteMessage(kind, message)
}

func (s *socketServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/chat" {
		http.Error(w, "no such chat", http.StatusNotFound)
		return
	}
	up := websocket.Upgrader{Subprotocols: []string{"two"}, CheckOrigin: func(*http.Request) bool { return true }, EnableCompression: true}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	s.handshakes.Add(1)
	c.SetPongHandler(func(string) error { s.pongs.Add(1); return nil })
	reply := c.PingHandler()
	c.SetPingHandler(func(text string) error { s.pings.Add(1); return reply(text) })
	if s.ping > 0 {
		over := make(chan struct{})
		defer close(over)
		go func() {
			for every := time.NewTicker(s.ping); ; {
				select {
				case <-over:
					every.Stop()
					return
				case <-every.C:
					s.asked.Add(1)
					_ = c.WriteControl(websocket.PingMessage, []byte("are you there"), time.Now().Add(time.Minute))
				}
			}
		}()
	}
	for n := 0; ; n++ {
		kind, message, err := c.ReadMessage()
		if err != nil {
			if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				s.closes.Add(1)
			}
			return
		}
		s.messages.Add(1)
		s.bytes.Add(int64(len(message)))
		if s.answer != nil && s.answer(c, kind, message, n) != nil {
			return
		}
	}
}

// startSockets starts s, over TLS with a certificate of a, and returns its URL of scheme ws or wss.
func startSockets(t *testing.T, s http.Handler, a *authority) string {
	t.Helper()
	server := httptest.NewUnstartedServer(s)
	if a != nil {
		server.TLS = a.config(t, "server")
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http") + "/chat"
}

func socketProfile(url string) load.Profile {
	p := profile(url)
	p.Protocol, p.Connections, p.Warmup, p.Tail = load.ProtocolWebSocket, 4, 0, 0
	return p
}

// The server has each message once and whole, and each comes back. The connections end with a close.
func TestWebSocketEcho(t *testing.T) {
	t.Parallel()
	a := serverAuthority(t)
	for _, secure := range []*authority{nil, a} {
		for _, size := range []int64{0, 5, 126, 70_000, 1_000_000} {
			for _, rate := range []float64{100, 0} {
				s := &socketServer{answer: echo}
				p := socketProfile(startSockets(t, s, secure))
				p.Rate, p.Requests, p.Measure, p.RequestSize, p.Headers = rate, 40, 20*time.Second, size, []string{"Sec-WebSocket-Protocol: one, two"}
				if secure != nil {
					p = secure.trusting(p)
				}
				r := mustRun(t, p)
				if d := difftest.Of("r.Requests", r.Requests, 40, "r.Classes[load.OK]", r.Classes[load.OK], 40, "r.Connected", r.Connected, 4, "r.Reconnects", r.Reconnects, 0, "r.Protocol", r.Protocol, load.ProtocolWebSocket); d != "" {
					t.Errorf("%s: %d bytes at %v/s: %+v", d, size, rate, r)
				}
				if s.messages.Load() != 40 || s.bytes.Load() != 40*size || s.handshakes.Load() != 4 {
					t.Errorf("%d bytes at %v/s: the server has %d messages, %d bytes, %d connections", size, rate, s.messages.Load(), s.bytes.Load(), s.handshakes.Load())
				}
				for deadline := time.Now().Add(20 * time.Second); s.closes.Load() != 4; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("the server has %d closes with status 1000", s.closes.Load())
					}
				}
			}
		}
	}
}

func TestWebSocketOfEachRequest(t *testing.T) {
	t.Parallel()
	s := &socketServer{answer: echo}
	p := socketProfile(startSockets(t, s, nil))
	p.NoKeepAlive, p.Requests, p.Measure, p.Rate = true, 20, 20*time.Second, 200
	if r := mustRun(t, p); r.Classes[load.OK] != 20 || s.handshakes.Load() != 20 {
		t.Errorf("%d connections at the server: %+v", s.handshakes.Load(), r)
	}
}

// Pings of the server are answered, on idle connections too.
func TestWebSocketPings(t *testing.T) {
	t.Parallel()
	for _, a := range []*authority{nil, serverAuthority(t)} {
		s := &socketServer{answer: echo, ping: 5 * time.Millisecond}
		p := socketProfile(startSockets(t, s, a))
		p.Rate, p.Measure, p.Connections = 2, time.Second, 8 // six connections have no request
		if a != nil {
			p = a.trusting(p)
		}
		if r := mustRun(t, p); r.Classes[load.OK] != 2 {
			t.Errorf("%d pongs to %d pings: %+v", s.pongs.Load(), s.asked.Load(), r)
		} else if d := difftest.Of("r.Reconnects", r.Reconnects, 0, "r.IdleClosed", r.IdleClosed, 0, "s.asked.Load() < 8", s.asked.Load() < 8, false, "4*s.pongs.Load() < 3*s.asked.Load()", 4*s.pongs.Load() < 3*s.asked.Load(), false); d != "" {
			t.Errorf("%s: %d pongs to %d pings: %+v", d, s.pongs.Load(), s.asked.Load(), r)
		}
	}
}

// One-way messages end with the pong to the ping that follows each.
func TestWebSocketOneWay(t *testing.T) {
	t.Parallel()
	s := &socketServer{}
	p := socketProfile(startSockets(t, s, nil))
	p.Rate, p.Requests, p.Measure, p.RequestSize, p.WebSocket = 200, 50, 20*time.Second, 1000, &load.WebSocket{Answer: load.AnswerPong}
	if r := mustRun(t, p); r.Classes[load.OK] != 50 {
		t.Errorf("the server has %d messages, %d pings: %+v", s.messages.Load(), s.pings.Load(), r)
	} else if d := difftest.Of("s.messages.Load()", s.messages.Load(), 50, "s.pings.Load()", s.pings.Load(), 50, "s.bytes.Load()", s.bytes.Load(), 50_000); d != "" {
		t.Errorf("%s: the server has %d messages, %d pings: %+v", d, s.messages.Load(), s.pings.Load(), r)
	}
}

// A message may be answered by several, and the time ends with the last.
func TestWebSocketStream(t *testing.T) {
	t.Parallel()
	const pause = 4 * time.Millisecond
	s := &socketServer{answer: func(c *websocket.Conn, _ int, _ []byte, _ int) error {
		for i := range 5 {
			if i == 4 {
				time.Sleep(pause) // the work of this handler
			}
			if err := c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, "item %d", i)); err != nil {
				return err
			}
		}
		return nil
	}}
	p := socketProfile(startSockets(t, s, nil))
	p.Rate, p.Requests, p.Measure, p.WebSocket, p.BodyHas = 100, 20, 20*time.Second, &load.WebSocket{Answer: load.AnswerMessage, Messages: 5}, []string{"item"}
	r := mustRun(t, p)
	if r.ServiceMS.Min < 0.9*pause.Seconds()*1e3 || r.FirstMessageMS.P50 > r.ServiceMS.P50 {
		t.Errorf("%+v", r)
	} else if d := difftest.Of("r.Classes[load.OK]", r.Classes[load.OK], 20, "r.Messages", r.Messages, 100, "r.FirstMessageMS.Count", r.FirstMessageMS.Count, 20); d != "" {
		t.Errorf("%s: %+v", d, r)
	}
	p.BodyHas = []string{"item 4"}
	if r = mustRun(t, p); r.Errors["wrong body"] != 20 {
		t.Errorf("%+v", r)
	}
}

func TestWebSocketFailures(t *testing.T) {
	t.Parallel()
	closing := func(code int) func(*websocket.Conn, int, []byte, int) error {
		return func(c *websocket.Conn, kind int, message []byte, n int) error {
			if n < 4 {
				return echo(c, kind, message, n)
			}
			_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "no\x1bmore"), time.Now().Add(time.Minute))
			return http.ErrAbortHandler
		}
	}
	for _, test := range []struct {
		name    string
		answer  func(*websocket.Conn, int, []byte, int) error
		path    string
		failure string // of a fifth of the requests, or of all of a path
		reason  string
	}{
		{"policy", closing(1008), "", "websocket closed 1008 (policy)", "close code 1008: no"},
		{"restart", closing(1012), "", "websocket closed 1012 (restart)", "close code 1012"},
		{"unknown", closing(4001), "", "websocket closed", "close code 4001"},
		{"other bytes", func(c *websocket.Conn, kind int, m []byte, n int) error {
			if n%5 == 4 {
				m = bytes.ToUpper(m)
			}
			return echo(c, kind, m, n)
		}, "", "other bytes than were sent", ""},
		{"reset", func(c *websocket.Conn, kind int, m []byte, n int) error {
			if n < 4 {
				return echo(c, kind, m, n)
			}
			return http.ErrAbortHandler
		}, "", "closed before an answer", ""},
		{"no such path", echo, "x", "websocket refused", "status 404"},
	} {
		for _, rate := range []float64{200, 0} {
			s := &socketServer{answer: test.answer}
			p := socketProfile(startSockets(t, s, nil) + test.path)
			n, failed := int64(50), int64(10)
			if test.path != "" { // connections that cannot be opened are tried again later and later
				n, failed = 5, 5
			}
			p.Rate, p.Requests, p.Measure, p.Connections, p.Body = rate, n, 20*time.Second, 1, []byte("hello")
			r := mustRun(t, p)
			if !strings.Contains(r.Reasons[test.failure], test.reason) || strings.Contains(fmt.Sprint(r.Reasons), "\x1b") {
				t.Errorf("%s at %v/s: %v, %q: %+v", test.name, rate, r.Errors, r.Reasons, r)
			} else if d := difftest.Of("r.Requests", r.Requests, n, "r.Errors[test.failure]", r.Errors[test.failure], failed, "r.Classes[load.OK]", r.Classes[load.OK], n-failed); d != "" {
				t.Errorf("%s: %s at %v/s: %v, %q: %+v", d, test.name, rate, r.Errors, r.Reasons, r)
			}
		}
	}
}

// A late answer does not count for the next request.
func TestWebSocketTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	s := &socketServer{answer: func(c *websocket.Conn, kind int, m []byte, n int) error {
		if n == 2 {
			time.Sleep(2 * timeout) // the fault
		}
		return echo(c, kind, m, n)
	}}
	p := socketProfile(startSockets(t, s, nil))
	p.Rate, p.Requests, p.Measure, p.Connections, p.Timeout = 0, 9, 20*time.Second, 1, timeout
	if r := mustRun(t, p); r.Classes[load.Timeout] < 3 || r.Classes[load.OK]+r.Classes[load.Timeout] != 9 || s.handshakes.Load() < 3 {
		t.Errorf("%d connections: %+v", s.handshakes.Load(), r)
	}
}

// envoyUpgrade is a listener that proxies to a port, with or without upgrades.
const envoyUpgrade = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: http
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          %[2]s
          http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{match: {prefix: "/"}, route: {cluster: server, timeout: 0s}}]
  clusters:
  - name: server
    type: STATIC
    load_assignment:
      cluster_name: server
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[1]s}}}}]}]
`

// The real proxy passes messages and pings on, if it may upgrade, and refuses otherwise.
func TestWebSocketThroughEnvoy(t *testing.T) {
	long(t)
	s := &socketServer{answer: echo}
	url := startSockets(t, s, nil)
	port := strings.TrimSuffix(url[strings.LastIndex(url, ":")+1:], "/chat")
	through := startEnvoyWith(t, fmt.Sprintf(envoyUpgrade, port, "upgrade_configs: [{upgrade_type: websocket}]"))
	p := socketProfile("ws://" + through + "/chat")
	p.Rate, p.Requests, p.Measure, p.RequestSize = 200, 100, 20*time.Second, 2000
	if r := mustRun(t, p); r.Classes[load.OK] != 100 {
		t.Errorf("the server has %d messages, %d connections: %+v", s.messages.Load(), s.handshakes.Load(), r)
	} else if d := difftest.Of("r.Reconnects", r.Reconnects, 0, "s.messages.Load()", s.messages.Load(), 100, "s.handshakes.Load()", s.handshakes.Load(), 4); d != "" {
		t.Errorf("%s: the server has %d messages, %d connections: %+v", d, s.messages.Load(), s.handshakes.Load(), r)
	}
	p.WebSocket = &load.WebSocket{Answer: load.AnswerPong}
	if r := mustRun(t, p); r.Classes[load.OK] != 100 || s.pings.Load() != 100 {
		t.Errorf("the server has %d pings: %+v", s.pings.Load(), r)
	}
	refusing := startEnvoyWith(t, fmt.Sprintf(envoyUpgrade, port, ""))
	p.Targets, p.WebSocket, p.Requests = []string{"ws://" + refusing + "/chat"}, nil, 10
	if r := mustRun(t, p); r.Errors["websocket refused"] != 10 || !strings.Contains(r.Reasons["websocket refused"], "status 403") {
		t.Errorf("%v, %q", r.Errors, r.Reasons)
	}
}
