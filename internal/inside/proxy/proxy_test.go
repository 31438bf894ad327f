package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/proxy"
	"github.com/tare-mesh/tare/test/must"
)

// sidecar is a running proxy and its admin client.
type sidecar struct {
	ports map[string]int
	admin *http.Client
	end   func() error
}

// start runs the proxy with the configuration that a mesh definition renders.
func start(t *testing.T, c mesh.SidecarContext, w proxy.Weight) *sidecar {
	t.Helper()
	definition := must.Get(mesh.Load("reference"))(t)
	c.IP, c.AdminPath = "127.0.0.1", filepath.Join(t.TempDir(), "a.sock")
	_, rendered, err := definition.Local.Sidecar.Render(c)
	must.OK(t, err)
	var read mesh.SidecarContext
	must.OK(t, json.Unmarshal(rendered, &read))
	p := must.Get(proxy.New(read, w))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	s := &sidecar{ports: map[string]int{}, admin: &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.AdminPath)
		}}}}
	s.end = func() error { cancel(); return <-done }
	t.Cleanup(cancel)
	if info, err := os.Stat(c.AdminPath); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("admin socket: %v, %v", info, err)
	}
	var listeners struct {
		All []struct {
			Name  string `json:"name"`
			Local struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	s.ask(t, "/listeners?format=json", &listeners)
	for _, l := range listeners.All {
		s.ports[l.Name] = l.Local.Socket.Port
	}
	return s
}

func (s *sidecar) ask(t *testing.T, path string, into any) {
	t.Helper()
	resp := must.Get(s.admin.Get("http://admin" + path))(t)
	defer resp.Body.Close()
	must.OK(t, json.NewDecoder(resp.Body).Decode(into))
}

func (s *sidecar) counter(t *testing.T, name string) int64 {
	t.Helper()
	var stats struct {
		Stats []struct {
			Name  string `json:"name"`
			Value int64  `json:"value"`
		} `json:"stats"`
	}
	s.ask(t, "/stats?format=json&type=Counters", &stats)
	for _, c := range stats.Stats {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("there is no counter %s", name)
	return 0
}

func inboundOf(t *testing.T, url string) *mesh.Inbound {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	n, err2 := strconv.Atoi(port)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return &mesh.Inbound{AppIP: host, AppPort: n}
}

func get(t *testing.T, port int) (status int, body string) {
	t.Helper()
	resp := must.Get(http.Get(fmt.Sprintf("http://127.0.0.1:%d/path?q=1", port)))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(b)
}

func TestRequestsPassBothSidecars(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Forwarded-Client-Cert") != "" {
			t.Error("a caller's word for who it is was passed on")
		}
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, r.URL.RequestURI())
	}))
	defer app.Close()
	in := start(t, mesh.SidecarContext{Pod: "echo-0", Service: "echo", Inbound: inboundOf(t, app.URL)}, proxy.Weight{})
	out := start(t, mesh.SidecarContext{Pod: "load", Service: "load",
		Outbound: []mesh.Outbound{{Service: "echo", Endpoints: []mesh.Endpoint{{IP: "127.0.0.1", Port: in.ports["inbound"]}}}}}, proxy.Weight{})
	const requests = 20
	for range requests {
		if status, body := get(t, out.ports["outbound-echo"]); status != http.StatusTeapot || body != "/path?q=1" {
			t.Fatalf("answered %d %q", status, body)
		}
	}
	if n := in.counter(t, "http.inbound.downstream_rq_total"); n != requests {
		t.Errorf("inbound counted %d", n)
	}
	if n := out.counter(t, "cluster.outbound-echo.upstream_rq_total"); n != requests {
		t.Errorf("outbound counted %d", n)
	}
	app.Close()
	if status, _ := get(t, out.ports["outbound-echo"]); status != http.StatusServiceUnavailable {
		t.Errorf("without an application: %d", status)
	}
	if err := in.end(); err != nil {
		t.Error(err)
	}
	if status, _ := get(t, out.ports["outbound-echo"]); status != http.StatusServiceUnavailable {
		t.Errorf("without the other sidecar: %d", status)
	}
}

func TestDelayIsWaited(t *testing.T) {
	app := httptest.NewServer(http.NotFoundHandler())
	defer app.Close()
	const delay = 50 * time.Millisecond
	in := start(t, mesh.SidecarContext{Pod: "echo-0", Inbound: inboundOf(t, app.URL)}, proxy.Weight{Delay: delay})
	began := time.Now()
	get(t, in.ports["inbound"])
	if took := time.Since(began); took < delay {
		t.Errorf("answered after %v", took)
	}
}

func TestWeightsOutOfBounds(t *testing.T) {
	for name, w := range map[string]proxy.Weight{
		"burn": {Burn: time.Hour}, "negative": {Burn: -1}, "delay": {Delay: time.Hour}, "memory": {Memory: 1 << 20},
	} {
		if _, err := proxy.New(mesh.SidecarContext{Pod: "p", AdminPath: filepath.Join(t.TempDir(), "s")}, w); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
