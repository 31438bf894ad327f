package engine

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/template"
)

// eachHTTP runs a test for each version of HTTP.
func eachHTTP(t *testing.T, do func(t *testing.T, p load.Profile, serve func(http.HandlerFunc) string)) {
	t.Helper()
	for _, protocol := range []string{load.ProtocolHTTP1, load.ProtocolHTTP2} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			p := load.Profile{Protocol: protocol, ExpectSize: -1, Timeout: time.Minute, Drain: time.Minute, Measure: time.Minute} // a busy machine is not a failure
			do(t, p, func(handle http.HandlerFunc) string {
				s := httptest.NewUnstartedServer(handle)
				s.Config.Protocols = new(http.Protocols)
				s.Config.Protocols.SetHTTP1(true)
				s.Config.Protocols.SetUnencryptedHTTP2(true)
				s.Start()
				t.Cleanup(s.Close)
				return s.URL
			})
		})
	}
}

// Every request has values of its own, the right length, and the number that it has in the load,
// whatever the number of workers. The same seed sends the same.
func TestTemplates(t *testing.T) {
	t.Parallel()
	eachHTTP(t, func(t *testing.T, p load.Profile, serve func(http.HandlerFunc) string) {
		var mu sync.Mutex
		var got []string
		url := serve(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("X-Number"), body))
			if err != nil || r.ContentLength != int64(len(body)) {
				got = append(got, fmt.Sprintf("Content-Length %d of %d bytes, %v", r.ContentLength, len(body), err))
			}
		})
		p.Template = &template.Data{Tables: []template.Table{{File: "u.csv", Columns: []template.Column{{Name: "id", Values: []string{"a/b", "ccc", "d d"}}}}}}
		p.Targets = []string{url + `/u/{{csv "u.csv" "id"}}?n={{seq}}`, url + "/fixed"}
		p.Calls = []load.Call{{Method: http.MethodPut, Headers: []string{`X-Number: {{seq}}`}, Body: []byte(`{"user": "{{csv "u.csv" "id"}}", "of": "{{uuid}}"}`)}, {}}
		p.Weights, p.Requests, p.Rate, p.Seed, p.Connections, p.Workers = []int{3, 1}, 400, 1000, 7, 6, 3
		want := map[string]int{}
		for n := 1; n <= 400; n++ {
			// Of each worker's requests, every fourth is the fixed one: the third of a,a,b,a.
			if (n-1)/3%4 == 2 {
				want["GET /fixed  "]++
				continue
			}
			row := (n - 1) % 3
			want[fmt.Sprintf(`PUT /u/%s?n=%d %d {"user": "%s"`, []string{"a%2Fb", "ccc", "d%20d"}[row], n, n, []string{"a/b", "ccc", "d d"}[row])]++
		}
		var first []string
		for range 2 {
			mu.Lock()
			got = nil
			mu.Unlock()
			if r := mustRun(t, p); r.Classes[load.OK] != 400 {
				t.Fatalf("%v %v", r.Classes, r.Errors)
			}
			mu.Lock()
			seen := map[string]int{}
			for _, line := range got {
				request, _, _ := strings.Cut(line, `, "of": "`)
				seen[request]++
			}
			if fmt.Sprint(seen) != fmt.Sprint(want) {
				t.Fatalf("%d different requests\n%v\nwant %d\n%v", len(seen), seen, len(want), want)
			}
			slices.Sort(got)
			if first == nil {
				first = got
			}
			mu.Unlock()
		}
		if !slices.Equal(first, got) {
			t.Error("the same seed has sent other requests")
		}
	})
}

// Many requests of one host share few connections. Over HTTP/2 all of them are decoded with one
// header table, whatever their order.
func TestRequestsShareConnections(t *testing.T) {
	t.Parallel()
	eachHTTP(t, func(t *testing.T, p load.Profile, serve func(http.HandlerFunc) string) {
		var mu sync.Mutex
		seen, connections := map[string]int{}, map[string]bool{}
		url := serve(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			connections[r.RemoteAddr] = true
			seen[fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL.Path, r.Host, r.Header.Get("X-Common"), body)+r.Header.Get("X-Own")]++
		})
		p.Headers = []string{"X-Common: all"}
		want := map[string]int{}
		host := strings.TrimPrefix(url, "http://")
		for i := range 40 {
			p.Targets = append(p.Targets, fmt.Sprintf("%s/%d", url, i))
			switch i % 3 {
			case 0:
				p.Calls = append(p.Calls, load.Call{})
				want[fmt.Sprintf("GET /%d %s all ", i, host)] = 10
			case 1:
				p.Calls = append(p.Calls, load.Call{Method: http.MethodPost, Body: []byte(strings.Repeat("x", i)), Headers: []string{"Host: other", fmt.Sprintf("X-Own: %d", i)}})
				want[fmt.Sprintf("POST /%d other all %s%d", i, strings.Repeat("x", i), i)] = 10
			case 2:
				p.Calls = append(p.Calls, load.Call{Method: http.MethodHead})
				want[fmt.Sprintf("HEAD /%d %s all ", i, host)] = 10
			}
		}
		p.Connections, p.Requests = 3, 400
		for _, p.Rate = range []float64{2000, 0} {
			mu.Lock()
			seen, connections = map[string]int{}, map[string]bool{}
			mu.Unlock()
			r := mustRun(t, p)
			mu.Lock()
			if r.Classes[load.OK] != 400 || len(connections) != 3 || fmt.Sprint(seen) != fmt.Sprint(want) {
				t.Errorf("rate %v: %v %v, %d connections\n%v\nwant\n%v", p.Rate, r.Classes, r.Errors, len(connections), seen, want)
			}
			mu.Unlock()
			if len(r.Routes) != 40 || r.Routes["HEAD /2"].Requests != 10 {
				t.Errorf("%+v", r.Routes)
			}
		}
	})
}

// Each connection is a user: it logs in, keeps the cookie of its own session, and forgets the one
// that the server has ended. A closed connection is the same user.
func TestCookies(t *testing.T) {
	t.Parallel()
	eachHTTP(t, func(t *testing.T, p load.Profile, serve func(http.HandlerFunc) string) {
		var mu sync.Mutex
		sessions, wrong := map[string]int{}, map[string]int{}
		paths := []string{"/login", "/cart/a", "/cart/b", "/logout"}
		url := serve(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			var names []string
			session := ""
			for _, c := range r.Cookies() {
				if names = append(names, c.Name); c.Name == "session" {
					session = c.Value
				}
			}
			if _, known := sessions[session]; !known && session != "" {
				wrong["unknown session"]++
			}
			has := strings.Join(names, ",")
			expected := map[string]string{"/login": "begun", "/cart/a": "begun,session", "/cart/b": "begun,session,cart", "/logout": "begun,session"}
			if expected[r.URL.Path] != has {
				wrong[r.URL.Path+" with "+has]++
			}
			sessions[session]++
			switch r.URL.Path {
			case "/login":
				id := fmt.Sprint(len(sessions))
				sessions[id] = 0
				http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/"})
				http.SetCookie(w, &http.Cookie{Name: "foreign", Value: "1", Domain: "other.example"})
				http.SetCookie(w, &http.Cookie{Name: "secure", Value: "1", Path: "/", Secure: true})
			case "/cart/a":
				http.SetCookie(w, &http.Cookie{Name: "cart", Value: "1", Path: "/cart", MaxAge: 1000})
				if r.ProtoMajor == 1 && sessions[session] == 1 {
					w.Header().Set("Connection", "close")
				}
			case "/logout":
				http.SetCookie(w, &http.Cookie{Name: "session", Path: "/", MaxAge: -1})
				http.SetCookie(w, &http.Cookie{Name: "cart", Path: "/cart", Expires: time.Unix(10, 0)})
			}
		})
		for _, path := range paths {
			p.Targets = append(p.Targets, url+path)
			p.Calls = append(p.Calls, load.Call{})
		}
		p.Calls[0].Headers = []string{"Cookie: begun=1"}
		p.Cookies, p.Connections, p.Requests = true, 5, 200
		for _, p.Rate = range []float64{1000, 0} {
			mu.Lock()
			sessions, wrong = map[string]int{}, map[string]int{}
			mu.Unlock()
			r := mustRun(t, p)
			mu.Lock()
			if r.Classes[load.OK] != 200 || len(wrong) > 0 {
				t.Errorf("rate %v: %v %v, wrong %v", p.Rate, r.Classes, r.Errors, wrong)
			}
			full := 0
			for session, n := range sessions {
				if n == 3 && session != "" {
					full++
				}
			}
			mu.Unlock()
			if full < 40 { // 50 less the last one of each user, and some
				t.Errorf("rate %v: %d whole sessions of about 50", p.Rate, full)
			}
		}
	})
}

// A connection waits for its time to think after each answer, and the first requests are spread.
func TestThinkTime(t *testing.T) {
	t.Parallel()
	eachHTTP(t, func(t *testing.T, p load.Profile, serve func(http.HandlerFunc) string) {
		const least, most = 40 * time.Millisecond, 80 * time.Millisecond
		var mu sync.Mutex
		last := map[string]time.Time{}
		var gaps []time.Duration
		p.Targets = []string{serve(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if at, ok := last[r.RemoteAddr]; ok {
				gaps = append(gaps, time.Since(at))
			}
			last[r.RemoteAddr] = time.Now()
		})}
		p.Think, p.Connections, p.Measure = &load.Think{Min: least, Max: most}, 8, time.Second
		r := mustRun(t, p)
		mu.Lock()
		defer mu.Unlock()
		if r.Classes[load.OK] != r.Requests || len(last) != 8 || len(gaps) < 8 {
			t.Fatalf("%v %v: %d connections, %d gaps", r.Classes, r.Errors, len(last), len(gaps))
		}
		// The answer leaves the server a little after the time that it has noted.
		if shortest := slices.Min(gaps); shortest < least-time.Millisecond {
			t.Errorf("a gap of %v, think time from %v", shortest, least)
		}
		if limit := int64(8 * (time.Second/least + 1)); r.Requests > limit {
			t.Errorf("%d requests, at most %d", r.Requests, limit)
		}
	})
}

// What contradicts a think time, cookies or templates is refused with the reason.
func TestUsersAreRefused(t *testing.T) {
	t.Parallel()
	base := load.Profile{Targets: []string{"http://127.0.0.1:1/"}, Measure: time.Second, ExpectSize: -1}
	for _, test := range []struct {
		change func(*load.Profile)
		want   string
	}{
		{func(p *load.Profile) { p.Rate, p.Think = 1, &load.Think{Max: 1} }, "a think time needs a closed loop"},
		{func(p *load.Profile) { p.Think = &load.Think{Min: 2, Max: 1} }, "the think time 2ns to 1ns is not"},
		{func(p *load.Profile) { p.Cookies, p.Protocol, p.Streams = true, load.ProtocolHTTP2, 4 }, "one request at a time: 4 streams"},
		{func(p *load.Profile) { p.Cookies, p.NoKeepAlive = true, true }, "cookies belong to a connection"},
		{func(p *load.Profile) { p.Template = &template.Data{}; p.Targets[0] = "http://{{uuid}}/" }, "target"},
		{func(p *load.Profile) { p.Template = &template.Data{}; p.Body = []byte("{{csv \"a\" \"b\"}}") }, `no values of column "b" of a`},
	} {
		p := base
		p.Targets = slices.Clone(base.Targets)
		test.change(&p)
		must.Fail(t, p.Validate(), test.want)
	}
}

// New connections have a client certificate that was renewed while the load runs, also where
// sessions were resumed before.
func TestRenewedClientCertificate(t *testing.T) {
	t.Parallel()
	a := serverAuthority(t)
	a.issue(t, "client", time.Now().Add(time.Hour))
	a.issue(t, "renewed", time.Now().Add(time.Hour))
	var mu sync.Mutex
	var names []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		names = append(names, r.TLS.PeerCertificates[0].Subject.CommonName)
		if len(names) == 20 {
			for _, suffix := range []string{".key", ".pem"} {
				if err := os.Rename(a.file("renewed"+suffix), a.file("client"+suffix)); err != nil {
					t.Error(err)
				}
			}
		}
	}))
	s.TLS = a.config(t, "server")
	s.TLS.ClientCAs, s.TLS.ClientAuth = a.pool(), tls.RequireAndVerifyClientCert
	s.StartTLS()
	defer s.Close()
	p := a.trusting(profile(s.URL))
	p.TLS.CertFile, p.TLS.KeyFile = a.file("client.pem"), a.file("client.key")
	p.NoKeepAlive, p.Rate, p.Requests, p.Measure, p.Connections, p.Warmup, p.Tail, p.ExpectSize = true, 0, 40, time.Minute, 1, 0, 0, -1
	p.Timeout, p.Drain = 20*time.Second, 20*time.Second
	r := mustRun(t, p)
	mu.Lock()
	defer mu.Unlock()
	if r.Classes[load.OK] != 40 || len(names) != 40 {
		t.Fatalf("%v %v", r.Classes, r.Errors)
	}
	if slices.Contains(names[:20], "renewed") || slices.Contains(names[21:], "client") {
		t.Errorf("%v", names)
	}
	if r.TLSResumed == 0 {
		t.Error("no session was resumed before the renewal, so that the test shows less than it may")
	}

}
