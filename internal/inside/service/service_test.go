package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func serve(t testing.TB, i app.Instance) *httptest.Server {
	t.Helper()
	if i.Name == "" {
		i.Name = "s"
	}
	s := must.Get(New(i, Options{}))(t)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server
}

func get(t testing.TB, url string) (int, int64, string) {
	t.Helper()
	resp := must.Get(http.Get(url))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, resp.ContentLength, string(b)
}

func requests(t testing.TB, url string) int64 {
	t.Helper()
	_, _, body := get(t, url+StatsPath)
	var s Stats
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err, body)
	}
	return s.Requests
}

func TestSizes(t *testing.T) {
	for _, size := range []int64{0, 1, 1024, chunk - 1, chunk, chunk + 1, 3*chunk + 7} {
		server := serve(t, app.Instance{Behavior: app.Behavior{ResponseSize: app.FixedSize(size)}})
		status, length, body := get(t, server.URL)
		if status != 200 || length != size || int64(len(body)) != size {
			t.Errorf("size %d: status %d, Content-Length %d, %d bytes", size, status, length, len(body))
		}
		if n := requests(t, server.URL); n != 1 {
			t.Errorf("size %d: %d requests counted, want 1", size, n)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, status := range []int{204, 304, 404, 500} {
		server := serve(t, app.Instance{Behavior: app.Behavior{ResponseSize: app.FixedSize(3), Status: status}})
		if got, _, _ := get(t, server.URL); got != status {
			t.Errorf("status %d, want %d", got, status)
		}
	}
}

func TestRequestBodyIsRead(t *testing.T) {
	server := serve(t, app.Instance{Behavior: app.Behavior{ResponseSize: app.FixedSize(1)}})
	var connections atomic.Int64
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		connections.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}}
	for range 3 { // an unread body would cost the connection
		resp := must.Get(client.Post(server.URL, "", strings.NewReader(strings.Repeat("b", 1<<20))))(t)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// Calls are made in order, rotate over all URLs, and reuse connections.
func TestCalls(t *testing.T) {
	var mu sync.Mutex
	var order []string
	var opened atomic.Int64
	upstream := func(name string) string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
			fmt.Fprint(w, "answer")
		}))
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		}
		s.Start()
		t.Cleanup(s.Close)
		return s.URL
	}
	server := serve(t, app.Instance{Calls: []app.Upstream{
		{Service: "b", URLs: []string{upstream("b0"), upstream("b1")}}, {Service: "c", URLs: []string{upstream("c0")}}}})
	for range 4 {
		if status, _, body := get(t, server.URL); status != 200 {
			t.Fatal(status, body)
		}
	}
	if want := []string{"b0", "c0", "b1", "c0", "b0", "c0", "b1", "c0"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if n := opened.Load(); n != 3 {
		t.Errorf("%d connections opened, want 3", n)
	}
	// Calls of a request on its own connection use connections of their own.
	r, _ := http.NewRequest(http.MethodGet, server.URL, nil)
	r.Close = true
	resp := must.Get(http.DefaultClient.Do(r))(t)
	resp.Body.Close()
	if n := opened.Load(); n != 5 {
		t.Errorf("%d connections opened, want 5", n)
	}
}

func TestFailedCall(t *testing.T) {
	broken := serve(t, app.Instance{Behavior: app.Behavior{ResponseSize: app.FixedSize(5000), Status: 503}})
	gone := httptest.NewServer(nil)
	gone.Close()
	never := serve(t, app.Instance{})
	for url, want := range map[string]string{broken.URL: "503 Service Unavailable", gone.URL: "connection refused"} {
		server := serve(t, app.Instance{Calls: []app.Upstream{{Service: "back", URLs: []string{url}}, {Service: "later", URLs: []string{never.URL}}}})
		status, length, body := get(t, server.URL)
		if d := difftest.Wrong("status != 502", status != 502, `!strings.Contains(body, "call back: ")`, !strings.Contains(body, "call back: "), "!strings.Contains(body, want)", !strings.Contains(body, want), "length != int64(len(body))", length != int64(len(body)), "length > 2*maxReason", length > 2*maxReason); d != "" {
			t.Errorf("%s: status %d, length %d, body %q", d, status, length, body)
		}
	}
	if n := requests(t, never.URL); n != 0 {
		t.Errorf("the call after a failed one was made %d times", n)
	}
}

func TestRefusedInstances(t *testing.T) {
	for _, i := range []app.Instance{
		{Behavior: app.Behavior{ResponseSize: app.FixedSize(-1)}}, {Behavior: app.Behavior{ResponseSize: app.FixedSize(MaxResponseSize + 1)}}, {Behavior: app.Behavior{Status: 42}}, {Behavior: app.Behavior{Status: 1000}}, {Name: "A"}, {Protocol: "smtp"},
		{Calls: []app.Upstream{{Service: "x"}}},
		{Calls: []app.Upstream{{Service: "x", URLs: []string{"tcp://127.0.0.1:1"}}}},
		{Calls: []app.Upstream{{Service: "x", URLs: []string{"http://"}}}},
		{Calls: []app.Upstream{{Service: "x", URLs: []string{"http://a b"}}}},
	} {
		if _, err := New(i, Options{}); err == nil {
			t.Errorf("%+v: no error", i)
		}
	}
}

func TestListen(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	_, err = Listen(l.Addr().String())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(hint.Of(err), "port 0") {
		t.Errorf("taken: %v", err)
	}
	for _, bad := range []string{"fd:", "fd:1", "fd:x", "fd:1000", "nonsense", "192.0.2.1:0"} {
		if _, err := Listen(bad); hint.Of(err) == "" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestServeEnds(t *testing.T) {
	l := must.Get(Listen("127.0.0.1:0"))(t)
	s := must.Get(New(app.Instance{Name: "s", Behavior: app.Behavior{ResponseSize: app.FixedSize(1)}}, Options{}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, s) }()
	if status, _, _ := get(t, "http://"+l.Addr().String()); status != 200 {
		t.Error(status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// BenchmarkHandler compares the service with a minimal net/http handler with the
// same response. The two must be within 10 % of each other.
func BenchmarkHandler(b *testing.B) {
	body := []byte(strings.Repeat("x", 1024))
	s := must.Get(New(app.Instance{Name: "s", Behavior: app.Behavior{ResponseSize: app.FixedSize(1024)}}, Options{}))(b)
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", "1024")
		_, _ = w.Write(body)
	})
	for name, h := range map[string]http.Handler{"bare": bare, "service": s} {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(h)
			defer server.Close()
			b.ReportAllocs()
			for b.Loop() {
				resp := must.Get(http.Get(server.URL))(b)
				if n, err := io.Copy(io.Discard, resp.Body); n != 1024 || err != nil {
					b.Fatal(n, err)
				}
				resp.Body.Close()
			}
		})
	}
}

func TestVersionIsShown(t *testing.T) {
	for version, want := range map[int]string{0: "", 3: "3"} {
		for _, size := range []int64{1, 1 << 20} {
			resp := must.Get(http.Get(serve(t, app.Instance{Version: version, Behavior: app.Behavior{ResponseSize: app.FixedSize(size)}}).URL))(t)
			resp.Body.Close()
			if got := resp.Header.Get(load.VersionHeader); got != want {
				t.Errorf("version %d, %d bytes: header %q, want %q", version, size, got, want)
			}
		}
	}
}
