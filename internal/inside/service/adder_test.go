package service

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// studied starts a server and its sidecar.
func studied(t testing.TB, size int64) (*AdderServer, *Sidecar, string) {
	t.Helper()
	dir := t.TempDir()
	var listeners []net.Listener
	for _, address := range []string{"127.0.0.1:0", "unix:" + filepath.Join(dir, "rest"), "127.0.0.1:0", "unix:" + filepath.Join(dir, "grpc")} {
		l, err := Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	sidecar := new(Sidecar)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sidecar.Serve(ctx, listeners[:2], listeners[2:]) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s, err := NewAdderServer(Ways{listeners[0].Addr().String(), filepath.Join(dir, "rest"), listeners[2].Addr().String(), filepath.Join(dir, "grpc")}, size)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, sidecar, server.URL
}

// Every route calls the same function with the whole payload.
func TestEveryRouteReachesTheFunction(t *testing.T) {
	s, sidecar, url := studied(t, 100)
	reached := int64(0)
	for _, r := range Routes() {
		for _, size := range []int{0, 16, 1 << 10, 1 << 20} {
			payload := strings.Repeat("x", size)
			resp, err := http.Post(url+r.Path, "application/octet-stream", strings.NewReader(payload))
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			var out sum
			if err := json.Unmarshal(b, &out); err != nil || resp.StatusCode != 200 || len(b) != 100 {
				t.Fatalf("%s, %d bytes: %s %q, %v", r.Path, size, resp.Status, b, err)
			}
			if want := (sum{3, crc32.ChecksumIEEE([]byte(payload))}); out != want {
				t.Errorf("%s, %d bytes: %+v, want %+v", r.Path, size, out, want)
			}
			if r.Path != "/adder" {
				reached++
			}
		}
	}
	if n := sidecar.requests.Load(); n != reached {
		t.Errorf("%d calls at the sidecar, want %d", n, reached)
	}
	// The study's own client sends the addends as JSON.
	resp, err := http.Post(url+"/adder-with-sidecar-grpc", typeJSON, strings.NewReader(`{"first": 20, "second": 22}`))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.HasPrefix(string(b), `{"result":42`) {
		t.Errorf("%s", b)
	}
	w := httptest.NewRecorder()
	s.Admin("").ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, r := range Routes() {
		for _, stage := range []string{"total", "calc"} {
			if want := `server_response_time_count{route="` + r.Server + `",stage="` + stage + `"}`; !strings.Contains(w.Body.String(), want) {
				t.Errorf("no %s", want)
			}
		}
	}
}

func TestAdderClientCallsAllRoutes(t *testing.T) {
	s, _, url := studied(t, 0)
	c, err := NewAdderClient(url, 16, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); s.requests.Load() < 10 && time.Now().Before(deadline); {
		_ = sleep(ctx, time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w := httptest.NewRecorder()
	c.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, r := range Routes() {
		if !strings.Contains(w.Body.String(), `client_response_time_count{route="`+r.Client+`"}`) {
			t.Errorf("no %s in\n%s", r.Client, w.Body)
		}
	}
	for _, bad := range []func() (*AdderClient, error){
		func() (*AdderClient, error) { return NewAdderClient("x", 0, time.Second) },
		func() (*AdderClient, error) { return NewAdderClient(url, -1, time.Second) },
		func() (*AdderClient, error) { return NewAdderClient(url, 0, 0) },
	} {
		if _, err := bad(); err == nil {
			t.Error("accepted")
		}
	}
}

func TestAdderRefuses(t *testing.T) {
	_, sidecar, url := studied(t, 0)
	if status, _, body := get(t, url+"/nowhere"); status != 404 || !strings.Contains(body, "/adder-with-sidecar-grpc-socket") {
		t.Error(status, body)
	}
	w := httptest.NewRecorder()
	sidecar.ServeHTTP(w, httptest.NewRequest("POST", "/adder", strings.NewReader("{")))
	if w.Code != 400 {
		t.Error(w.Code)
	}
	if _, err := NewAdderServer(Ways{}, -1); err == nil {
		t.Error("accepted")
	}
}
