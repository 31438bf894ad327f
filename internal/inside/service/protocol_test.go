package service

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// listening serves an instance in its protocol and returns its URL.
func listening(t testing.TB, i app.Instance) (string, *Service) {
	t.Helper()
	if i.Name == "" {
		i.Name = "s"
	}
	s := must.Get(New(i, Options{}))(t)
	l := must.Get(Listen("127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String() + "/", s
}

func grpcConn(t testing.TB, url string) *grpc.ClientConn {
	t.Helper()
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	conn := must.Get(grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestGRPC(t *testing.T) {
	url, s := listening(t, app.Instance{Protocol: app.GRPC, Behavior: app.Behavior{ResponseSize: app.FixedSize(100_000)}})
	conn := grpcConn(t, url)
	var answer wrapperspb.BytesValue
	if err := conn.Invoke(t.Context(), app.GRPCMethod, &wrapperspb.BytesValue{Value: []byte("x")}, &answer); err != nil || len(answer.Value) != 100_000 {
		t.Fatalf("%d bytes, %v", len(answer.Value), err)
	}
	if h, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil || h.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
	start := s.now.Load().instance
	for want, patch := range map[codes.Code]string{
		codes.Unavailable: `{"status": 503}`, codes.Internal: `{"status": 200, "errors": {"ratio": 1}}`, codes.ResourceExhausted: `{"errors": null, "rateLimit": 0.001}`,
	} {
		must.OK(t, s.Change(func(app.Instance) (app.Instance, error) { return app.PatchInstance(start, "t", []byte(patch)) }))
		var err error
		for range 2 { // the first is still within the limit
			err = conn.Invoke(t.Context(), app.GRPCMethod, &wrapperspb.BytesValue{}, &answer)
		}
		if status.Code(err) != want {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if n := s.Stats().Requests; n != 7 {
		t.Errorf("%d requests, want 7", n)
	}
}

func TestHTTP2WithPriorKnowledge(t *testing.T) {
	url, _ := listening(t, app.Instance{Behavior: app.Behavior{ResponseSize: app.FixedSize(7)}})
	for version, major := range map[int]int{1: 1, 2: 2} {
		tr := newTransports(version, new(net.Dialer).DialContext)
		r, _ := http.NewRequest("GET", url, nil)
		resp := must.Get(tr.kept.RoundTrip(r))(t)
		n, _ := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.ProtoMajor != major || n != 7 {
			t.Errorf("%s, %d bytes", resp.Proto, n)
		}
	}
}

func TestTCPEcho(t *testing.T) {
	url, s := listening(t, app.Instance{Protocol: app.TCP})
	c := must.Get(net.Dial("tcp", strings.Trim(strings.TrimPrefix(url, "http://"), "/")))(t)
	defer c.Close()
	for _, word := range []string{"one", "three"} {
		_, _ = io.WriteString(c, word)
		got := make([]byte, len(word))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != word {
			t.Errorf("%q, %v", got, err)
		}
	}
	if n := s.Stats().Requests; n != 1 {
		t.Errorf("%d requests", n)
	}
}

// recorder is a callee that records its requests.
type recorder struct {
	mu   sync.Mutex
	seen []*http.Request
	size []int64
	now  atomic.Int64
	most atomic.Int64
}

func (r *recorder) serve(t *testing.T, answer func(w http.ResponseWriter, n int)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.most.Store(max(r.most.Load(), r.now.Add(1)))
		defer r.now.Add(-1)
		n, _ := io.Copy(io.Discard, q.Body)
		r.mu.Lock()
		r.seen, r.size = append(r.seen, q), append(r.size, n)
		count := len(r.seen)
		r.mu.Unlock()
		answer(w, count)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/"
}

// count returns the number of received requests. A cancelled request can arrive
// after its caller has continued.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

func fine(http.ResponseWriter, int) {}

func TestHeadersOfCalls(t *testing.T) {
	var to recorder
	up := app.Upstream{Service: "b", URLs: []string{to.serve(t, fine)}, CallOptions: app.CallOptions{
		Path: "/p?q=1", RequestSize: app.FixedSize(70_000), Headers: map[string]string{"x-mine": "yes"}}}
	server := serve(t, app.Instance{Calls: []app.Upstream{up}})
	r, _ := http.NewRequest("GET", server.URL, nil)
	for _, h := range traceHeaders {
		r.Header.Set(h, "v-"+h)
	}
	r.Header.Set("x-other", "not passed on")
	resp := must.Get(http.DefaultClient.Do(r))(t)
	resp.Body.Close()
	got := to.seen[0]
	for _, h := range traceHeaders {
		if got.Header.Get(h) != "v-"+h {
			t.Errorf("%s: %q", h, got.Header.Get(h))
		}
	}
	if d := difftest.Of(`got.Header.Get("x-other")`, got.Header.Get("x-other"), "", `got.Header.Get("x-mine")`, got.Header.Get("x-mine"), "yes", "got.RequestURI", got.RequestURI, "/p?q=1", "got.Method", got.Method, "POST", "to.size[0]", to.size[0], 70_000); d != "" {
		t.Errorf("%s: %v %s %s, %d bytes", d, got.Header, got.Method, got.RequestURI, to.size[0])
	}
	// The same over gRPC, one service after another.
	var md metadata.MD
	url, back := listening(t, app.Instance{Protocol: app.GRPC})
	_ = back
	front, _ := listening(t, app.Instance{Name: "f", Protocol: app.GRPC, Calls: []app.Upstream{
		{Service: "c", URLs: []string{url}, CallOptions: app.CallOptions{Protocol: app.GRPC}}, {Service: "b", URLs: up.URLs}}})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "id-1")
	must.OK(t, grpcConn(t, front).Invoke(ctx, app.GRPCMethod, &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{}, grpc.Header(&md)))
	if id := to.seen[1].Header.Get("x-request-id"); id != "id-1" {
		t.Errorf("x-request-id %q", id)
	}
}

func TestCallsAlongside(t *testing.T) {
	var to recorder
	all := make(chan struct{})
	url := to.serve(t, func(_ http.ResponseWriter, n int) {
		if n == 3 {
			close(all)
		}
		<-all // respond only after three requests have arrived
	})
	var calls []app.Upstream
	for i := range 3 {
		calls = append(calls, app.Upstream{Service: "b", URLs: []string{url}, CallOptions: app.CallOptions{Alongside: i > 0}})
	}
	if status, _, body := get(t, serve(t, app.Instance{Calls: calls}).URL); status != 200 {
		t.Error(status, body)
	}
}

func TestRetriesTimeoutsAndProbability(t *testing.T) {
	var flaky, slow, rare recorder
	release := make(chan struct{})
	defer close(release)
	half := 0.5
	flakyURL := flaky.serve(t, func(w http.ResponseWriter, n int) {
		if n%3 != 0 {
			w.WriteHeader(503)
		}
	})
	slowURL := slow.serve(t, func(http.ResponseWriter, int) { <-release })
	rareURL := rare.serve(t, fine)
	call := func(url string, o app.CallOptions) string {
		return serve(t, app.Instance{Behavior: app.Behavior{FailedCallStatus: 504}, Calls: []app.Upstream{{Service: "b", URLs: []string{url}, CallOptions: o}}}).URL
	}
	if status, _, body := get(t, call(flakyURL, app.CallOptions{Retries: 2})); status != 200 {
		t.Error(status, body)
	}
	if status, _, body := get(t, call(flakyURL, app.CallOptions{Retries: 1})); status != 504 || !strings.Contains(body, "503") {
		t.Error(status, body)
	}
	if status, _, body := get(t, call(slowURL, app.CallOptions{Timeout: app.Duration(500 * time.Millisecond), Retries: 1})); status != 504 || !strings.Contains(body, "deadline") {
		t.Error(status, body)
	}
	for deadline := time.Now().Add(5 * time.Second); slow.count() < 2 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if n := slow.count(); n != 2 {
		t.Errorf("%d requests came, want the first and one retry", n)
	}
	url := call(rareURL, app.CallOptions{Probability: &half})
	for range 400 {
		get(t, url)
	}
	if n := rare.count(); n < 120 || n > 280 { // eight standard deviations
		t.Errorf("%d of 400 calls of probability 0.5", n)
	}
}

func TestRedirects(t *testing.T) {
	back, _ := listening(t, app.Instance{Behavior: app.Behavior{Redirects: map[string]string{"//": "/"}}})
	o := app.CallOptions{Path: "//?row=1", FollowRedirects: true}
	if status, _, body := get(t, serve(t, app.Instance{Calls: []app.Upstream{{Service: "b", URLs: []string{back}, CallOptions: o}}}).URL); status != 200 {
		t.Error(status, body)
	}
	if n := requests(t, strings.TrimSuffix(back, "/")); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	o.FollowRedirects = false
	if status, _, body := get(t, serve(t, app.Instance{Calls: []app.Upstream{{Service: "b", URLs: []string{back}, CallOptions: o}}}).URL); status != 502 || !strings.Contains(body, "301") {
		t.Error(status, body)
	}
}

func TestErrors(t *testing.T) {
	s, url, _ := administered(t, app.Instance{Behavior: app.Behavior{Errors: &app.Errors{Ratio: 0.5, Status: 599}}})
	failed := 0
	for range 400 {
		if status, _, _ := get(t, url); status == 599 {
			failed++
		}
	}
	if failed < 120 || failed > 280 || s.Stats().Injected != int64(failed) {
		t.Errorf("%d of 400 failed, %d counted", failed, s.Stats().Injected)
	}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1000)
		passed := 0
		for start := time.Now(); time.Since(start) < 200*time.Millisecond; time.Sleep(100 * time.Microsecond) {
			if l.allow() {
				passed++
			}
		}
		if passed < 298 || passed > 300 { // 100 at once, and 1000 a second
			t.Errorf("%d passed a limit of 1000 a second in 200 ms", passed)
		}
	})
}

// The service releases held memory at once, and connections after the last
// request.
func TestMemoryIsHeldAndGivenBack(t *testing.T) {
	s, _, admin := administered(t, app.Instance{})
	if resp, body := ask(t, "PATCH", admin+"/config", `{"memory": "32MiB"}`); resp.StatusCode != 200 || len(s.held.mapped) != 32<<20 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := ask(t, "PATCH", admin+"/config", `{"memory": null}`); resp.StatusCode != 200 || s.held.mapped != nil {
		t.Errorf("%d, %d bytes are held", resp.StatusCode, len(s.held.mapped))
	}
}
