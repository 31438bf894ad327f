package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
	"github.com/tare-mesh/tare/test/programtest"
)

// dataTasks lists the tasks of the data plane with their roles.
func dataTasks(t *testing.T, d *deployment) string {
	t.Helper()
	var all []string
	for _, task := range must.Get(d.Tasks(t.Context()))(t) {
		if task.Plane == metric.Data {
			all = append(all, task.ID+" "+task.Role)
		}
	}
	return strings.Join(all, ", ")
}

// A gateway is one process between the load and the entry, of any program: services behind it call one another directly. Every check
// passes, after a restart too.
func TestGateway(t *testing.T) {
	t.Parallel()
	gateway := must.Get(anySidecar(t, pythonProxy, "plain", "").Gateway(""))(t)
	d := mustDeploy(t, Options{FetchProgram: onPath}, gateway, "back")
	if failed := verified(t, d.declare()); failed != "" {
		t.Error(failed)
	}
	if got := dataTasks(t, d); got != "gateway/gateway gateway" {
		t.Errorf("tasks of the data plane: %s", got)
	}
	checks := must.Get(d.declare().CheckConnections(t.Context(), must.Get(d.Tasks(t.Context()))(t)))(t)
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
	must.OK(t, d.faults.End(t.Context(), "gateway/gateway", 0))
	must.OK(t, d.faults.Restart(t.Context(), "gateway/gateway"))
	if failed := verified(t, d.declare()); failed != "" {
		t.Errorf("after a restart: %s", failed)
	}
}

// The shipped proxies are gateways with their real programs, and their counters agree with the probes.
func TestShippedGateways(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy", "caddy", "traefik"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, path := shipped(t, name, nil)
			d := mustDeploy(t, Options{FetchProgram: servedAt(path)}, must.Get(m.Gateway(""))(t), "back")
			if failed := verified(t, d.declare()); failed != "" {
				t.Error(failed)
			}
			known := false
			for _, c := range must.Get(d.declare().RequestCounts(t.Context()))(t) {
				known = known || c.By == "gateway/gateway" && c.Unknown == "" && c.Count >= probes
			}
			if counts := name == "nginx" || name == "haproxy"; known != counts {
				t.Errorf("requests are counted: %v, want %v", known, counts)
			}
			if got := dataTasks(t, d); strings.Contains(got, "sidecar") || !strings.Contains(got, "gateway/gateway gateway") {
				t.Errorf("tasks of the data plane: %s", got)
			}
		})
	}
}

// A program of the user behind a gateway passes every check.
func TestGatewayBeforeOwnProgram(t *testing.T) {
	t.Parallel()
	spec := specOf(t, "none", app.Service{Name: "web", Own: own(t, "plain")})
	spec.Mesh = must.Get(anySidecar(t, pythonProxy, "plain", "").Gateway(""))(t)
	d := must.Get(New(Options{AgentPath: agent, FetchProgram: onPath}).Deploy(t.Context(), spec))(t)
	t.Cleanup(func() { _ = d.Remove(context.Background()) })
	if failed := verified(t, d); failed != "" {
		t.Error(failed)
	}
}

// A gateway that answers itself, as Squid refuses requests with 403, or that closes connections, does not pass: no random answer comes
// through. The refusal is named as the gateway's own, with its status and the headers that name the program. The gateway here answers as
// Squid does, which this machine need not have. The request was sent to the gateway, so no hint is about a way around it.
func TestGatewayThatAnswers(t *testing.T) {
	const program = `
import http.server, sys
host, port = sys.argv[1].rsplit(":", 1)
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if sys.argv[3] == "closes": return
        self.send_response(int(sys.argv[3])); self.send_header("Content-Length", "2"); self.send_header("Via", "1.1 cache (squid/6.13)"); self.send_header("X-Squid-Error", "ERR_ACCESS_DENIED 0"); self.end_headers(); self.wfile.write(b"ok")
    def version_string(self): return "squid/6.13"
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer((host, int(port)), Proxy).serve_forever()
`
	const headers = " (Server: squid/6.13; Via: 1.1 cache (squid/6.13); X-Squid-Error: ERR_ACCESS_DENIED 0)"
	details := map[string]string{"200": "answered by the gateway, not by the application: 200 OK" + headers, "403": "answered by the gateway, not by the application: 403 Forbidden" + headers}
	for mode, want := range map[string]string{"200": "answers in place of the application", "403": "answers in place of the application", "closes": "does not forward this request"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := mustDeploy(t, Options{FetchProgram: onPath}, must.Get(anySidecar(t, program, "'"+mode+"'", "").Gateway(""))(t))
			found := false
			for _, c := range must.Get(platformtest.Checks(d.verifier.Verify(t.Context(), platform.Probe{})))(t) {
				found = found || !c.OK && c.Name == "nonce through the gateway" && strings.Contains(c.Hint, want) && strings.Contains(c.Detail, details[mode])
				if !c.OK && strings.Contains(c.Hint, "bypass") || mode == "403" && strings.HasPrefix(c.Name, "answers of ") && !strings.Contains(c.Detail, "(Server: squid/6.13") {
					t.Errorf("%+v", c)
				}
			}
			if !found {
				t.Errorf("no failed nonce with the hint %q", want)
			}
		})
	}
}

// The directory of a proxy with state can be written by the user that the program changes to, and goes with the trial.
func TestGatewayWithState(t *testing.T) {
	t.Parallel()
	nginx, _ := programtest.Server(t, "nginx")
	nobody, err := user.Lookup("nobody")
	as := "root"
	if err == nil && os.Getuid() == 0 {
		group := must.Get(user.LookupGroupId(nobody.Gid))(t)
		as = "nobody " + group.Name
	}
	config := fmt.Sprintf(`daemon off;
user %s;
error_log stderr warn;
pid ${dir}/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy; fastcgi_temp_path ${dir}/f; uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
  proxy_cache_path ${dir}/cache keys_zone=all:1m;
  proxy_cache all; proxy_cache_valid 200 1h; proxy_no_cache 0;
  server { listen ${listen}; location /cached { proxy_pass http://${upstream}/; } location / { proxy_cache off; proxy_pass http://${upstream}; } }
}
`, as)
	m := must.Get(load(t, "nginx").Gateway(config))(t)
	d := mustDeploy(t, Options{FetchProgram: servedAt(nginx)}, m)
	if failed := verified(t, d.declare()); failed != "" {
		t.Error(failed)
	}
	dir := d.layout.front.sidecar.Dir
	status := must.Get(statusOf(t.Context(), strings.TrimSuffix(d.Entry()[0], "/")+"/cached"))(t)
	files := 0
	must.OK(t, wait.Within(t.Context(), 10*time.Second, adminPause, func(context.Context) error { // nginx writes it after the answer
		if all, _ := filepath.Glob(filepath.Join(dir, "cache", "*")); len(all) == 0 {
			return errors.New("nothing is in the cache")
		}
		return nil
	}))
	_ = filepath.WalkDir(filepath.Join(dir, "cache"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			info := must.Get(e.Info())(t)
			if of, ok := info.Sys().(*syscall.Stat_t); as != "root" && (!ok || strconv.Itoa(int(of.Uid)) != nobody.Uid) {
				t.Errorf("%s belongs to another user", path)
			}
			files++
		}
		return nil
	})
	if status != 200 || files != 1 {
		t.Errorf("status %d, %d files in the cache", status, files)
	}
	must.OK(t, d.Remove(t.Context()))
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("%s remains: %v", dir, err)
	}
}

// The connections that a gateway opens a request are counted: nginx keeps them open as shipped, and with a configuration that lacks
// keepalive it does not, which is the program's own doing where that ends its connections.
func TestGatewayWithoutKeepAlive(t *testing.T) {
	t.Parallel()
	nginx, _ := programtest.Server(t, "nginx")
	const config = `daemon off;
error_log stderr warn;
pid ${dir}/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path ${dir}/b; proxy_temp_path ${dir}/p; fastcgi_temp_path ${dir}/f; uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
  server { listen ${listen}; location / { proxy_pass http://${upstream}; } }
}
`
	for config, want := range map[string]string{"": "for 20 requests on one connection", config: "1 connections to the application a request: 20 for 20"} {
		d := mustDeploy(t, Options{FetchProgram: servedAt(nginx)}, must.Get(load(t, "nginx").Gateway(config))(t))
		checks := must.Get(platformtest.Checks(d.verifier.Verify(t.Context(), platform.Probe{})))(t)
		i := slices.IndexFunc(checks, func(c check.Check) bool { return strings.HasPrefix(c.Name, "kept connections") })
		if i < 0 {
			t.Fatalf("not counted: %+v", checks)
		}
		must.Contain(t, checks[i].Detail, want)
		if cautioned := checks[i].Caution != ""; cautioned != (config != "") {
			t.Errorf("%+v", checks[i])
		}
	}
}

// A gateway that rewrites requests, as those of language models do, and refuses answers that it does not understand. Its mode is
// what it does with requests after the first few.
const translatingGateway = `
import http.client, http.server, json, sys
host, port = sys.argv[1].rsplit(":", 1)
mode, seen, cached = sys.argv[3], 0, None
class Gateway(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global seen, cached
        seen += 1
        if mode == "caches" and cached and seen > 3: return self.answer(cached)
        if mode == "answers some" and seen % 4 == 0: return self.answer(b'{"text": "own"}')
        for _ in range(2 if mode == "sends twice" else 1):
            upstream = http.client.HTTPConnection(sys.argv[2])
            upstream.request("GET", "/translated", headers={"X-Asked": self.path})
            got = upstream.getresponse().read()
            upstream.close()
        if got != b"ok": return self.send_error(502)
        cached = json.dumps({"text": got.decode()}).encode()
        self.answer(cached)
    def answer(self, body):
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer((host, int(port)), Gateway).serve_forever()
`

// No random answer comes through a gateway that translates. Requests that arrive prove its path, and find one that answers itself. One
// that sends each twice is a caution, by the answers of the application.
func TestGatewayThatTranslates(t *testing.T) {
	const okServer = `
import http.server, sys
class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self): self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
`
	for mode, want := range map[string]string{"translates": "", "caches": "too few requests arrive", "answers some": "requests were answered, and ", "undeclared": "nonce through the gateway", "sends twice": "the application sends 2.0 times the bytes"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			spec := specOf(t, "none", app.Service{Name: "web", Own: app.Own{Command: []string{python(t), "-c", okServer, "${port}"}, Dir: t.TempDir()}})
			spec.Mesh = must.Get(anySidecar(t, translatingGateway, "'"+mode+"'", "").Gateway(""))(t)
			spec.Mesh.Local.Translates = mode != "undeclared"
			d := must.Get(New(Options{AgentPath: agent, FetchProgram: onPath}).Deploy(t.Context(), spec))(t)
			t.Cleanup(func() { _ = d.Remove(context.Background()) })
			found := ""
			for _, c := range must.Get(platformtest.Checks(d.Verify(t.Context(), platform.Probe{})))(t) {
				if strings.HasPrefix(c.Name, arrivedThrough) {
					t.Log(c.Detail)
					found += c.Caution
				}
				if !c.OK {
					found += c.Name + ": " + c.Detail + "\n"
				}
			}
			if want == "" && found != "" || !strings.Contains(found, want) {
				t.Errorf("failed checks:\n%s\nwant %q", found, want)
			}
		})
	}
}
