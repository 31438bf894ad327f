package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// A proxy in Python that answers requests in a mode: listen, upstream, mode.
const hostileProxy = `
import http.client, http.server, os, sys, time
listen, upstream, mode = sys.argv[1:4]
host, port = listen.rsplit(":", 1)
cached, seen = {}, 70 if mode == "answers 1%" else 0 # its first answer is due soon: a busy machine has time for few requests
class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def fetch(self):
        c = http.client.HTTPConnection(upstream)
        c.request(self.command, self.path, self.body, headers={"User-Agent": self.headers.get("User-Agent", ""), "Host": self.headers["Host"]})
        r = c.getresponse()
        return r.status, r.read()
    def do_GET(self):
        global seen
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = 200, b"made here"
        counted = mode == "answers 1%" or mode in ("answers loads", "repeats loads") and self.headers.get("User-Agent") == "tare"
        seen += counted
        if counted and seen % 100 == 99 and mode != "repeats loads": pass
        elif mode == "caches":
            if self.path not in cached: cached[self.path] = self.fetch()
            status, body = cached[self.path]
        elif mode != "answers":
            status, body = self.fetch()
        if mode == "repeats" or mode == "repeats loads" and counted and seen % 50 == 0 or mode == "repeats refused" and status == 503: status, body = self.fetch()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer((host, int(port)), Proxy).serve_forever()
`

// failures are the checks that do not hold.
func failures(t *testing.T, d *platform.Deployment) (failed []string) {
	t.Helper()
	checks := must.Get(platformtest.Checks(d.Verify(t.Context(), platform.Probe{})))(t)
	for _, c := range checks {
		if !c.OK {
			failed = append(failed, c.Name+": "+c.Detail)
		}
	}
	return failed
}

// A proxy that does not lead every request to the application once is found before the load, without a counter of its own.
func TestHostileProxies(t *testing.T) {
	for mode, want := range map[string]string{
		"forwards": "",
		"answers":  "answered by the sidecars of load and echo, not by the application: 200 OK",
		"caches":   "the same answer came twice",
		"repeats":  "one request arrived 4 times", // both sidecars repeat
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := mustDeploy(t, Options{FetchProgram: onPath}, anySidecar(t, hostileProxy, mode, ""))
			failed := strings.Join(failures(t, d.declare()), "\n")
			if want == "" && failed != "" || !strings.Contains(failed, want) {
				t.Errorf("failed checks:\n%s\nwant %q", failed, want)
			}
		})
	}
}

// Before a program of the user, which counts nothing, many random answers find a proxy that answers a part of the requests, and a
// refused one finds a proxy that repeats.
func TestHostileProxiesBeforeOwnProgram(t *testing.T) {
	for mode, want := range map[string]string{
		"forwards":        "",
		"answers":         "answered by the sidecars of load and app, not by the application: 200 OK",
		"answers 1%":      "answered by the sidecars of load and app, not by the application: 200 OK",
		"caches":          "the same answer came twice",
		"repeats":         "one request arrived 4 times",
		"repeats refused": "one request that the application refused with 503 arrived 4 times",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := beforeOwn(t, hostileProxy, mode)
			failed := strings.Join(failures(t, d), "\n")
			if want == "" && failed != "" || !strings.Contains(failed, want) {
				t.Errorf("failed checks:\n%s\nwant %q", failed, want)
			}
		})
	}
}

// Behind a proxy without counters the requests that reach a program of the user are counted by the bytes of its sockets. The count
// is exact on connections that are kept, and on connections for one request. A proxy that answers or repeats only requests of
// the load is found.
func TestRequestsByBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("counts what the kernel announces in 200 ms")
	}
	t.Parallel()
	const sent = 200
	for _, c := range []struct {
		program, mode string
		most, least   int64 // requests that arrive
	}{
		{pythonProxy, "plain", sent, sent},
		{hostileProxy, "forwards", sent, sent},
		{hostileProxy, "answers loads", sent - 2, sent - 10},
		{hostileProxy, "repeats loads", sent + 20, sent + 4},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			d := beforeOwn(t, c.program, c.mode)
			if failed := failures(t, d); len(failed) > 0 {
				t.Fatalf("failed checks: %q", failed)
			}
			count := func() balance.Count {
				t.Helper()
				for _, c := range must.Get(d.RequestCounts(t.Context()))(t) {
					if c.Point == balance.Served {
						return c
					}
				}
				t.Fatal("no count")
				return balance.Count{}
			}
			before := count()
			if before.Unknown != "" || before.Bytes == 0 {
				t.Fatalf("%+v", before)
			}
			p := specOf(t, "none", app.Service{Name: "app", Own: own(t, "plain")}).Completed(platform.Probe{}, d.Entry()).Load
			targets := must.Get(requestsOfEngine(t.Context(), p))(t)
			client := &rawClient{}
			for range sent {
				must.OK(t, client.send(t.Context(), targets[0]))
			}
			client.close()
			after := balance.Count{}
			must.OK(t, wait.Within(t.Context(), 5*time.Second, 50*time.Millisecond, func(context.Context) error {
				if after = count(); after.Count-before.Count < c.least || after.Count-before.Count > c.most {
					return fmt.Errorf("%d requests arrived, want %d to %d", after.Count-before.Count, c.least, c.most)
				}
				return nil
			}))
		})
	}
}

// An address that a process being started still holds is bound as soon as it is free.
func TestStandInWaitsForItsAddress(t *testing.T) {
	t.Parallel()
	held := must.Get(listen(localhost))(t)
	at := held.Addr().(*net.TCPAddr).AddrPort()
	time.AfterFunc(100*time.Millisecond, func() { held.Close() })
	s := must.Get(newStandIn(t.Context(), at, app.HTTP1, nil))(t)
	t.Cleanup(s.stop)
	must.Fail(t, func() error { _, err := newStandIn(t.Context(), at, app.HTTP1, nil); return err }(), "address already in use")
}

// beforeOwn deploys a proxy in Python before a program of the user.
func beforeOwn(t *testing.T, program, mode string) *platform.Deployment {
	t.Helper()
	spec := specOf(t, "none", app.Service{Name: "app", Own: own(t, "plain")})
	spec.Mesh = anySidecar(t, program, mode, "")
	d := must.Get(New(Options{AgentPath: agent, FetchProgram: onPath}).Deploy(t.Context(), spec))(t)
	t.Cleanup(func() { _ = d.Remove(context.Background()) })
	return d
}

// A helper that was forked twice is a task of the proxy, which its connections belong to, and it ends with the trial.
func TestProxyWithADaemon(t *testing.T) {
	t.Parallel()
	d := mustDeploy(t, Options{FetchProgram: onPath}, anySidecar(t, pythonProxy, "daemon", ""))
	if failed := failures(t, d.declare()); len(failed) > 0 {
		t.Errorf("%q", failed)
	}
	through := dialed(t, d.layout.load.outbound["echo"].String())
	defer through.Close()
	tasks := must.Get(d.Tasks(t.Context()))(t)
	var helpers []int
	for _, task := range tasks {
		if task.Plane == metric.Unattributed {
			t.Errorf("%s is unattributed", task.ID)
		}
		if task.Plane == metric.Data && strings.Contains(task.ID, "/sidecar/") {
			helpers = append(helpers, task.PID)
		}
	}
	if len(helpers) != 2 {
		t.Errorf("%d helpers are tasks of the data plane, want one of each sidecar: %+v", len(helpers), tasks)
	}
	checks, err := d.declare().CheckConnections(t.Context(), tasks)
	if c, failed := check.Failed(checks); failed || err != nil {
		t.Errorf("%s: %s, %v", c.Name, c.Detail, err)
	}
	must.OK(t, d.Remove(t.Context()))
	for _, pid := range helpers {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("helper %d is alive after the trial", pid)
		}
	}
}

// A client that connects to an application or to its sidecar past the proxies before it is found by the kernel's sockets.
func TestConnectionsPastTheProxy(t *testing.T) {
	t.Parallel()
	d := mustDeploy(t, Options{FetchProgram: onPath}, anySidecar(t, pythonProxy, "plain", ""))
	connected := func() (c check.Check, failed bool) {
		t.Helper()
		tasks := must.Get(d.Tasks(t.Context()))(t)
		checks, err := d.declare().CheckConnections(t.Context(), tasks)
		if err != nil || len(checks) != 2 {
			t.Fatalf("%d checks, %v", len(checks), err)
		}
		c, failed = check.Failed(checks)
		if !failed {
			c = checks[0]
		}
		return c, failed
	}
	through := dialed(t, d.layout.load.outbound["echo"].String())
	if c, failed := connected(); failed || !strings.HasPrefix(c.Detail, "1 open") {
		t.Errorf("%s: %s", c.Name, c.Detail)
	}
	for _, at := range []string{d.layout.pods["echo"][0].app.String(), d.layout.pods["echo"][0].inbound.String()} {
		past := dialed(t, at)
		if c, failed := connected(); !failed || !strings.Contains(c.Detail, "not to the proxy") {
			t.Errorf("a connection to %s: %s: %s", at, c.Name, c.Detail)
		}
		past.Close()
	}
	through.Close()
}

// dialed is a connection over which the application has answered.
func dialed(t *testing.T, at string) net.Conn {
	t.Helper()
	c := must.Get(net.Dial("tcp", at))(t)
	t.Cleanup(func() { c.Close() })
	must.Get(io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: echo\r\n\r\n"))(t)
	must.Get(c.Read(make([]byte, 1)))(t)
	return c
}

// A worker that a sidecar starts after the processes were listed is the sidecar's, and its parent is not.
func TestWorkersOfSidecars(t *testing.T) {
	worker := exec.Command("sleep", "60")
	must.OK(t, worker.Start())
	t.Cleanup(func() { _, _ = worker.Process.Kill(), worker.Wait() })
	sidecar := &pod{}
	pids := map[int]*pod{os.Getpid(): sidecar}
	if sidecarOf(pids, worker.Process.Pid) != sidecar || sidecarOf(pids, os.Getpid()) != sidecar {
		t.Error("a process of the sidecar is not found")
	}
	if sidecarOf(pids, os.Getppid()) != nil {
		t.Error("the parent of the sidecar is taken for it")
	}
}
