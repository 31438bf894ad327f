package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// A proxy in Python that forwards 100 requests, and then lies in a mode: listen, upstream, mode. It answers each 20th request
// itself, answers all from a cache, or repeats each 20th: on a busy machine that completes a third of the requests too, more than
// the allowed difference.
const liar = `
import http.client, http.server, itertools, sys, threading
host, port = sys.argv[1].rsplit(":", 1)
number, upstream, cached, mode = itertools.count(), threading.local(), {}, sys.argv[3]
class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def forward(self, body):
        if not hasattr(upstream, "c"): upstream.c = http.client.HTTPConnection(sys.argv[2])
        upstream.c.request(self.command, self.path, body, {"User-Agent": self.headers.get("User-Agent", ""), "Host": self.headers["Host"]})
        return upstream.c.getresponse().read()
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        n = next(number)
        lies = n >= 100 and (mode == "caches" or n % 20 == 0)
        if lies and mode == "answers": answer = b"x" * 1024
        elif lies and mode == "caches" and self.path in cached: answer = cached[self.path]
        else: answer = cached[self.path] = self.forward(body)
        if lies and mode == "repeats": self.forward(body)
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    do_GET = do_POST
    def log_message(self, *a): pass
class Server(http.server.ThreadingHTTPServer): request_queue_size = 100
Server((host, int(port)), Proxy).serve_forever()
`

// A proxy without counters that lies once the load runs is found by the counts of the load and of the application.
func TestProxyThatLiesUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("runs trials of 4 s")
	}
	t.Parallel()
	for mode, want := range map[string]string{"answers": "vanished", "caches": "vanished", "repeats": "appeared"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			programtest.Installed(t, "python3", "apt install python3")
			dir := t.TempDir()
			must.OK(t, os.WriteFile(filepath.Join(dir, "liar.py"), []byte(liar), 0o600))
			text := strings.NewReplacer("mesh: [none]", "mesh: [liar]", "rate: [300]", "rate: [250]", "measure: 1500ms", "measure: 4s").Replace(conservedText) +
				fmt.Sprintf("meshes: {liar: {sidecar: {dir: %s, command: [python3, liar.py, \"${listen}\", \"${upstream}\", %s]}}}\n", dir, mode)
			cfg, _ := real(t, text)
			definition := must.Get(cfg.Experiment.Definition("liar", nil))(t)
			cfg.Meshes["liar"] = definition
			refused(t, one(t, cfg), "requests "+want+" between load and the application echo")
		})
	}
}
