package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// A proxy in Python that copies bytes and burns 200 µs of CPU for each request: listen, upstream, mode. It burns before it forwards
// (weight), 50 to 300 ms later, in a helper that was forked twice, or in a child that ends after each request (plain: nowhere).
const burningProxy = `
import heapq, os, random, socket, sys, threading, time
listen, upstream, mode = sys.argv[1:4]
def address(text): host, port = text.rsplit(":", 1); return host, int(port)
def burn():
    until = time.thread_time_ns() + 200_000
    while time.thread_time_ns() < until: pass
due = []
def later():
    while True:
        time.sleep(0.02)
        while due and due[0] <= time.monotonic(): heapq.heappop(due); burn()
def work():
    if mode == "weight": burn()
    if mode == "helper": os.write(jobs, b"x")
    if mode == "later": heapq.heappush(due, time.monotonic() + random.uniform(0.05, 0.3))
    if mode == "children":
        if (pid := os.fork()) == 0:
            burn()
            os._exit(0)
        os.waitpid(pid, 0)
def copy(a, b, each):
    try:
        while data := a.recv(65536): each(); b.sendall(data)
    except OSError: pass
    for s in (a, b):
        try: s.shutdown(socket.SHUT_RDWR)
        except OSError: pass
def serve(client):
    server = socket.create_connection(address(upstream))
    threading.Thread(target=copy, args=(client, server, work), daemon=True).start()
    copy(server, client, lambda: None)
if mode == "helper":
    read, jobs = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() > 0: os._exit(0)
        os.close(jobs)
        while got := os.read(read, 64):
            for _ in got: burn()
        os._exit(0)
    os.wait()
if mode == "later": threading.Thread(target=later, daemon=True).start()
listener = socket.create_server(address(listen), backlog=100)
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
`

// burningMeshes writes the proxy into a directory, and returns meshes of it, each by its mode.
func burningMeshes(t *testing.T, dir, place string, modes ...string) (text string) {
	t.Helper()
	python := programtest.Installed(t, "python3", "apt install python3")
	must.OK(t, os.WriteFile(filepath.Join(dir, "burning.py"), []byte(burningProxy), 0o600))
	for _, mode := range modes {
		text += fmt.Sprintf("  %s: {%s: {dir: %q, command: [%q, burning.py, \"${listen}\", \"${upstream}\", %s]}}\n", mode, place, dir, python, mode)
	}
	return text
}

// The known cost of a foreign proxy before a program of the user is found wherever it arises. Places are the proxy at once or after
// the answer, a helper that left it, and children that end between two readings.
func TestForeignProxyBurns(t *testing.T) {
	python := programtest.Installed(t, "python3", "apt install python3")
	dir := t.TempDir()
	modes := []string{"plain", "weight", "later", "helper", "children"}
	text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: foreign-proxy}
application: {command: [%q, server.py, "${port}", --cache], dir: %q}
factors: {mesh: [plain, weight, later, helper, children], rate: [100], connections: [4]}
load: {arrivals: constant}
baseline: {mesh: plain}
order: interleaved
control: false
blocks: 4
phases: {warmup: 1s, measure: 2s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s}
meshes:
`, python, must.Get(filepath.Abs("../../examples"))(t))
	file := must.File(t, dir, "foreign.yaml", text+burningMeshes(t, dir, "sidecar", modes...))
	r, _ := carriedOut(t, file)
	// Two sidecars burn, and passing the work on costs Python some time.
	const burnt = 2 * 200.0
	for _, mode := range modes[1:] {
		c := differenceOf(t, r, mode, "cpu_us_per_request/data")
		t.Logf("%s: %.0f [%.0f, %.0f] µs", mode, c.Difference.Estimate, *c.Difference.Low, *c.Difference.High)
		// A fork of Python costs ten times as much.
		if d := *c.Difference; *d.High < burnt || mode != "children" && d.Estimate > 1.5*burnt || mode == "children" && *d.Low < 2*burnt {
			t.Errorf("%s: measured %.0f [%.0f, %.0f] µs, burnt %.0f", mode, d.Estimate, *d.Low, *d.High, burnt)
		}
	}
}

// A gateway that burns 200 µs a request costs them once: it is one process.
func TestGatewayBurns(t *testing.T) {
	python := programtest.Installed(t, "python3", "apt install python3")
	dir := t.TempDir()
	text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: gateway}
application: {command: [%q, server.py, "${port}", --cache], dir: %q}
factors: {mesh: [none, plain, weight], rate: [100], connections: [4]}
load: {arrivals: constant}
order: interleaved
control: false
blocks: 4
phases: {warmup: 1s, measure: 2s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s}
meshes:
`, python, must.Get(filepath.Abs("../../examples"))(t))
	r, _ := carriedOut(t, must.File(t, dir, "gateway.yaml", text+burningMeshes(t, dir, "gateway", "plain", "weight")))
	plain, weight := *differenceOf(t, r, "plain", "cpu_us_per_request/data").Difference, *differenceOf(t, r, "weight", "cpu_us_per_request/data").Difference
	t.Logf("plain %.0f, weight %.0f µs", plain.Estimate, weight.Estimate)
	if burnt := weight.Estimate - plain.Estimate; burnt < 0.8*200 || burnt > 1.5*200 {
		t.Errorf("%.0f µs more than the plain gateway, 200 burnt", burnt)
	}
}

// A proxy in Python that forwards requests: listen, upstream, mode. It answers or repeats every 10th request of the load itself:
// more than the allowed difference on a busy machine too.
const answeringProxy = `
import http.client, http.server, sys
listen, upstream, mode = sys.argv[1:4]
host, port = listen.rsplit(":", 1)
seen = 0
class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def setup(self):
        super().setup()
        self.upstream = http.client.HTTPConnection(upstream)
    def fetch(self):
        self.upstream.request(self.command, self.path, headers={"User-Agent": self.headers.get("User-Agent", ""), "Host": self.headers["Host"]})
        return self.upstream.getresponse().read()
    def do_GET(self):
        global seen
        seen += self.headers.get("User-Agent") == "tare"
        hit = seen > 0 and seen % 10 == 0
        body = b"made here" if hit and mode == "answers" else self.fetch()
        if hit and mode == "repeats": self.fetch()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer((host, int(port)), Proxy).serve_forever()
`

// Under load, a proxy without counters that answers or repeats a part of the requests is found before a program that counts
// nothing: by the bytes of its sockets. The report has the proof of the honest one.
func TestForeignProxyAnswers(t *testing.T) {
	t.Parallel()
	python := programtest.Installed(t, "python3", "apt install python3")
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "answering.py"), []byte(answeringProxy), 0o600))
	text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: answers}
application: {command: [%[2]q, server.py, "${port}"], dir: %[3]q}
factors: {mesh: [forwards, answers, repeats], rate: [50], connections: [4]}
load: {arrivals: constant}
baseline: {mesh: forwards}
order: random
control: false
blocks: 1
phases: {prewarm: 0s, warmup: 1s, measure: 3s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s, errorRatio: 0.1}
meshes:
`, dir, python, must.Get(filepath.Abs("../../examples"))(t))
	for _, mode := range []string{"forwards", "answers", "repeats"} {
		text += fmt.Sprintf("  %s: {sidecar: {dir: %q, command: [%q, answering.py, \"${listen}\", \"${upstream}\", %s]}}\n", mode, dir, python, mode)
	}
	r, code := carriedOut(t, must.File(t, dir, "answers.yaml", text))
	if code != console.Incomplete {
		t.Errorf("exit code %d, want %d", code, console.Incomplete)
	}
	i := slices.IndexFunc(r.Warnings, func(w figures.Warning) bool { return w.Code == "requests-not-conserved" })
	if i < 0 || r.Warnings[i].Trials != 2 || !strings.Contains(r.Warnings[i].Message, "between load and the application app") {
		t.Errorf("no warning of the two other proxies: %+v", r.Warnings)
	}
	if len(r.Verified) != 1 || fmt.Sprint(r.Verified[0].Meshes) != "[forwards]" || !r.Verified[0].Bytes || !r.Verified[0].Nonces {
		t.Errorf("verified: %+v", r.Verified)
	}
}

// The ladder of the examples ends with a step for mutual TLS, of the real nginx.
func TestLadderOfMTLS(t *testing.T) {
	path, libraries := programtest.Server(t, "nginx")
	t.Parallel()
	env := []string{"PATH=" + filepath.Dir(path) + string(filepath.ListSeparator) + os.Getenv("PATH"), "LD_LIBRARY_PATH=" + libraries}
	r, _ := carriedOutWith(t, env, "mtls-ladder.yaml", "blocks=5", "validity={rateShortfall: 0.5, lateness: 5s}")
	if len(r.Ladders) != 1 || fmt.Sprint(r.Ladders[0].Steps) != "[none nginx nginx-mtls]" {
		t.Fatalf("%+v", r.Ladders)
	}
	for _, m := range r.Ladders[0].Metrics {
		if m.Metric != "cpu_us_per_request/data" {
			continue
		}
		for i, step := range []string{"nginx", "mutual TLS"} {
			d := m.Increments[i].Difference
			if d == nil || d.High == nil || *d.High <= 0 {
				t.Errorf("%s adds %+v", step, d)
				continue
			}
			t.Logf("%s adds %.0f [%.0f, %.0f] µs", step, d.Estimate, *d.Low, *d.High)
		}
		return
	}
	t.Error("no step of the data plane's CPU")
}

// Work that a process outside the trial does for a treatment does not count as its cost. The report names the treatment.
func TestForeignProxyWorksElsewhere(t *testing.T) {
	python := programtest.Installed(t, "python3", "apt install python3")
	dir := t.TempDir()
	elsewhere := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { elsewhere.Close() })
	go func() { // 2 ms of CPU for each request
		for b := make([]byte, 1); ; {
			if _, _, err := elsewhere.ReadFrom(b); err != nil {
				return
			}
			for until := time.Now().Add(2 * time.Millisecond); time.Now().Before(until); {
			}
		}
	}()
	program := strings.Replace(burningProxy, "def work():\n", "away = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ndef work():\n    if mode == \"elsewhere\": away.sendto(b\"x\", address(sys.argv[4]))\n", 1)
	must.OK(t, os.WriteFile(filepath.Join(dir, "burning.py"), []byte(program), 0o600))
	text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: elsewhere}
factors: {mesh: [plain, elsewhere], rate: [100], connections: [4]}
load: {arrivals: constant}
baseline: {mesh: plain}
order: interleaved
control: true
blocks: 8
phases: {warmup: 500ms, measure: 2s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s}
meshes:
  plain: {sidecar: {dir: %[1]q, command: [%[2]q, burning.py, "${listen}", "${upstream}", plain]}}
  elsewhere: {sidecar: {dir: %[1]q, command: [%[2]q, burning.py, "${listen}", "${upstream}", elsewhere, %[3]q]}}
`, dir, python, elsewhere.LocalAddr())
	file := must.File(t, dir, "elsewhere.yaml", text)
	r, _ := carriedOut(t, file)
	c, ok := r.Find("elsewhere", metric.OutsideCPU)
	if !ok || c.Difference == nil || c.Difference.High == nil {
		t.Errorf("outside the trial: %+v, want 4000 µs a request", c.Difference)
	} else if d := difftest.Wrong("*c.Difference.High < 4000", *c.Difference.High < 4000); d != "" {
		t.Errorf("%s: outside the trial: %+v, want 4000 µs a request", d, c.Difference)
	}
	if !slices.ContainsFunc(r.Warnings, func(w figures.Warning) bool {
		return w.Code == "outside-differs" && strings.Contains(w.Message, "elsewhere by +")
	}) {
		t.Errorf("no warning names the treatment: %+v, %s", c.Difference, c.Verdict)
	}
}

// The real Redis over plain TCP, behind sidecars that forward connections and one proxy of known cost.
func TestRedisBehindProxies(t *testing.T) {
	t.Parallel()
	redis, libraries := programtest.Server(t, "redis-server")
	haproxy, _ := programtest.Server(t, "haproxy")
	dir := t.TempDir()
	text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: redis}
application:
  command: [%q, --port, "${port}", --bind, 127.0.0.1, --protected-mode, "no", --save, ""]
  env: {LD_LIBRARY_PATH: %q}
  exchange: {send: "PING\r\n", expect: "+PONG\r\n"}
factors: {mesh: [none, haproxy, envoy-tcp, plain, weight], protocol: [tcp], rate: [100], connections: [4]}
load: {arrivals: constant}
order: interleaved
control: false
blocks: 4
phases: {warmup: 1s, measure: 2s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s}
meshes:
  haproxy: {program: %q, environment: {LD_LIBRARY_PATH: %[2]q}}
`, redis, libraries, haproxy)
	r, _ := undisturbed(t, must.File(t, dir, "redis.yaml", text+burningMeshes(t, dir, "gateway", "plain", "weight")))
	for _, id := range []string{"haproxy", "envoy-tcp", "plain", "weight"} {
		d := differenceOf(t, r, id, "cpu_us_per_request/data").Difference
		if *d.Low <= 0 {
			t.Errorf("%s: %.0f [%.0f, %.0f] µs", id, d.Estimate, *d.Low, *d.High)
		}
	}
	const burnt = 200.0
	plain, weight := differenceOf(t, r, "plain", "cpu_us_per_request/data").Difference, differenceOf(t, r, "weight", "cpu_us_per_request/data").Difference
	if low, high := *weight.Low-*plain.High, *weight.High-*plain.Low; high < burnt || low > burnt*1.5 {
		t.Errorf("measured %.0f to %.0f µs, burnt %.0f", low, high, burnt)
	}
	path := strings.Join([]string{filepath.Dir(redis), filepath.Dir(haproxy), os.Getenv("PATH")}, string(filepath.ListSeparator))
	proposed := map[string][]string{"--gateway haproxy --gateway envoy-tcp": {"gateway-haproxy", "gateway-envoy-tcp"}}
	if os.Getenv("TARE_TEST_ALL") != "" {
		proposed[""] = []string{"envoy-tcp"}
	}
	for proxies, want := range proposed {
		args := append([]string{"weigh", "--plain", "--time", "10s", "--rate", "100", "--protocol", "tcp", "--data", "PING\r\n", "--expect-body", "+PONG\r\n"}, strings.Fields(proxies)...)
		stdout, log, code := tareWith(t, dir, []string{"PATH=" + path, "LD_LIBRARY_PATH=" + libraries}, append(args, "--", "redis-server", "--port", "{port}", "--protected-mode", "no", "--save", "")...)
		for _, name := range want {
			if code != console.Done && code != console.Incomplete || !strings.Contains(stdout, name) {
				t.Errorf("weigh %s: exit code %d, without %s:\n%s%s", proxies, code, name, stdout, log)
			}
		}
	}
}

// A gateway whose configuration has no keep-alive is named in the first lines, with the connections that it opens for a request.
func TestWeighOfGateways(t *testing.T) {
	t.Parallel()
	path, libraries := programtest.Server(t, "nginx")
	dir := t.TempDir()
	must.File(t, dir, "nginx.conf", `daemon off;
pid ${dir}/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path ${dir}/b; proxy_temp_path ${dir}/p; fastcgi_temp_path ${dir}/f; uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
  server { listen ${listen}; location / { proxy_pass http://${upstream}; } } }
`)
	env := []string{"PATH=" + filepath.Dir(path) + string(filepath.ListSeparator) + os.Getenv("PATH"), "LD_LIBRARY_PATH=" + libraries}
	stdout, log, code := tareWith(t, dir, env, "weigh", "--plain", "--time", "10s", "--rate", "100", "--gateway", "nginx", "--config", "nginx.conf",
		"--", filepath.Join(programs(t), "tare-agent"), "serve", "--listen", "127.0.0.1:{port}")
	if code != console.Done && code != console.Incomplete || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "Connections that the gateway opens to the application: 1 a request") {
		t.Errorf("exit code %d:\n%s%s", code, stdout, log)
	}
}
