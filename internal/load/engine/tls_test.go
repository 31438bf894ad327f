package engine

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/certificate"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// authority is a certificate authority made for one test.
type authority struct {
	*certificate.Pair
	dir string
}

func newAuthority(t testing.TB) *authority {
	a := &authority{dir: t.TempDir()}
	a.Pair = a.issue(t, "ca", time.Now().Add(time.Hour))
	return a
}

// issue writes <name>.pem and <name>.key, and the first certificate signs itself.
func (a *authority) issue(t testing.TB, name string, until time.Time) *certificate.Pair {
	t.Helper()
	template := certificate.Leaf(name)
	if a.Pair == nil {
		template = certificate.Authority(name)
	}
	template.NotBefore, template.NotAfter, template.IPAddresses = time.Now().Add(-2*time.Hour), until, []net.IP{net.IPv4(127, 0, 0, 1)}
	pair := must.Get(certificate.New(template, a.Pair))(t)
	must.OK(t, pair.Write(a.file(name+".pem"), a.file(name+".key")))
	return pair
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// pool has a alone.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate)
	return pool
}

// config is a server's, with the named certificate.
func (a *authority) config(t testing.TB, name string) *tls.Config {
	t.Helper()
	cert := must.Get(tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key")))(t)
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

// over wraps handle in TLS. handle gets a *tls.Conn.
func over(config *tls.Config, handle func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		s := tls.Server(c, config)
		handle(s)
		_ = s.Close()
	}
}

// secured is the URL of a raw server as one of TLS.
func secured(url string) string { return "https" + strings.TrimPrefix(url, "http") }

// serve responds "hello" over TLS with the named certificate, also over HTTP/2. If
// mutual is set, it requires a client certificate.
func (a *authority) serve(t testing.TB, name string, mutual bool) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("hello"))
	}))
	s.TLS = a.config(t, name)
	s.TLS.ClientCAs = a.pool()
	s.EnableHTTP2 = true
	if mutual {
		s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue(t, "server", time.Now().Add(time.Hour))
	a.issue(t, "expired", time.Now().Add(-time.Hour))
	a.issue(t, "client", time.Now().Add(time.Hour))
	plain, mutual, expired := a.serve(t, "server", false), a.serve(t, "server", true), a.serve(t, "expired", false)
	trust := load.TLS{CAFile: a.file("ca.pem")}
	withClient := trust
	withClient.CertFile, withClient.KeyFile = a.file("client.pem"), a.file("client.key")
	for _, test := range []struct {
		name  string
		url   string
		tls   *load.TLS
		class load.Class
		kind  string
	}{
		{"trusted", plain, &trust, load.OK, ""},
		{"insecure", plain, &load.TLS{Insecure: true}, load.OK, ""},
		{"mutual", mutual, &withClient, load.OK, ""},
		{"unknown authority", plain, nil, load.Conn, "certificate refused"},
		{"expired", expired, &trust, load.Conn, "certificate refused"},
		{"wrong name", strings.Replace(plain, "127.0.0.1", "example.test", 1), &trust, load.Conn, "certificate refused"},
		{"no client certificate", mutual, &trust, load.Conn, "tls failed"},
		{"not TLS", "https" + rawServer(t, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })[len("http"):], &trust, load.Conn, "tls failed"},
	} {
		for _, protocol := range []string{load.ProtocolHTTP1, load.ProtocolHTTP2} {
			t.Run(test.name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				p := profile(test.url)
				p.ConnectTo = []load.ConnectTo{{Host: "example.test", To: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}}
				p.Protocol, p.Timeout, p.Drain = protocol, 20*time.Second, 20*time.Second // a busy machine is not a failure
				p.TLS, p.Rate, p.Warmup, p.Tail, p.Connections, p.ExpectSize = test.tls, 20, 0, 0, 2, 5
				r := mustRun(t, p)
				if r.Requests == 0 || test.kind != "" && r.Errors[test.kind] != r.Requests {
					t.Errorf("%v, %v", r.Classes, r.Errors)
				} else if d := difftest.Of("r.Engine", r.Engine, "epoll", "r.Classes[test.class]", r.Classes[test.class], r.Requests); d != "" {
					t.Errorf("%s: %v, %v", d, r.Classes, r.Errors)
				}
				if test.kind != "" && (r.Reasons[test.kind] == "" || r.Result.Failures[0].Detail != r.Reasons[test.kind]) {
					t.Errorf("no reason for %q: %v, %+v", test.kind, r.Reasons, r.Result.Failures)
				}
				if test.class == load.OK && (r.TLSMS.Count < 2 || r.TLSMS.Mean <= 0 || r.ConnectMS.Count < 2 || !strings.HasPrefix(r.TLS, "TLS 1.3 TLS_")) {
					t.Errorf("handshakes are not reported: %+v, %+v, %q", r.TLSMS, r.ConnectMS, r.TLS)
				}
			})
		}
	}
	p := profile(plain)
	p.TLS = &load.TLS{CAFile: a.file("missing.pem")}
	if _, err := Run(t.Context(), p, nil); err == nil {
		t.Error("a missing file of roots is not reported")
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l := must.Get(net.Listen("unix", path))(t)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go replying(helloResponse)(c)
		}
	}()
	p := profile("http://service.test/path")
	p.Socket = path
	if r := mustRun(t, p); r.Classes[load.OK] != 250 {
		t.Errorf("%+v", r)
	}
	p.Socket = path + "-missing"
	if r := mustRun(t, p); r.Errors["connect refused"] != 250 {
		t.Errorf("%+v", r.Errors)
	}

}

// serverAuthority makes an authority with one good certificate, "server".
func serverAuthority(t testing.TB) *authority {
	a := newAuthority(t)
	a.issue(t, "server", time.Now().Add(time.Hour))
	return a
}

// trusting returns p with a as trusted certificate authority.
func (a *authority) trusting(p load.Profile) load.Profile {
	p.TLS = &load.TLS{CAFile: a.file("ca.pem")}
	return p
}
