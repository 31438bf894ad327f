package engine

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// TestFailuresOverTLS checks that failures are counted the same over TLS.
func TestFailuresOverTLS(t *testing.T) {
	t.Parallel()
	a := serverAuthority(t)
	config := a.config(t, "server")
	all := failures()
	for i, f := range all {
		switch f.name {
		case "resets": // the alert may come before the reset
			all[i].kind = "reset|closed before an answer"
		}
		if f.server != nil {
			all[i].server = over(config, f.server)
		}
	}
	all = append(all, failuresOfTLS(config)...)
	for _, f := range all {
		for _, loop := range []string{"open", "closed", oneConnection} {
			t.Run(f.name+"/"+loop, func(t *testing.T) {
				t.Parallel()
				url := refusedTarget(t)
				if f.server != nil {
					url = rawServer(t, f.server)
				}
				f.check(t, a.trusting(profile(secured(url))), loop)
			})
		}
	}
}

// cutting closes the connection in the middle of a write once cut is set.
type cutting struct {
	net.Conn
	cut atomic.Bool
}

func (c *cutting) Write(b []byte) (int, error) {
	if !c.cut.Load() {
		return c.Conn.Write(b)
	}
	_, _ = c.Conn.Write(b[:len(b)/2])
	_ = c.Conn.Close()
	return 0, net.ErrClosed
}

// failuresOfTLS returns the failures that only a TLS server has.
func failuresOfTLS(config *tls.Config) []failure {
	answer := func(c net.Conn) bool {
		_, err := c.Write([]byte(helloResponse))
		return err == nil
	}
	return []failure{
		{"garbage for a handshake", func(c net.Conn) {
			_, _ = c.Write(bytes.Repeat([]byte("garbage\n"), 100))
			_, _ = io.Copy(io.Discard, c)
		}, load.Conn, "tls failed"},
		{"half a handshake", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_, _ = c.Write([]byte("\x16\x03\x03\x00\x7a\x02\x00\x00"))
		}, load.Conn, "half a response|closed before an answer|reset"},
		{"no handshake", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, load.Timeout, "timeout|timeout before a connection was free"},
		{"garbage for a record", over(config, answering(func(c net.Conn, _ int) bool {
			_, err := wire(c).Write([]byte("garbage"))
			return err == nil
		})), load.Conn, "tls failed"},
		{"a forged record", over(config, answering(func(c net.Conn, _ int) bool {
			_, err := wire(c).Write(append([]byte("\x17\x03\x03\x00\x20"), make([]byte, 32)...))
			return err == nil
		})), load.Conn, "tls failed"},
		{"a record too long", over(config, answering(func(c net.Conn, _ int) bool {
			_, err := wire(c).Write([]byte("\x17\x03\x03\xff\xff"))
			return err == nil
		})), load.Conn, "tls failed"},
		{"closes in a record", func(c net.Conn) {
			half := &cutting{Conn: c}
			answering(func(c net.Conn, _ int) bool {
				half.cut.Store(true)
				return answer(c)
			})(tls.Server(half, config))
		}, load.Conn, "half a response"},
		{"close_notify with the answer", func(c net.Conn) {
			whole := &corked{Conn: c}
			answering(func(c net.Conn, _ int) bool {
				whole.cork.Store(true)
				sent := answer(c)
				whole.cork.Store(false)
				return sent && c.(*tls.Conn).CloseWrite() == nil
			})(tls.Server(whole, config))
		}, load.OK, ""},
		{"closes after each without close_notify", func(c net.Conn) {
			replyingOnce(strings.Replace(helloResponse, "Server", "Connection: close\r\nServer", 1))(tls.Server(c, config))
		}, load.OK, ""},
		{"until the end without close_notify", func(c net.Conn) {
			replyingOnce("HTTP/1.0 200 OK\r\n\r\nhello")(tls.Server(c, config))
		}, load.OK, ""},
		{"close_notify in the body", over(config, replyingOnce("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")), load.Conn, "half a response"},
		{"an answer in two records, one late", over(config, answering(func(c net.Conn, _ int) bool {
			at := len(helloResponse) - 2
			_, err := c.Write([]byte(helloResponse[:at]))
			time.Sleep(time.Millisecond) // the server's work
			_, err2 := c.Write([]byte(helloResponse[at:]))
			return err == nil && err2 == nil
		})), load.OK, ""},
		{"another record after the answer", func(c net.Conn) {
			whole := &corked{Conn: c}
			answering(func(c net.Conn, _ int) bool {
				whole.cork.Store(true)
				_, err := c.Write([]byte(helloResponse))
				whole.cork.Store(false)
				_, err2 := c.Write([]byte("more"))
				return err == nil && err2 == nil
			})(tls.Server(whole, config))
		}, load.Conn, "bytes after the response"},
	}
}

// corked holds writes while cork is set and sends them with the next write.
type corked struct {
	net.Conn
	cork atomic.Bool
	held []byte
}

func (c *corked) Write(b []byte) (int, error) {
	if c.held = append(c.held, b...); c.cork.Load() {
		return len(b), nil
	}
	_, err := c.Conn.Write(c.held)
	c.held = c.held[:0]
	return len(b), err
}

// TestBodiesOverTLS sends bodies of many records in both directions, with every supported TLS version.
func TestBodiesOverTLS(t *testing.T) {
	t.Parallel()
	a := serverAuthority(t)
	const sent, answered = 300_000, 200_000
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, protocol := range []string{load.ProtocolHTTP1, load.ProtocolHTTP2} {
			var wrong atomic.Value
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				if n != sent || err != nil || (r.ProtoMajor == 2) != (protocol == load.ProtocolHTTP2) {
					wrong.Store(fmt.Sprint(r.Proto, n, err))
				}
				for range 4 {
					_, _ = w.Write(bytes.Repeat([]byte("y"), answered/4))
					w.(http.Flusher).Flush()
				}
			}))
			s.TLS, s.EnableHTTP2 = a.config(t, "server"), true
			s.TLS.MaxVersion = version
			s.StartTLS()
			p := a.trusting(profileH2(s.URL))
			p.Protocol, p.RequestSize, p.ExpectSize, p.BodyHas = protocol, sent, answered, []string{"yyy"}
			for _, rate := range []float64{100, 0} {
				r := mustRun(t, atRate(p, rate, 50))
				if d := difftest.Of("r.Requests", r.Requests, 50, "r.Classes[load.OK]", r.Classes[load.OK], r.Requests, "r.Reconnects", r.Reconnects, 0, "strings.HasPrefix(r.TLS, tls.VersionName(version))", strings.HasPrefix(r.TLS, tls.VersionName(version)), true); d != "" {
					t.Errorf("%s: %s: %+v", d, protocol, r)
				}
			}
			s.Close()
			if w := wrong.Load(); w != nil {
				t.Errorf("%s: %v", protocol, w)
			}
		}
	}
}

func TestGRPCOverMutualTLS(t *testing.T) {
	t.Parallel()
	a := serverAuthority(t)
	a.issue(t, "client", time.Now().Add(time.Hour))
	config := a.config(t, "server")
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, a.pool()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	p := a.trusting(profileH2("https://" + l.Addr().String() + "/grpc.health.v1.Health/Check"))
	p.Protocol, p.TLS.CertFile, p.TLS.KeyFile = load.ProtocolGRPC, a.file("client.pem"), a.file("client.key")
	for _, rate := range []float64{200, 0} {
		if r := mustRun(t, atRate(p, rate, 100)); r.Requests != 100 || r.Statuses["grpc-0"] != r.Requests {
			t.Errorf("%+v", r)
		}
	}
	p.TLS.CertFile, p.TLS.KeyFile, p.Rate = "", "", 50
	if r := mustRun(t, p); r.Requests == 0 || r.Errors["tls failed"] != r.Requests {
		t.Errorf("without a certificate: %v", r.Errors)
	}
}

// TestALPN checks that an ALPN mismatch is distinguished from other TLS failures,
// for every way in which a server reports it.
func TestALPN(t *testing.T) {
	t.Parallel()
	a := serverAuthority(t)
	raw := func(protocols ...string) string {
		config := a.config(t, "server")
		config.NextProtos = protocols
		return secured(rawServer(t, over(config, replying(helloResponse))))
	}
	both := a.serve(t, "server", false)
	for _, test := range []struct {
		url, protocol string
		spoken        string // "": none
	}{
		{both, load.ProtocolHTTP1, load.ProtocolHTTP1},
		{both, load.ProtocolHTTP2, load.ProtocolHTTP2},
		{both, load.ProtocolAuto, load.ProtocolHTTP2},
		{raw("http/1.1"), load.ProtocolHTTP1, load.ProtocolHTTP1},
		{raw("http/1.1"), load.ProtocolHTTP2, ""},
		{raw("http/1.1"), load.ProtocolGRPC, ""}, // the server refuses by an alert
		{raw("http/1.1"), load.ProtocolAuto, load.ProtocolHTTP1},
		{raw(), load.ProtocolHTTP1, load.ProtocolHTTP1}, // no ALPN at all
		{raw(), load.ProtocolHTTP2, ""},
		{raw(), load.ProtocolAuto, load.ProtocolHTTP1},
		{"http" + strings.TrimPrefix(rawServer(t, replying(helloResponse)), "http"), load.ProtocolAuto, load.ProtocolHTTP1},
	} {
		p := a.trusting(profileH2(test.url))
		p.Protocol, p.Rate, p.Measure, p.Warmup, p.Connections = test.protocol, 100, 200*time.Millisecond, 0, 8
		if p.Protocol == load.ProtocolGRPC {
			p.Targets[0] += "/a/b"
		}
		r := mustRun(t, p)
		switch {
		case test.spoken == "" && (r.Requests != 20 || r.Errors["alpn mismatch"] != 20 || r.ConnectErrors["alpn mismatch"] == 0),
			test.spoken != "" && (r.Classes[load.OK] != 20 || r.Protocol != test.spoken):
			t.Errorf("%s of %s: spoke %q, %v, %v", test.protocol, test.url, r.Protocol, r.Classes, r.Errors)
		}
	}
	p := profileH2(secured(refusedTarget(t)))
	p.Protocol = load.ProtocolAuto
	must.Fail(t, must.Err(Run(t.Context(), p, nil)), "negotiate the protocol", "a server that cannot be asked")
}

// TestSessionsAreResumed checks that a load with one connection per request resumes
// sessions.
func TestSessionsAreResumed(t *testing.T) {
	t.Parallel()
	a := serverAuthority(t)
	url := a.serve(t, "server", false)
	for _, rate := range []float64{100, 0} {
		p := a.trusting(profile(url))
		p.NoKeepAlive, p.Warmup, p.Measure = true, 0, 200*time.Millisecond
		r := mustRun(t, atRate(p, rate, 20))
		if d := difftest.Wrong("r.Requests == 0", r.Requests == 0, "r.Classes[load.OK] != r.Requests", r.Classes[load.OK] != r.Requests, "r.TLSMS.Count < r.Requests", r.TLSMS.Count < r.Requests, "r.TLSResumed < r.TLSMS.Count/2", r.TLSResumed < r.TLSMS.Count/2); d != "" {
			t.Errorf("%s: rate %v: %d of %d handshakes resumed, %v", d, rate, r.TLSResumed, r.TLSMS.Count, r.Classes)
		}
	}
}

// TestNothingIsLeakedOverTLS checks that a load leaks no file descriptor and no
// goroutine, for every result of its handshakes.
func TestNothingIsLeakedOverTLS(t *testing.T) {
	a := serverAuthority(t)
	hanging := secured(rawServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
	closing := secured(rawServer(t, func(net.Conn) {}))
	plain := a.serve(t, "server", false)
	count := func() (fds, goroutines int) {
		entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
		return len(entries), runtime.NumGoroutine()
	}
	run := func() {
		for _, protocol := range []string{load.ProtocolHTTP1, load.ProtocolHTTP2} {
			for _, url := range []string{hanging, closing, plain} {
				p := a.trusting(profile(url))
				p.Protocol, p.Warmup, p.Tail, p.Measure, p.Drain, p.Timeout = protocol, 0, 0, 100*time.Millisecond, 0, 50*time.Millisecond
				mustRun(t, p)
			}
		}
	}
	run()
	fds, goroutines := count()
	for range 3 {
		run()
	}
	// The servers' side ends a little later.
	deadline := time.Now().Add(20 * time.Second)
	for {
		fdsNow, goroutinesNow := count()
		if fdsNow <= fds && goroutinesNow <= goroutines {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors and %d goroutines before, %d and %d after", fds, goroutines, fdsNow, goroutinesNow)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// An echo over TLS and mutual TLS, the longest more than the sockets and several records hold.
func TestEchoOverTLS(t *testing.T) {
	t.Parallel()
	a := serverAuthority(t)
	a.issue(t, "client", time.Now().Add(time.Hour))
	mutual := a.config(t, "server")
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, a.pool()
	for name, config := range map[string]*tls.Config{"TLS": a.config(t, "server"), "mutual TLS": mutual} {
		url := strings.Replace(rawServer(t, over(config, echoing)), "http://", "tls://", 1)
		for _, size := range []int64{1, 100, 4 << 20} {
			p := a.trusting(atRate(profile(url), 0, 5))
			p.Protocol, p.RequestSize, p.Warmup, p.Connections = load.ProtocolTCP, size, 0, 2
			if config == mutual {
				p.TLS.CertFile, p.TLS.KeyFile = a.file("client.pem"), a.file("client.key")
			}
			r := mustRun(t, p)
			if d := difftest.Of("r.Requests", r.Requests, 5, "r.Classes[load.OK]", r.Classes[load.OK], 5, `strings.HasPrefix(r.TLS, "TLS 1.3")`, strings.HasPrefix(r.TLS, "TLS 1.3"), true, "r.Reconnects > 0", r.Reconnects > 0, false); d != "" {
				t.Errorf("%s: %s, %d bytes: %v, %v, %q, %d reconnects", d, name, size, r.Classes, r.Errors, r.TLS, r.Reconnects)
			}
		}

	}
}
