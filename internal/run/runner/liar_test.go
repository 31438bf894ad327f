package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/programtest"
)

// A proxy in Python that forwards 100 requests and answers each 20th of the following itself: listen, upstream.
const liar = `
import http.client, http.server, itertools, sys, threading
host, port = sys.argv[1].rsplit(":", 1)
number, upstream = itertools.count(), threading.local()
class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        n, answer = next(number), b"x" * 1024
        if n < 100 or n % 20 > 0:
            if not hasattr(upstream, "c"): upstream.c = http.client.HTTPConnection(sys.argv[2])
            upstream.c.request(self.command, self.path, body, {"User-Agent": self.headers.get("User-Agent", ""), "Host": self.headers["Host"]})
            answer = upstream.c.getresponse().read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    do_GET = do_POST
    def log_message(self, *a): pass
class Server(http.server.ThreadingHTTPServer): request_queue_size = 100
Server((host, int(port)), Proxy).serve_forever()
`

// A proxy without counters that answers some requests itself, once the load runs, is found by the counts of the load and of the
// application.
func TestProxyThatAnswersItself(t *testing.T) {
	t.Parallel()
	programtest.Installed(t, "python3", "apt install python3")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "liar.py"), []byte(liar), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("mesh: [none]", "mesh: [liar]", "rate: [300]", "rate: [150]", "measure: 1500ms", "measure: 3s").Replace(conservedText) +
		fmt.Sprintf("meshes: {liar: {sidecar: {dir: %s, command: [python3, liar.py, \"${listen}\", \"${upstream}\"]}}}\n", dir)
	cfg, _ := real(t, text)
	definition, err := cfg.Experiment.Definition("liar", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Meshes["liar"] = definition
	refused(t, one(t, cfg), "between load and the application echo")
}
