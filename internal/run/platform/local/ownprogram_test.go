package local

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	loads "github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
	"github.com/tare-mesh/tare/test/programtest"
)

// A server in Python. Its mode is the first argument, its port the second.
const ownServer = `
import http.server, os, socketserver, sys, time, urllib.request
mode, port = sys.argv[1], int(sys.argv[2])
def leave(): # its process group and its session, without an environment and with no parent
    if os.fork() > 0: return
    os.setsid()
    if os.fork() > 0: os._exit(0)
    open(sys.argv[3], "w").write(str(os.getpid()))
    os.closerange(3, 99)
    os.execve("/bin/sleep", ["sleep", "600"], {})
class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        status, body = 200, b"ok\n"
        if mode == "calls" and self.path == "/":
            body = urllib.request.urlopen(os.environ["API_URL"]).read()
        if mode == "lazy" and not os.path.exists(sys.argv[3]):
            leave()
        if self.path == "/missing" or mode == "noroot" and self.path == "/":
            status = 404
        if mode == "host" and self.headers["Host"] != sys.argv[3]:
            status = 400
        self.send_response(status)
        if mode == "endless" and self.path == "/":
            self.end_headers()
            while True: self.wfile.write(b"x"); time.sleep(0.1)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
if mode == "crash":
    print("no database", file=sys.stderr)
    sys.exit(3)
if mode == "slow":
    time.sleep(1)
if mode == "elsewhere":
    port = 0
if mode in ("closes", "greets"):
    import socket
    s = socket.create_server(("127.0.0.1", port))
    while True:
        c, _ = s.accept()
        if mode == "greets": c.sendall(b"220 hello\r\n")
        c.close()
if mode == "daemon":
    leave()
if mode == "child" and os.fork() > 0: # a child serves
    os.wait()
class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
Threads(("127.0.0.1", port), Server).serve_forever()
`

func python(t *testing.T) string {
	t.Helper()
	return programtest.Installed(t, "python3", "apt install python3")
}

func own(t *testing.T, mode string, more ...string) app.Own {
	return app.Own{Command: append([]string{python(t), "-c", ownServer, mode, "${port}"}, more...), Dir: t.TempDir()}
}

// specOf is a specification of programs of the user.
func specOf(t *testing.T, meshName string, services ...app.Service) platform.Spec {
	t.Helper()
	levels := experiment.DefaultLevels()
	levels.Mesh = meshName
	return platform.Spec{
		Trial: plan.Trial{ID: "t"}, Treatment: plan.Treatment{ID: meshName, Levels: levels},
		Topology: app.Topology{Name: "own", Entry: services[0].Name, Services: services},
		Mesh:     load(t, meshName), Provenance: t.TempDir(),
	}
}

func deployOwn(t *testing.T, o Options, spec platform.Spec) (*platform.Deployment, error) {
	t.Helper()
	o.AgentPath, o.FetchProgram = agent, fetchProgram
	d, err := New(o).Deploy(t.Context(), spec)
	if err == nil {
		t.Cleanup(func() { _ = d.Remove(context.Background()) })
	}
	return d, err
}

func verified(t *testing.T, d *platform.Deployment) string {
	t.Helper()
	checks := must.Get(platformtest.Checks(d.Verify(t.Context(), platform.Probe{})))(t)
	for _, c := range checks {
		if !c.OK {
			return c.Name + ": " + c.Detail + "\n" + c.Hint
		}
	}
	return ""
}

// Two programs of the user, one of which calls the other, pass every check under each mesh.
func TestOwnPrograms(t *testing.T) {
	meshes := []string{"none", "reference-mtls", "envoy"}
	switch {
	case testing.Short():
		t.Attr("short", "without Envoy and Consul")
		meshes = meshes[:2]
	case os.Getenv("TARE_TEST_ALL") != "":
		meshes = append(meshes, "consul")
	}
	t.Parallel()
	for _, name := range meshes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := must.Get(deployOwn(t, Options{}, specOf(t, name,
				app.Service{Name: "web", Own: own(t, "calls"), Calls: []app.Call{{Service: "api"}}}, app.Service{Name: "api", Own: own(t, "child")})))(t)
			if failed := verified(t, d); failed != "" {
				t.Error(failed)
			}
			tasks := must.Get(d.Tasks(t.Context()))(t)
			var ids []string
			for _, task := range tasks {
				if task.Plane == metric.App {
					ids = append(ids, task.ID)
				}
			}
			for _, task := range tasks {
				if strings.HasPrefix(task.ID, "api-0/app/") && !d.Running.(*deployment).processes.noted[task.PID] {
					t.Errorf("%s is not recorded for a sweep", task.ID)
				}
			}
			// The child of the program is a task of its own.
			if !slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(id, "api-0/app/") }) || !slices.Contains(ids, "web-0/app") {
				t.Errorf("tasks of the application: %v", ids)
			}
		})
	}
}

// A program that does not call through its sidecar, or not at all, is noticed.
func TestOwnProgramThatBypassesTheMesh(t *testing.T) {
	t.Parallel()
	d := must.Get(deployOwn(t, Options{settle: 200 * time.Millisecond}, specOf(t, "reference-mtls",
		app.Service{Name: "web", Own: own(t, "plain"), Calls: []app.Call{{Service: "api"}}}, app.Service{Name: "api", Own: own(t, "plain")})))(t)
	must.Contain(t, verified(t, d), "to api", "${api.url}")
}

// Each failure of a start has its reason, and the last lines of the log.
func TestOwnProgramThatFails(t *testing.T) {
	t.Parallel()
	ready := func(o app.Own, path string) app.Own { o.Ready = path; return o }
	for name, tc := range map[string]struct {
		own   app.Own
		start time.Duration // it must have begun to listen by then
		want  []string
	}{
		"crash":     {own(t, "crash"), time.Minute, []string{"app-0/app is gone", "exit status 3", "no database"}},
		"elsewhere": {own(t, "elsewhere"), time.Minute, []string{"not ready", "it listens on 127.0.0.1:", "${port}", "PORT"}},
		"closes":    {own(t, "closes"), time.Minute, []string{"not ready", "does not answer in HTTP", "--expect-body"}},
		"greets":    {own(t, "greets"), time.Minute, []string{"not ready", "does not answer in HTTP"}},
		"404":       {ready(own(t, "plain"), "/missing"), 10 * time.Second, []string{"GET /missing is answered with 404", "it wrote nothing"}},
		"absent":    {app.Own{Command: []string{"./absent"}}, time.Minute, []string{"start app-0/app", "no such file"}},
		"silent":    {app.Own{Command: []string{"sleep", "60"}}, time.Second, []string{"not ready", "connection refused", "sleep 60"}},
	} {
		t.Run(name, func(t *testing.T) {
			if t.Parallel(); testing.Short() && tc.start == 10*time.Second {
				t.Skip("waits 10 s")
			}
			_, err := deployOwn(t, Options{start: tc.start, astray: time.Millisecond}, specOf(t, "none", app.Service{Name: "app", Own: tc.own}))
			if err == nil {
				t.Fatal("deployed")
			}
			got := err.Error() + "\n" + hint.Of(err)
			for _, want := range tc.want {
				must.Contain(t, got, want)
			}
		})
	}
}

// A proxy that listens elsewhere is named within seconds, with its command, where it listens, and what it wrote last.
func TestSidecarThatListensElsewhere(t *testing.T) {
	t.Parallel()
	const program = `
import socket, sys, time
host = sys.argv[1].rsplit(":", 1)[0]
one = socket.create_server((host, 0))
print("listening at my own port", flush=True)
time.sleep(60)
`
	began := time.Now()
	_, _, err := deploy(t, Options{FetchProgram: onPath}, anySidecar(t, program, "plain", ""))
	if err == nil {
		t.Fatal("deployed")
	}
	for _, want := range []string{"/sidecar: not ready after ", "  command: ", "proxy.py", "  it listens on 127.", " is expected", "  it last wrote:\n    listening at my own port"} {
		must.Contain(t, err.Error(), want)
	}
	must.Contain(t, hint.Of(err), "a command has {listen} where it takes the address to listen on; its whole log is ")
	if took := time.Since(began); took > startTimeout {
		t.Errorf("it took %v", took)
	}
}

// Probes request the paths of the load, as "/" may be missing.
func TestOwnProgramWithoutARoot(t *testing.T) {
	t.Parallel()
	one := own(t, "noroot")
	one.Ready = "/healthz"
	d := must.Get(deployOwn(t, Options{}, specOf(t, "reference-mtls", app.Service{Name: "app", Own: one})))(t)
	must.Contain(t, verified(t, d), "status 404", "load.requests")
	checks, err := platformtest.Checks(d.Verify(t.Context(), platform.Probe{Load: loads.Profile{Targets: []string{d.Entry()[0] + "items"}, ExpectSize: -1}}))
	if c, failed := check.Failed(checks); err != nil || failed {
		t.Errorf("at /items: %+v, %v", c, err)
	}
}

// An endless answer costs one timeout, not one for each probe.
func TestOwnProgramWithEndlessAnswers(t *testing.T) {
	t.Parallel()
	one := own(t, "endless")
	one.Ready = "/healthz"
	d := must.Get(deployOwn(t, Options{answer: time.Second}, specOf(t, "none", app.Service{Name: "app", Own: one})))(t)
	must.Contain(t, verified(t, d), "0 of 1 probes were answered", "deadline exceeded")
}

func TestOwnProgramThatStartsSlowly(t *testing.T) {
	t.Parallel()
	d := must.Get(deployOwn(t, Options{}, specOf(t, "none", app.Service{Name: "app", Own: own(t, "slow")})))(t)
	if failed := verified(t, d); failed != "" {
		t.Error(failed)
	}
}

// Processes that left their program are tasks of its deployment, and end with it.
func TestOwnProgramThatLeavesADaemon(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"daemon", "lazy"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			d := must.Get(deployOwn(t, Options{}, specOf(t, "none", app.Service{Name: "app", Own: own(t, mode, file)})))(t)
			other := must.Get(deployOwn(t, Options{}, specOf(t, "none", app.Service{Name: "app", Own: own(t, "plain")})))(t)
			if mode == "lazy" {
				resp := must.Get(http.Get(d.Entry()[0]))(t)
				resp.Body.Close()
			}
			var pid int
			eventually(t, "there is a daemon", func() bool {
				b, _ := os.ReadFile(file)
				pid, _ = strconv.Atoi(string(b))
				return pid > 0
			})
			lists := func(d *platform.Deployment) bool {
				return slices.ContainsFunc(must.Get(d.Tasks(t.Context()))(t), func(task platform.Task) bool { return task.PID == pid && task.Plane == metric.App })
			}
			if !lists(d) || lists(other) {
				t.Errorf("process %d is a task of its deployment: %v, of another one: %v", pid, lists(d), lists(other))
			}
			must.OK(t, d.Remove(t.Context()))
			if !gone(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Errorf("process %d is left", pid)
			}
		})
	}
}

// gone reports whether a process has ended, or waits for its parent to read its status.
func gone(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(b), ") Z ")
}

// A program that already runs is measured and left alone.
func TestRunningProgram(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	d := must.Get(deployOwn(t, Options{}, specOf(t, "reference-mtls", app.Service{Name: "app", Own: app.Own{URL: server.URL}})))(t)
	if failed := verified(t, d); failed != "" {
		t.Error(failed)
	}
	tasks, err := d.Tasks(t.Context())
	if err != nil || !slices.ContainsFunc(tasks, func(task platform.Task) bool {
		return task.ID == "app-0/app" && task.PID == os.Getpid() && task.Plane == metric.App
	}) {
		t.Errorf("tasks %v, %v", tasks, err)
	}
	must.OK(t, d.Remove(t.Context()))
	if _, err := http.Get(server.URL); err != nil {
		t.Errorf("after the removal: %v", err)
	}
	server.Close()
	_, err = deployOwn(t, Options{}, specOf(t, "none", app.Service{Name: "app", Own: app.Own{URL: server.URL}}))
	if err == nil || !strings.Contains(err.Error(), "connection refused") || errors.Is(err, context.Canceled) {
		t.Errorf("a stopped server: %v", err)
	}
}

// A program that speaks TLS or HTTP/2 is named at once, by any of the ways in which servers answer plain HTTP/1.1.
func TestOwnProgramOfAnotherProtocol(t *testing.T) {
	programtest.Installed(t, "node", programtest.ServersScript)
	const key = "{key: fs.readFileSync('key.pem'), cert: fs.readFileSync('cert.pem')}"
	for name, test := range map[string]struct {
		program, want string
		http2         bool
	}{
		"TLS":          {"const fs = require('fs'); require('https').createServer(" + key + ", (q, a) => a.end('ok')).listen(+process.argv[1], '127.0.0.1')", "it speaks TLS on its port", false},
		"HTTP/2 + TLS": {"const fs = require('fs'); require('http2').createSecureServer(" + key + ", (q, a) => a.end('ok')).listen(+process.argv[1], '127.0.0.1')", "it speaks TLS on its port", false},
		"HTTP/2":       {"require('http2').createServer((q, a) => a.end('ok')).listen(+process.argv[1], '127.0.0.1')", "it speaks HTTP/2 on its port", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			a := must.Get(newAuthority())(t)
			c, err := a.issue("spiffe://test/server")
			if err == nil {
				err = c.Write(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
			}
			must.OK(t, err)
			_, err = deployOwn(t, Options{}, specOf(t, "none", app.Service{Name: "web", Own: app.Own{Command: []string{"node", "-e", test.program, "${port}"}, Dir: dir}}))
			if err == nil || !strings.Contains(err.Error(), test.want) || hint.Of(err) == "" {
				t.Errorf("%v (%s), want %q", err, hint.Of(err), test.want)
			} else if d := difftest.Wrong("errors.Is(err, ErrHTTP2) != test.http2", errors.Is(err, ErrHTTP2) != test.http2); d != "" {
				t.Errorf("%s: %v (%s), want %q", d, err, hint.Of(err), test.want)
			}
		})
	}
}
