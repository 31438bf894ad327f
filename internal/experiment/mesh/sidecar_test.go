package mesh_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// sidecar is a running Envoy.
type sidecar struct {
	ctx   mesh.SidecarContext
	admin *http.Client
	ports map[string]int // by name of the listener
}

func startSidecar(t *testing.T, d mesh.Definition, program string, ctx mesh.SidecarContext) *sidecar {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare") // t.TempDir() is too long for a socket
	must.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx.ConfigPath, ctx.AdminPath = filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin")
	args, config, err := d.Local.Sidecar.Render(ctx)
	must.OK(t, err)
	must.OK(t, os.WriteFile(ctx.ConfigPath, config, 0o600))
	validate := append(append([]string(nil), args...), "--mode", "validate")
	if out, err := exec.CommandContext(t.Context(), program, validate...).CombinedOutput(); err != nil {
		t.Fatalf("%s --mode validate: %v\n%s\n%s", program, err, out, config)
	}
	s := &sidecar{ctx: ctx, ports: map[string]int{}, admin: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(c context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(c, "unix", ctx.AdminPath)
		},
	}}}
	s.start(t, exec.Command(program, args...))
	return s
}

func (s *sidecar) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	must.OK(t, cmd.Start())
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		s.admin.CloseIdleConnections()
		_ = cmd.Process.Kill()
		<-exited
		if log.Len() > 0 {
			t.Logf("%s wrote:\n%s", s.ctx.Pod, log.String())
		}
	})
	deadline := time.After(30 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-exited:
			t.Fatalf("sidecar of %s exited at start: %s", s.ctx.Pod, log.String())
		case <-deadline:
			t.Fatalf("sidecar of %s is not ready after 30 s", s.ctx.Pod)
		case <-tick.C:
			if body, err := s.get("/ready"); err != nil || strings.TrimSpace(body) != "LIVE" {
				continue
			}
			tick.Stop()
			s.readPorts(t)
			return
		}
	}
}

func (s *sidecar) readPorts(t *testing.T) {
	t.Helper()
	body := must.Get(s.get("/listeners?format=json"))(t)
	var answer struct {
		Statuses []struct {
			Name  string `json:"name"`
			Local struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	must.OK(t, json.Unmarshal([]byte(body), &answer))
	for _, l := range answer.Statuses {
		s.ports[l.Name] = l.Local.Socket.Port
	}
}

func (s *sidecar) get(path string) (string, error) {
	resp, err := s.admin.Get("http://admin" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func (s *sidecar) stat(t *testing.T, name string) int {
	t.Helper()
	body := must.Get(s.get("/stats"))(t)
	for line := range strings.Lines(body) {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), name+": "); is {
			n := must.Get(strconv.Atoi(value))(t)
			return n
		}
	}
	t.Fatalf("sidecar of %s has no counter %q", s.ctx.Pod, name)
	return 0
}
