package service

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
)

const token = "0123456789abcdef"

// administered starts a service with its REST API.
func administered(t testing.TB, i app.Instance) (s *Service, traffic, admin string) {
	t.Helper()
	if i.Name == "" {
		i.Name = "s"
	}
	s = must.Get(New(i, Options{MaxMemory: 64 << 20}))(t)
	a, b := httptest.NewServer(s), httptest.NewServer(NewAdmin(s, token, func() bool { return true }))
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	return s, a.URL, b.URL
}

func ask(t testing.TB, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r := must.Get(http.NewRequest(method, url, strings.NewReader(body)))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", typeJSON)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp := must.Get(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp, string(b)
}

func TestConfigOverREST(t *testing.T) {
	_, traffic, admin := administered(t, app.Instance{Behavior: app.Behavior{ResponseSize: app.FixedSize(5)}})
	if resp, body := ask(t, "GET", admin+"/config", ""); resp.StatusCode != 200 || !strings.Contains(body, `"responseSize": 5`) {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if resp, body := ask(t, "PATCH", admin+"/config", `{"status": 503, "errors": {"ratio": 0}}`); resp.StatusCode != 200 || !strings.Contains(body, `"status": 503`) || !strings.Contains(body, `"responseSize": 5`) {
		t.Errorf("patch: %d %s", resp.StatusCode, body)
	}
	if status, _, _ := get(t, traffic); status != 503 {
		t.Errorf("status %d after the change", status)
	}
	if resp, body := ask(t, "PATCH", admin+"/config", `{"status": null, "errors": null}`); resp.StatusCode != 200 || strings.Contains(body, "status") {
		t.Errorf("taken away: %d %s", resp.StatusCode, body)
	}
	if resp, body := ask(t, "PATCH", admin+"/config", `{"responseSize": "uniform(1, 3)", "time": "exponential(1ms)"}`, "Content-Type", typeMerge); resp.StatusCode != 200 {
		t.Errorf("distributions: %d %s", resp.StatusCode, body)
	}
	if _, length, body := get(t, traffic); length < 1 || length > 3 || int64(len(body)) != length {
		t.Errorf("%d bytes of %d", len(body), length)
	}
}

func TestRefusedChanges(t *testing.T) {
	s, _, admin := administered(t, app.Instance{Behavior: app.Behavior{ResponseSize: app.FixedSize(5)}})
	before := s.Config()
	for name, tc := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		message            string
	}{
		"no token":          {"PATCH", "/config", `{"name": "s"}`, []string{"Authorization", ""}, 401, "token"},
		"another token":     {"PATCH", "/config", `{}`, []string{"Authorization", "Bearer x"}, 401, "token"},
		"not JSON":          {"PATCH", "/config", "name: s", nil, 400, "not JSON"},
		"another type":      {"PATCH", "/config", `{"name": "s"}`, []string{"Content-Type", "text/plain"}, 415, "text/plain"},
		"unknown field":     {"PATCH", "/config", `{"name": "s", "statsu": 1}`, nil, 422, "did you mean status?"},
		"wrong type":        {"PATCH", "/config", `{"status": "ok"}`, nil, 422, "expected a whole number"},
		"twice":             {"PATCH", "/config", `{"status": 200, "status": 201}`, nil, 422, "given twice"},
		"another name":      {"PATCH", "/config", `{"name": "t"}`, nil, 422, "stay as they were"},
		"another protocol":  {"PATCH", "/config", `{"protocol": "grpc"}`, nil, 422, "stay as they were"},
		"too much memory":   {"PATCH", "/config", `{"memory": "1GiB"}`, nil, 422, "--max-memory"},
		"a list":            {"PATCH", "/config", `[1]`, nil, 422, "not valid"},
		"ratio":             {"PATCH", "/config", `{"errors": {"ratio": 1.5}}`, nil, 422, "not from 0 to 1"},
		"too long":          {"PATCH", "/config", `{"name": "` + strings.Repeat("s", maxConfigBody) + `"}`, nil, 413, "larger"},
		"method":            {"DELETE", "/config", "", nil, 405, "DELETE"},
		"path":              {"GET", "/nothing", "", nil, 404, "/config"},
		"headers of others": {"PATCH", "/config", `{"calls": [{"service": "b", "urls": ["http://127.0.0.1:1/"], "headers": {"Host": "x"}}]}`, nil, 422, "cannot be set"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := ask(t, tc.method, admin+tc.path, tc.body, tc.headers...)
			if resp.StatusCode != tc.status || !strings.Contains(body, tc.message) || resp.Header.Get("Content-Type") != typeProblem {
				t.Errorf("%d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), body)
			}
		})
	}
	if after := s.Config(); string(after) != string(before) {
		t.Errorf("the configuration is another now: %s", after)
	}
}

// A request never sees a mixture of two configurations: status and size of each
// response match, while concurrent clients change both ten thousand times.
func TestNoTornConfiguration(t *testing.T) {
	s, traffic, _ := administered(t, app.Instance{Behavior: app.Behavior{Status: 200, ResponseSize: app.FixedSize(200)}})
	const changers = 50
	changes := 10_000
	if testing.Short() {
		t.Attr("short", "1000 changes")
		changes = 1000
	}
	var done atomic.Bool
	var load, change sync.WaitGroup
	var answers atomic.Int64
	for range 8 {
		load.Go(func() {
			for !done.Load() {
				status, length, body := get(t, traffic)
				if int64(status) != length || len(body) != status {
					t.Errorf("status %d with %d bytes", status, length)
				}
				answers.Add(1)
			}
		})
	}
	for c := range changers {
		change.Go(func() {
			for i := range changes / changers {
				status := 200 + (c+i)%400
				if !hasBody(status) {
					status++
				}
				patch := fmt.Sprintf(`{"status": %d, "responseSize": %d, "memory": "%dKiB"}`, status, status, i%64)
				if err := s.Change(func(now app.Instance) (app.Instance, error) { return app.PatchInstance(now, "t", []byte(patch)) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	change.Wait()
	done.Store(true)
	load.Wait()
	if answers.Load() == 0 {
		t.Errorf("no answer during %d changes", changes)
	}
}

// Clients that send incomplete requests, or one byte at a time, hold only the
// max number of connections, until the timeouts.
func TestSlowClients(t *testing.T) {
	s := must.Get(New(app.Instance{Name: "s"}, Options{}))(t)
	l := must.Get(Listen("127.0.0.1:0"))(t)
	a := NewAdmin(s, token, func() bool { return true })
	server := a.Server()
	server.ReadHeaderTimeout = 100 * time.Millisecond
	server.ReadTimeout = 200 * time.Millisecond
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	before := runtime.NumGoroutine()
	var slow []net.Conn
	for i := range 200 {
		c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		defer c.Close()
		text := "GET /config HTTP/1.1\r\nHost: x\r\nX-A: "
		if i%2 == 1 {
			text = "PATCH /config HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
		}
		must.Get(io.WriteString(c, text))(t)
		slow = append(slow, c)
	}
	for _, c := range slow { // the server closes every one of them
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a slow client was not given up")
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before+10 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+10 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	if resp, _ := ask(t, "GET", "http://"+l.Addr().String()+"/healthz", ""); resp.StatusCode != 204 {
		t.Errorf("status %d after the slow ones", resp.StatusCode)
	}
}

func TestHugeHeader(t *testing.T) {
	s := must.Get(New(app.Instance{Name: "s"}, Options{}))(t)
	server := httptest.NewUnstartedServer(nil)
	server.Config = NewAdmin(s, token, func() bool { return true }).Server()
	server.Start()
	defer server.Close()
	c := must.Get(net.Dial("tcp", server.Listener.Addr().String()))(t)
	defer c.Close()
	go func() {
		_, _ = io.WriteString(c, "GET /config HTTP/1.1\r\nHost: x\r\nX-A: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
	}()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && !strings.Contains(line, "431") {
		t.Errorf("answered %q", line)
	}
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for _, tc := range []struct {
		text string
		mode os.FileMode
		want string
	}{{token + "\n", 0o600, ""}, {token, 0o644, "other users may read"}, {"short", 0o600, "fewer than 16"}} {
		must.OK(t, os.WriteFile(file, []byte(tc.text), tc.mode))
		must.OK(t, os.Chmod(file, tc.mode))
		got, err := ReadToken(file)
		if tc.want == "" && (err != nil || got != token) {
			t.Errorf("%q, %v", got, err)
		}
		if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: %v", tc.text, err)
		}
	}
	// Without a token all changes are refused.
	s := must.Get(New(app.Instance{Name: "s"}, Options{}))(t)
	server := httptest.NewServer(NewAdmin(s, "", func() bool { return false }))
	defer server.Close()
	if resp, _ := ask(t, "PATCH", server.URL+"/config", "{}"); resp.StatusCode != 403 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if resp, _ := ask(t, "GET", server.URL+"/readyz", ""); resp.StatusCode != 503 {
		t.Errorf("status %d", resp.StatusCode)
	}
}
