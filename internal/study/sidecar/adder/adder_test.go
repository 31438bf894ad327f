package adder

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/inside/service"
	"github.com/tare-mesh/tare/internal/study/sidecar"
)

// studied starts a server and its sidecar.
func studied(t testing.TB, size int64) (*Server, *Sidecar, string) {
	t.Helper()
	dir := t.TempDir()
	var listeners []net.Listener
	for _, address := range []string{"127.0.0.1:0", "unix:" + filepath.Join(dir, "rest"), "127.0.0.1:0", "unix:" + filepath.Join(dir, "grpc")} {
		l := must.Get(service.Listen(address))(t)
		listeners = append(listeners, l)
	}
	beside := new(Sidecar)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- beside.Serve(ctx, listeners[:2], listeners[2:]) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s := must.Get(NewServer(Ways{listeners[0].Addr().String(), filepath.Join(dir, "rest"), listeners[2].Addr().String(), filepath.Join(dir, "grpc")}, size))(t)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, beside, server.URL
}

// post returns the status and the body of the answer to a payload.
func post(t *testing.T, url, contentType, body string) (int, []byte) {
	t.Helper()
	resp := must.Get(http.Post(url, contentType, strings.NewReader(body)))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, b
}

// Every route calls the same function with the whole payload, and the server reports
// the times of each.
func TestEveryRouteReachesTheFunction(t *testing.T) {
	s, beside, url := studied(t, 100)
	reached := int64(0)
	sizes := []int{0, 16, 1 << 10, 1 << 20, 3 << 20}
	for _, r := range routes {
		for _, size := range sizes {
			payload := strings.Repeat("x", size)
			status, b := post(t, url+r.path, "application/octet-stream", payload)
			var out sum
			if err := json.Unmarshal(b, &out); err != nil || status != 200 || len(b) != 100 {
				t.Fatalf("%s, %d bytes: %d %q, %v", r.path, size, status, b, err)
			}
			if want := (sum{3, crc32.ChecksumIEEE([]byte(payload))}); out != want {
				t.Errorf("%s, %d bytes: %+v, want %+v", r.path, size, out, want)
			}
			if r.path != sidecar.InProcess {
				reached++
			}
		}
	}
	if n := beside.requests.Load(); n != reached {
		t.Errorf("%d calls at the sidecar, want %d", n, reached)
	}
	admin := httptest.NewServer(s.Admin(""))
	defer admin.Close()
	resp := must.Get(http.Get(admin.URL + app.StagesPath))(t)
	defer resp.Body.Close()
	var stages []app.StageTime
	if err := json.NewDecoder(resp.Body).Decode(&stages); err != nil || len(stages) != 2*len(routes) {
		t.Fatalf("%+v, %v", stages, err)
	}
	for _, st := range stages {
		if st.Count != int64(len(sizes)) || st.Seconds <= 0 {
			t.Errorf("%+v", st)
		}
	}
	// The study's own client sends the addends as JSON.
	for _, numbers := range []string{`{"first": 20, "second": 22}`, `{"first": -20, "second": 62}`} {
		if _, b := post(t, url+sidecar.GRPC, typeJSON, numbers); !strings.HasPrefix(string(b), `{"result":42`) {
			t.Errorf("%s", b)
		}
	}
	w := httptest.NewRecorder()
	s.Admin("").ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, r := range routes {
		for _, stage := range []string{"total", "calc"} {
			if want := `server_response_time_count{route="` + r.server + `",stage="` + stage + `"}`; !strings.Contains(w.Body.String(), want) {
				t.Errorf("no %s", want)
			}
		}
	}
}

// The description of the program has the routes of the server.
func TestProgramHasTheRoutes(t *testing.T) {
	var paths []string
	for _, r := range routes {
		paths = append(paths, r.path)
	}
	if got := sidecar.Program().RoutePaths(app.EveryRoute); !slices.Equal(got, paths) {
		t.Errorf("%q, want %q", got, paths)
	}
}

func TestClientCallsAllRoutes(t *testing.T) {
	s, _, url := studied(t, 0)
	c := must.Get(NewClient(url, 16, 10*time.Millisecond))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); s.requests.Load() < 10 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w := httptest.NewRecorder()
	c.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, r := range routes {
		if !strings.Contains(w.Body.String(), `client_response_time_count{route="`+r.client+`"}`) {
			t.Errorf("no %s in\n%s", r.client, w.Body)
		}
	}
	for _, bad := range []func() (*Client, error){
		func() (*Client, error) { return NewClient("x", 0, time.Second) },
		func() (*Client, error) { return NewClient(url, -1, time.Second) },
		func() (*Client, error) { return NewClient(url, 0, 0) },
	} {
		if _, err := bad(); err == nil {
			t.Error("accepted")
		}
	}
}

func TestRefused(t *testing.T) {
	s, beside, url := studied(t, 0)
	resp := must.Get(http.Get(url + "/nowhere"))(t)
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 404 || !bytes.Contains(b, []byte("/adder-with-sidecar-grpc-socket")) {
		t.Errorf("%s %s", resp.Status, b)
	}
	w := httptest.NewRecorder()
	beside.ServeHTTP(w, httptest.NewRequest("POST", "/adder", strings.NewReader("{")))
	if w.Code != 400 {
		t.Error(w.Code)
	}
	w = httptest.NewRecorder()
	s.Admin("").ServeHTTP(w, httptest.NewRequest("POST", service.ProbePath, nil))
	if w.Code != 403 {
		t.Errorf("a reading without a token: %d", w.Code)
	}
	if _, err := NewServer(Ways{}, -1); err == nil {
		t.Error("accepted")
	}
}
