package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// A proxy in Python that takes a time before the first byte of an answer and for each event: listen, upstream, both in µs, and a
// file. It sends each event alone. The file has a line for each answer: the process, and in ns by the proxy's own clock the time until
// its first byte, until its first event, and the median gap between events. A busy machine makes them longer than planned.
const delayingProxy = `
import os, socket, sys, threading, time
listen, upstream = sys.argv[1:3]
first, each = (int(us) * 1000 for us in sys.argv[3:5])
sys.setswitchinterval(1e-4)
log = os.open(sys.argv[5], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
now = time.perf_counter_ns
def address(text): host, port = text.rsplit(":", 1); return host, int(port)
def work(ns):
    until = now() + ns
    while now() < until: pass
class Pair:
    def __init__(self, client):
        self.client, self.server, self.fresh = client, socket.create_connection(address(upstream)), False
        for s in (client, self.server): s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    def requests(self):
        while data := self.client.recv(65536):
            self.fresh, self.begun = True, now()
            self.server.sendall(data)
        self.server.shutdown(socket.SHUT_WR)
    def answers(self):
        rest = b""
        while data := self.server.recv(65536):
            if self.fresh:
                self.fresh = False
                work(first)
                body = data.find(b"\r\n\r\n") + 4
                self.client.sendall(data[:body])
                sent = [now()]
                data = data[body:]
            rest += data
            while (end := rest.find(b"\n\n\r\n")) >= 0:
                work(each)
                self.client.sendall(rest[:end + 4])
                if b"[DONE]" in rest[:end]:
                    os.write(log, b"%d %d %d %d\n" % (os.getpid(), sent[0] - self.begun, sent[1] - self.begun, sorted(b - a for a, b in zip(sent[1:], sent[2:]))[(len(sent) - 2) // 2]))
                sent.append(now())
                rest = rest[end + 4:]
            if not rest.startswith(b"data:") and b"data:" not in rest and rest:
                self.client.sendall(rest)
                rest = b""
        self.client.shutdown(socket.SHUT_WR)
def quiet(f):
    try: f()
    except OSError: pass
listener = socket.create_server(address(listen), backlog=100)
while True:
    pair = Pair(listener.accept()[0])
    for f in (pair.requests, pair.answers): threading.Thread(target=quiet, args=(f,), daemon=True).start()
`

// What a proxy adds before the first byte of an answer, and to each event, is found: 300 and 50 µs, or on a busy machine what the
// proxy itself took.
func TestPlantedDelaysOfAStream(t *testing.T) {
	python := programtest.Installed(t, "python3", "apt install python3")
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "delaying.py"), []byte(delayingProxy), 0o600))
	text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: streams}
application: {command: [%q, completions, --listen, "${host}:${port}", --tokens, "20", --first, 0s, --pace, 0s], ready: /healthz}
meshes:
  plain: {gateway: {dir: %q, command: [%[3]q, delaying.py, "${listen}", "${upstream}", "0", "0", %[4]q]}}
  planted: {gateway: {dir: %[2]q, command: [%[3]q, delaying.py, "${listen}", "${upstream}", "300", "50", %[5]q]}}
factors: {mesh: [plain, planted], rate: [60], connections: [2]}
baseline: {mesh: plain}
load: {requests: [{path: /v1/chat/completions, body: '{"model": "tare", "stream": true}'}]}
order: interleaved
control: false
blocks: 4
phases: {prewarm: 0s, warmup: 500ms, measure: 3s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s}
`, filepath.Join(programs(t), "tare-agent"), dir, python, filepath.Join(dir, "plain.log"), filepath.Join(dir, "planted.log"))
	r, _ := carriedOut(t, must.File(t, dir, "streams.yaml", text))
	for _, w := range r.Warnings {
		if w.Code == "cpu-pressure" {
			t.Skip("no figure of microseconds on this busy machine: " + w.Message)
		}
	}
	plain, planted := delaysOf(t, filepath.Join(dir, "plain.log")), delaysOf(t, filepath.Join(dir, "planted.log"))
	for i, name := range []string{"first_byte_ms/p50", "first_message_ms/p50", "message_gap_ms/p50"} {
		d := differenceOf(t, r, "planted", name).Difference
		us, want, least := 1e3*d.Estimate, planted[i]-plain[i], []float64{300, 350, 50}[i]
		t.Logf("%s: %.1f (%.1f to %.1f) µs, by the proxy %.1f, planted %.0f", name, us, 1e3**d.Low, 1e3**d.High, want, least)
		if want < 0.9*least || math.Abs(us-want) > 0.1*want && (want < 1e3**d.Low || want > 1e3**d.High) {
			t.Errorf("%s: measured %.1f (%.1f to %.1f) µs, by the proxy %.1f, planted %.0f", name, us, 1e3**d.Low, 1e3**d.High, want, least)
		}
	}
}

// delaysOf are the means over trials of the medians of a file of delayingProxy, in µs, as reports have them. Each trial has a process.
func delaysOf(t *testing.T, path string) (us [3]float64) {
	t.Helper()
	trials := map[int]*[3][]float64{}
	for line := range strings.Lines(string(must.Get(os.ReadFile(path))(t))) {
		var process int
		var ns [3]float64
		must.Get(fmt.Sscan(line, &process, &ns[0], &ns[1], &ns[2]))(t)
		if trials[process] == nil {
			trials[process] = new([3][]float64)
		}
		for i := range ns {
			trials[process][i] = append(trials[process][i], ns[i])
		}
	}
	for _, columns := range trials {
		for i, c := range columns {
			us[i] += stats.Quantile(c, 0.5) / 1e3 / float64(len(trials))
		}
	}
	return us
}
