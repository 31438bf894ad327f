package engine

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
)

const hopWork = 10 * time.Millisecond

// redirecting starts two servers that redirect by path, within themselves and to
// each other, and counts the connections to each.
func redirecting(t *testing.T) (home, away *httptest.Server, conns *[2]atomic.Int64, wrong *atomic.Value) {
	conns, wrong = new([2]atomic.Int64), new(atomic.Value)
	var servers [2]*httptest.Server
	for i := range servers {
		servers[i] = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			other := servers[1-i].URL
			body, _ := io.ReadAll(r.Body)
			to := func(status int, location string) {
				w.Header().Set("Location", location)
				w.WriteHeader(status)
			}
			complain := func(when bool) {
				if when {
					wrong.Store(fmt.Sprintf("%s %s of server %d: %v, %d bytes", r.Method, r.URL, i, r.Header, len(body)))
				}
			}
			switch r.URL.Path {
			case "/chain":
				time.Sleep(hopWork) // the work of this handler
				to(http.StatusFound, "chain2?q=1#part")
			case "/chain2":
				time.Sleep(hopWork)
				complain(r.URL.RawQuery != "q=1")
				to(http.StatusMovedPermanently, "/end")
			case "/away":
				to(http.StatusTemporaryRedirect, other+"/back")
			case "/back":
				complain(r.Header.Get("Authorization") != "" || r.Header.Get("X-A") != "b")
				to(http.StatusPermanentRedirect, other+"/end")
			case "/closing":
				w.Header().Set("Connection", "close")
				to(http.StatusFound, other+"/closing2")
			case "/closing2":
				w.Header().Set("Connection", "close")
				to(http.StatusFound, "/end")
			case "/post":
				complain(r.Method != http.MethodPost || len(body) != 100 || r.Header.Get("Authorization") == "")
				to(http.StatusPermanentRedirect, "/post2")
			case "/post2":
				complain(r.Method != http.MethodPost || len(body) != 100 || r.Header.Get("Authorization") == "")
				to(http.StatusSeeOther, "/got")
			case "/got":
				complain(r.Method != http.MethodGet || len(body) != 0 || r.Header.Get("Content-Type") != "")
			case "/ever":
				to(http.StatusFound, "/ever")
			case "/pingpong":
				to(http.StatusFound, other+"/pingpong")
			case "/hang":
				to(http.StatusFound, other+"/silence")
			case "/silence":
				<-r.Context().Done()
			case "/nowhere":
				w.WriteHeader(http.StatusFound)
			case "/to":
				to(http.StatusFound, r.URL.Query().Get("u"))
			}
		}))
		servers[i].Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				conns[i].Add(1)
			}
		}
		servers[i].Start()
		t.Cleanup(servers[i].Close)
	}
	return servers[0], servers[1], conns, wrong
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	home, _, conns, wrong := redirecting(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(secure.Close)
	const requests = 20
	for _, test := range []struct {
		path    string
		method  string
		follow  int
		fresh   bool
		class   load.Class
		outcome string // status, or error
		hops    int64  // of each request, negative for any
	}{
		{"/chain", "GET", 10, false, load.OK, "200", 2},
		{"/chain", "GET", 2, true, load.OK, "200", 2},
		{"/chain", "GET", 1, false, load.Status, "too many redirects", 1},
		{"/chain", "GET", 0, false, load.Status, "302", 0},
		{"/chain", "HEAD", 10, false, load.OK, "200", 2},
		{"/away", "GET", 10, false, load.OK, "200", 2},
		{"/away", "GET", 10, true, load.OK, "200", 2},
		{"/closing", "GET", 10, false, load.OK, "200", 2},
		{"/post", "POST", 10, false, load.OK, "200", 2},
		{"/ever", "GET", 10, false, load.Status, "too many redirects", 10},
		{"/pingpong", "GET", 5, false, load.Status, "too many redirects", 5},
		{"/hang", "GET", 10, false, load.Timeout, "timeout", 1},
		{"/nowhere", "GET", 10, false, load.Status, "302", 0},
		{"/to?u=ftp://127.0.0.1/", "GET", 10, false, load.Status, "redirect to nowhere", 0},
		{"/to?u=http://%5B::1", "GET", 10, false, load.Status, "redirect to nowhere", 0},
		{"/to?u=http://a:b@127.0.0.1/", "GET", 10, false, load.Status, "redirect to nowhere", 0},
		{"/to?u=" + refusedTarget(t) + "/", "GET", 10, false, load.Conn, "connect refused", 1},
		{"/to?u=http://none.test/", "GET", 10, false, load.Conn, "no such host", 1},
		{"/to?u=" + secure.URL + "/", "GET", 10, false, load.OK, "200", 1},
	} {
		for _, rate := range []float64{200, 0} {
			conns[0].Store(0)
			conns[1].Store(0)
			p := brieflyAt(home.URL + test.path)
			p.Method, p.Follow, p.NoKeepAlive, p.Rate, p.Connections = test.method, test.follow, test.fresh, rate, 4
			p.Requests, p.Measure, p.Headers, p.TLS = requests, 20*time.Second, []string{"Authorization: secret", "X-A: b"}, &load.TLS{Insecure: true}
			if test.method == "POST" {
				p.RequestSize = 100
			}
			if test.class == load.Timeout {
				p.Timeout = 100 * time.Millisecond
			}
			r := must.Get(run(t.Context(), p, nil, func(_ context.Context, _, name string) ([]netip.Addr, error) {
				return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
			}))(t)
			what := fmt.Sprintf("%s %s, rate %v, at most %d", test.method, test.path, rate, test.follow)
			counted := r.Statuses[test.outcome] + r.Errors[test.outcome]
			if test.class == load.Timeout {
				counted += r.Errors["timeout before a connection was free"]
			} else if r.Redirects != requests*test.hops {
				t.Errorf("%s: %d redirects, want %d each", what, r.Redirects, test.hops)
			}
			if r.Requests != requests || r.Classes[test.class] != requests || counted != requests {
				t.Errorf("%s: %v, %v, %v", what, r.Classes, r.Statuses, r.Errors)
			}
			if test.path == "/chain" && test.class == load.OK && r.ServiceMS.P50 < 2*hopWork.Seconds()*1e3 {
				t.Errorf("%s: %v ms is not the whole chain's time", what, r.ServiceMS.P50)
			}
			if test.path == "/away" && !test.fresh && (conns[0].Load() > 4 || conns[1].Load() > 4 || r.Reconnects > 0) {
				t.Errorf("%s: connections are not kept: %d and %d", what, conns[0].Load(), conns[1].Load())
			}
		}

	}
	if w := wrong.Load(); w != nil {
		t.Error(w)
	}
}

// TestRedirectsToManyHosts checks that a server that redirects each request to a new
// host exhausts neither memory nor file descriptors.
func TestRedirectsToManyHosts(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	port := onAddresses(t, answering(func(c net.Conn, i int) bool {
		_, err := io.WriteString(c, helloResponse)
		return err == nil
	}), "127.0.0.1")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", fmt.Sprintf("http://h%d.test:%s/", n.Add(1), port))
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(s.Close)
	p := brieflyAt(s.URL)
	p.Follow, p.Rate, p.Connections, p.Requests, p.Measure = 1, 0, 2, 10*http1.MaxDetours, 20*time.Second
	r, err := run(t.Context(), p, nil, func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	})
	if err != nil || r.Classes[load.OK] != p.Requests || r.Redirects != p.Requests {
		t.Errorf("%v, %v, %v", err, r.Classes, r.Errors)
	}

}

// TestRedirectsGoWhereConnectionsGo checks that a name in place of a redirect's host is looked up,
// and the redirect's own host only for another port of it.
func TestRedirectsGoWhereConnectionsGo(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/from" {
			w.Header().Set("Location", "http://real.test/")
			w.WriteHeader(http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for _, test := range []struct {
		to    string
		class load.Class
	}{{"stand-in.test:" + port, load.OK}, {"none.test:" + port, load.Conn}, {":" + port, load.OK}} {
		var real atomic.Int64
		p := brieflyAt(s.URL + "/from")
		p.Follow, p.Rate, p.Connections, p.Requests, p.Measure = 1, 0, 2, 10, 20*time.Second
		p.ConnectTo = []load.ConnectTo{{Host: "real.test", To: []string{test.to}}}
		r, err := run(t.Context(), p, nil, func(_ context.Context, _, name string) ([]netip.Addr, error) {
			if name == "real.test" {
				real.Add(1)
			}
			if name != "none.test" {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		})
		if err != nil || r.Classes[test.class] != p.Requests || real.Load() > 0 != (test.to == ":"+port) {
			t.Errorf("to %s: %v, %v, %v, real host %d times", test.to, err, r.Classes, r.Errors, real.Load())
		}

	}
}
