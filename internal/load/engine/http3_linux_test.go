package engine

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	quichttp3 "github.com/quic-go/quic-go/http3"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http3"
)

// startHTTP3 starts quic-go's server and returns it with its URL.
func startHTTP3(t *testing.T, a *authority, certificate string, handler http.HandlerFunc) (*quichttp3.Server, string) {
	t.Helper()
	t.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	c := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	s := &quichttp3.Server{Handler: handler, TLSConfig: quichttp3.ConfigureTLSConfig(a.config(t, certificate)), QUICConfig: &quic.Config{MaxIdleTimeout: time.Minute}}
	go func() { _ = s.Serve(c) }()
	t.Cleanup(func() {
		_ = s.Close()
		_ = c.Close()
	})
	return s, "https://" + c.LocalAddr().String()
}

func profileH3(a *authority, url string) load.Profile {
	p := a.trusting(profile(url))
	p.Protocol, p.Connections, p.Streams, p.Warmup, p.Tail = load.ProtocolHTTP3, 2, 4, 50*time.Millisecond, 0
	return p
}

func mustRunH3(t *testing.T, p load.Profile) load.Report {
	t.Helper()
	r := must.Get(RunOver(t.Context(), p, nil, http3.NewWorker))(t)
	if r.Engine != load.EngineHTTP3 || r.Protocol != load.ProtocolHTTP3 {
		t.Errorf("engine %s, protocol %s", r.Engine, r.Protocol)
	}
	return r
}

// The server has each request once and whole.
func TestHTTP3(t *testing.T) {
	const sent, answered = 30_000, 50_000
	var requests, wrong, now, most atomic.Int64
	a := serverAuthority(t)
	_, url := startHTTP3(t, a, "server", func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		defer now.Add(-1)
		size, err := io.Copy(io.Discard, r.Body)
		if r.ProtoMajor != 3 || size != sent || err != nil || r.Method != http.MethodPut || r.Header.Get("X-A") != "b" || r.Host != "other" || r.URL.RawQuery != "q=1" || r.UserAgent() != "tare" || r.ContentLength != sent {
			wrong.Add(1)
		}
		_, _ = w.Write(bytes.Repeat([]byte("y"), answered))
	})
	p := profileH3(a, url+"/p?q=1")
	p.Method, p.RequestSize, p.ExpectSize, p.Headers, p.BodyHas = http.MethodPut, sent, answered, []string{"X-A: b", "Host: other"}, []string{"yyy"}
	p.Requests, p.Measure = 100, 20*time.Second
	for _, rate := range []float64{200, 0} {
		requests.Store(0)
		p.Rate = rate
		r := mustRunH3(t, p)
		if d := difftest.Of("r.Classes[load.OK]", r.Classes[load.OK], r.Requests, "r.Requests", r.Requests, 100, `r.Statuses["200"]`, r.Statuses["200"], r.Requests, "r.Connected", r.Connected, 2, "r.Held", r.Held, 2, "r.Reconnects", r.Reconnects, 0, "requests.Load()", requests.Load(), r.Whole.Sent, "r.BytesOut < r.Requests*sent", r.BytesOut < r.Requests*sent, false, "r.BytesIn < r.Requests*answered", r.BytesIn < r.Requests*answered, false, `strings.HasPrefix(r.TLS, "TLS 1.3")`, strings.HasPrefix(r.TLS, "TLS 1.3"), true, "r.Whole.Connections", r.Whole.Connections, 2); d != "" {
			t.Errorf("%s: %v/s: %d requests at the server, %+v: %+v", d, rate, requests.Load(), r.Whole, r)
		}
	}
	if wrong.Load() > 0 || most.Load() < 3 {
		t.Errorf("%d wrong requests, %d at once", wrong.Load(), most.Load())
	}
}

func TestHTTP3Failures(t *testing.T) {
	a := serverAuthority(t)
	a.issue(t, "expired", time.Now().Add(-time.Hour))
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		case "/hang":
			<-r.Context().Done()
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/half":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("half"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	_, good := startHTTP3(t, a, "server", handler)
	_, expired := startHTTP3(t, a, "expired", handler)
	for _, test := range []struct {
		url   string
		class load.Class
		kind  string
	}{
		{good + "/404", load.Status, ""}, {good + "/hang", load.Timeout, "timeout"}, {good + "/abort", load.Conn, "stream reset"},
		{good + "/half", load.Conn, "stream reset"}, {expired, load.Conn, "certificate refused"}, {"https://127.0.0.1:9", load.Timeout, "timeout"},
	} {
		p := profileH3(a, test.url)
		p.Rate, p.Requests, p.Measure, p.Warmup = 100, 10, 20*time.Second, 0
		if test.class == load.Timeout {
			p.Timeout = time.Second
		}
		r := mustRunH3(t, p)
		if r.Requests != 10 || r.Classes[test.class] != 10 || test.kind != "" && r.Errors[test.kind] != 10 {
			t.Errorf("%s: %v, %v, %q", test.url, r.Classes, r.Errors, r.Reasons)
		}
	}
	must.Fail(t, must.Err(Run(t.Context(), profileH3(a, good), nil)), "unsupported", "in another program")
}

// A server that ends its connections in an orderly way costs no request.
func TestHTTP3GoAway(t *testing.T) {
	a := serverAuthority(t)
	var requests atomic.Int64
	newServer := func() *quichttp3.Server {
		return &quichttp3.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			requests.Add(1)
			time.Sleep(5 * time.Millisecond) // the work of this handler
		})}
	}
	var current atomic.Pointer[quichttp3.Server]
	current.Store(newServer())
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	l := must.Get(quic.ListenEarly(conn, quichttp3.ConfigureTLSConfig(a.config(t, "server")), &quic.Config{MaxIdleTimeout: time.Minute}))(t)
	defer conn.Close()
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept(t.Context())
			if err != nil {
				return
			}
			go func() { _ = current.Load().ServeQUICConn(c) }()
		}
	}()
	go func() {
		for range 3 {
			time.Sleep(200 * time.Millisecond) // shutdowns within the load
			_ = current.Swap(newServer()).Shutdown(t.Context())
		}
	}()
	p := profileH3(a, "https://"+conn.LocalAddr().String())
	p.Rate, p.Measure, p.Warmup = 200, time.Second, 0
	r := mustRunH3(t, p)
	if r.Requests != 200 || r.Classes[load.OK] != 200 || requests.Load() != 200 {
		t.Errorf("%d requests at the server: %v, %v, %q: %+v", requests.Load(), r.Classes, r.Errors, r.Reasons, r)
	} else if d := difftest.Wrong("r.Reconnects == 0", r.Reconnects == 0); d != "" {
		t.Errorf("%s: %d requests at the server: %v, %v, %q: %+v", d, requests.Load(), r.Classes, r.Errors, r.Reasons, r)
	}
}

// envoyHTTP3 is a listener of QUIC that answers by itself, and the argument is a
// directory.
const envoyHTTP3 = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: quic
    address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: 0}}
    udp_listener_config: {quic_options: {}}
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.quic
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport
          downstream_tls_context:
            common_tls_context:
              tls_certificates: [{certificate_chain: {filename: "%[1]s/server.pem"}, private_key: {filename: "%[1]s/server.key"}}]
      filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: quic
          codec_type: HTTP3
          http3_protocol_options: {}
          http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{match: {prefix: "/"}, direct_response: {status: 200, body: {inline_string: "hello"}}}]
`

func TestHTTP3AgainstEnvoy(t *testing.T) {
	long(t)
	a := serverAuthority(t)
	p := profileH3(a, "https://"+startEnvoyWith(t, fmt.Sprintf(envoyHTTP3, a.dir))+"/")
	p.ExpectSize = 5
	for _, rate := range []float64{200, 0} {
		r := mustRunH3(t, atRate(p, rate, 200))
		if r.Classes[load.OK] != r.Requests || r.Requests < 100 || r.Reconnects != 0 {
			t.Errorf("%v/s: %v, %v, %q", rate, r.Classes, r.Errors, r.Reasons)
		}
	}
}

// TestHTTP3BodyAfterHead checks that a body in the response to HEAD is a failure, with the length that the header has
// or without one. The server writes it past its library.
func TestHTTP3BodyAfterHead(t *testing.T) {
	a := serverAuthority(t)
	for _, length := range []string{"5", ""} {
		_, url := startHTTP3(t, a, "server", func(w http.ResponseWriter, _ *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			w.WriteHeader(http.StatusOK)
			stream, _ := w.(quichttp3.HTTPStreamer).HTTPStream()
			_, _ = stream.Write([]byte("hello"))
			_ = stream.Close()
		})
		p := profileH3(a, url)
		p.Method, p.Warmup = http.MethodHead, 0
		if r := mustRunH3(t, atRate(p, 0, 20)); r.Errors["body in the response to HEAD"] != 20 {
			t.Errorf("length %q: %v, %+v", length, r.Classes, r.Result)
		}
	}
}
