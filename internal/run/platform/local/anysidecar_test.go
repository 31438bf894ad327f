package local

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	loads "github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
	"github.com/tare-mesh/tare/test/programtest"
)

// A proxy in Python that copies bytes: listen, upstream, mode.
const pythonProxy = `
import os, signal, socket, sys, threading
listen, upstream, mode = sys.argv[1:4]
def address(text): host, port = text.rsplit(":", 1); return host, int(port)
def copy(a, b):
    try:
        while data := a.recv(65536): b.sendall(data)
    except OSError: pass
    for s in (a, b):
        try: s.shutdown(socket.SHUT_RDWR)
        except OSError: pass
def serve(client):
    try: server = socket.create_connection(address(upstream))
    except OSError: return client.close()
    threading.Thread(target=copy, args=(client, server), daemon=True).start()
    copy(server, client)
listener = socket.create_server(address(listen), backlog=100)
if mode == "helper" and os.fork() > 0: os.wait()
if mode == "daemon": # a process that left its parents serves
    if os.fork() > 0: signal.pause()
    os.setsid()
    if os.fork() > 0: os._exit(0)
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
`

// anySidecar is the definition of a sidecar in Python, read from a file.
func anySidecar(t *testing.T, program, mode, more string) mesh.Definition {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "proxy.py"), []byte(program), 0o600))
	text := "name: any\nlocal:\n  sidecar: {command: [" + python(t) + `, proxy.py, "${listen}", "${upstream}", ` + mode + "]" + more + "}\n"
	return must.Get(mesh.Decode(filepath.Join(dir, "any.yaml"), []byte(text)))(t)
}

func onPath(_ context.Context, name string) (string, string, error) {
	path, err := exec.LookPath(name)
	return path, "", err
}

// A sidecar is any program: it has a process for each listener, and its tasks are the data plane.
func TestAnySidecar(t *testing.T) {
	t.Parallel()
	d := mustDeploy(t, Options{FetchProgram: onPath}, anySidecar(t, pythonProxy, "plain", ""), "back")
	if failed := verified(t, d.declare()); failed != "" {
		t.Error(failed)
	}
	tasks := must.Get(d.Tasks(t.Context()))(t)
	var data []string
	for _, task := range tasks {
		if task.Plane == metric.Data {
			data = append(data, task.ID)
		}
	}
	const want = "back-0/sidecar echo-0/sidecar echo-0/sidecar-back load/sidecar"
	if got := strings.Join(data, " "); got != want {
		t.Errorf("tasks of the data plane: %s, want %s", got, want)
	}
	for _, id := range []string{"back-0/sidecar", "echo-0/sidecar"} {
		must.OK(t, d.faults.End(t.Context(), id, 0))
		must.OK(t, d.faults.Restart(t.Context(), id))
	}
	if failed := verified(t, d.declare()); failed != "" {
		t.Errorf("after restarts: %s", failed)
	}
}

// With a path of readiness a sidecar is awaited until it answers there.
func TestAnySidecarReadyByPath(t *testing.T) {
	t.Parallel()
	program := `
import http.server, sys, time, urllib.request
host, port = sys.argv[1].rsplit(":", 1)
class Proxy(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Proxy.asked += 1
        if self.path == "/health":
            self.send_response(503 if Proxy.asked < 3 else 204); self.end_headers(); return
        body = urllib.request.urlopen("http://" + sys.argv[2] + self.path).read()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer((host, int(port)), Proxy).serve_forever()
`
	m := anySidecar(t, program, "x", ", ready: /health")
	spec := specOf(t, "none", app.Service{Name: "web", Own: own(t, "plain")})
	spec.Mesh = m
	d := must.Get(New(Options{AgentPath: agent, FetchProgram: onPath}).Deploy(t.Context(), spec))(t)
	t.Cleanup(func() { _ = d.Remove(context.Background()) })
	if failed := verified(t, d); failed != "" {
		t.Error(failed)
	}
	if _, err := d.RequestCounts(t.Context()); err != nil {
		t.Error(err)
	}
}

// servedAt finds every program at a path.
func servedAt(path string) func(context.Context, string) (string, string, error) {
	return func(context.Context, string) (string, string, error) { return path, "", nil }
}

// shipped is the definition of a shipped proxy with options, as a variant, and the path of its real program.
func shipped(t *testing.T, name string, options map[string]string) (m mesh.Definition, path string) {
	t.Helper()
	var libraries string
	if name == "traefik" {
		if testing.Short() {
			t.Skip("may download Traefik")
		}
		path = must.Get(fetch.Find(t.Context(), name, fetch.Options{}))(t).Path
	} else {
		path, libraries = programtest.Server(t, name)
	}
	return must.Get(load(t, name).Variant(name, mesh.Overrides{Options: options, Environment: map[string]string{"LD_LIBRARY_PATH": libraries}}))(t), path
}

// Shipped proxies pass every check with the real programs, for a chain of services with two replicas, and their worker processes are
// tasks of the data plane.
func TestShippedProxies(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy", "caddy", "traefik"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, path := shipped(t, name, nil)
			d := mustDeploy(t, Options{FetchProgram: servedAt(path)}, m, "back")
			if failed := verified(t, d.declare()); failed != "" {
				t.Error(failed)
			}
			counts := must.Get(d.declare().RequestCounts(t.Context()))(t)
			counted := map[bool]int{}
			for _, c := range counts {
				if strings.HasSuffix(c.By, "/sidecar") {
					counted[c.Unknown == ""]++
				}
			}
			if got, want := fmt.Sprint(counted), map[string]string{"nginx": "map[false:2 true:2]", "haproxy": "map[true:8]", "caddy": "map[]", "traefik": "map[]"}[name]; got != want {
				t.Errorf("known counts: %s, want %s", got, want)
			}
			if name != "traefik" { // tare's own download
				versions := must.Get(New(Options{AgentPath: agent, FetchProgram: servedAt(path)}).Prepare(t.Context(), []mesh.Definition{m}))(t)
				if v := versions[name]; !regexp.MustCompile(`^\d+\.\d+`).MatchString(v) {
					t.Errorf("version %q", v)
				}
			}
			tasks := must.Get(d.Tasks(t.Context()))(t)
			data := 0
			for _, task := range tasks {
				if task.Plane == metric.Data {
					data++
				}
			}
			if want := map[string]int{"nginx": 6, "haproxy": 6, "caddy": 3, "traefik": 3}[name]; data != want {
				t.Errorf("%d processes of the data plane, want %d", data, want)
			}
		})
	}
}

// With option mtls the real programs admit the caller, and refuse plain text and clients with another certificate or none. Without
// the check of names an outside client is admitted, and found.
func TestShippedProxiesWithMTLS(t *testing.T) {
	for _, c := range []struct{ name, check, without string }{
		{"nginx", "if ($admitted = 0) { return 403; }", ""},
		{"haproxy", "http-request deny{{end}} unless {", "acl known{{end}} always_true #"},
		{"caddy", `"status_code": 403`, `"status_code": 200`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, path := shipped(t, c.name, map[string]string{"mtls": "true"})
			d := mustDeploy(t, Options{FetchProgram: servedAt(path)}, m, "back")
			checks := must.Get(platformtest.Checks(d.declare().Verify(t.Context(), platform.Probe{})))(t)
			want := []string{"identity of echo-0", "echo-0 refuses connections without a certificate", "echo-0 refuses connections as an outside client", "echo-0 refuses plain text"}
			for _, c := range checks {
				if !c.OK {
					t.Errorf("%s: %s", c.Name, c.Detail)
				}
				want = slices.DeleteFunc(want, func(name string) bool { return name == c.Name })
			}
			if len(want) > 0 {
				t.Errorf("not checked: %q", want)
			}

			local := *m.Local
			if !strings.Contains(local.Sidecar.Config, c.check) {
				t.Fatalf("the configuration has no %q", c.check)
			}
			local.Sidecar.Config = strings.ReplaceAll(local.Sidecar.Config, c.check, c.without)
			m.Local = &local
			open := mustDeploy(t, Options{FetchProgram: servedAt(path)}, m)
			must.Contain(t, verified(t, open.declare()), "as an outside client", "the proxy admits every certificate of its authority: its configuration must admit the callers alone, by their names")
		})
	}
}

// nginx, HAProxy and Caddy take over a route, and a certificate, by reading their configuration again, and their callers see it. Their
// processes are the data plane's before and after.
func TestShippedProxiesReload(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy", "caddy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, path := shipped(t, name, map[string]string{"mtls": "true"})
			o := Options{AgentPath: agent, FetchProgram: servedAt(path)}
			spec := platformtest.Spec(t, m, 1, "echo")
			spec.Changing = true
			d := must.Get(New(o).Deploy(t.Context(), spec))(t)
			t.Cleanup(func() { _ = d.Remove(context.Background()) })
			endpoint := d.Changer.Endpoints()[0]
			// HAProxy's master ignores a signal while it starts a worker: the change is made again every 5 s.
			until := func(c platform.Change, attempt func(context.Context) error) {
				t.Helper()
				made := time.Time{}
				must.OK(t, wait.Within(t.Context(), time.Minute, 5*time.Millisecond, func(ctx context.Context) error {
					if c.Kind != "" && time.Since(made) > 5*time.Second {
						must.OK(t, d.Changer.Change(t.Context(), c))
						made = time.Now()
					}
					return attempt(ctx)
				}))
			}
			serves := func(version string, c platform.Change) {
				t.Helper()
				until(c, func(ctx context.Context) error {
					r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, d.Entry()[0], nil))(t)
					resp, _, err := platform.Send(r, &http.Transport{DisableKeepAlives: true}, 1<<20)
					if err != nil {
						return err
					}
					if got := resp.Header.Get(loads.VersionHeader); got != version+" "+endpoint || resp.StatusCode != http.StatusOK {
						return fmt.Errorf("answered %d by %q, want %s %s", resp.StatusCode, got, version, endpoint)
					}
					return nil
				})
			}
			serves("0", platform.Change{})
			for version := 1; version <= 3; version++ {
				serves(strconv.Itoa(version), platform.Change{Kind: metric.RouteChanged, Version: version, Endpoints: []string{endpoint}})
			}
			before := must.Get(d.Serial(t.Context(), endpoint))(t)
			until(platform.Change{Kind: metric.CertificateRenewed, Version: 3, Endpoint: endpoint}, func(ctx context.Context) error {
				if now, err := d.Serial(ctx, endpoint); err != nil || now == before {
					return fmt.Errorf("certificate %s, which was %s before: %v", now, before, err)
				}
				return nil
			})
			serves("3", platform.Change{})
			if err := d.Changer.Change(t.Context(), platform.Change{Kind: metric.WeightShifted}); err == nil {
				t.Error("a weight was shifted, and the proxy has none")
			}
			for _, c := range must.Get(d.RequestCounts(t.Context()))(t) {
				if strings.HasSuffix(c.By, "/sidecar") && !strings.Contains(c.Instance, "reload") {
					t.Errorf("counter %+v goes on, and its proxy was reloaded", c)
				}
			}
			must.OK(t, d.Broken())
		})
	}
}

// The how-to is followed: its entry of an experiment file, with the proxy of the examples.
func TestHowToAddASidecar(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../../../docs/how-to/add-a-sidecar.md"))(t)
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	entry, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatal("the page has no YAML block")
	}
	x := must.Get(experiment.Parse("x.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\nfactors: {mesh: [none, my-proxy]}\n"+entry), experiment.Names{}))(t)
	python(t)
	x.Meshes["my-proxy"].Sidecar.Dir = "../../../../examples"
	m := must.Get(x.Definition("my-proxy", nil))(t)
	d := mustDeploy(t, Options{FetchProgram: onPath}, m)
	if failed := verified(t, d.declare()); failed != "" {
		t.Error(failed)
	}
}
