package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// A server in Python that speaks TLS: port, certificate, key.
const tlsServer = `
import http.server, ssl, sys
class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *a): pass
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.load_cert_chain(sys.argv[2], sys.argv[3])
s = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server)
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
`

// A program that speaks TLS itself is verified behind sidecars that forward connections, with and without mutual TLS of
// theirs. Without tls the error names it at once.
func TestProgramWithTLS(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "server.py"), []byte(tlsServer), 0o600))
	crt, key := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	must.OK(t, must.Get(must.Get(newAuthority())(t).issue("app"))(t).Write(crt, key))
	own := app.Own{Command: []string{python(t), "server.py", "${port}", crt, key}, Dir: dir, TLS: true}
	deploy := func(t *testing.T, m mesh.Definition, path string, own app.Own) (*platform.Deployment, error) {
		spec := specOf(t, "none", app.Service{Name: "app", Own: own})
		spec.Mesh = m
		o := Options{AgentPath: agent, FetchProgram: onPath}
		if path != "" {
			o.FetchProgram = servedAt(path)
		}
		d, err := New(o).Deploy(t.Context(), spec)
		if err == nil {
			t.Cleanup(func() { _ = d.Remove(context.Background()) })
		}
		return d, err
	}
	check := func(name string, m func(t *testing.T) (mesh.Definition, string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			definition, path := m(t)
			d := must.Get(deploy(t, definition, path, own))(t)
			if failed := verified(t, d); failed != "" {
				t.Error(failed)
			}
			if at := d.Running.Entry()[0]; !strings.HasPrefix(at, "https://") {
				t.Errorf("the load is sent to %s", at)
			}
		})
	}
	check("none", func(t *testing.T) (mesh.Definition, string) { return load(t, "none"), "" })
	check("any", func(t *testing.T) (mesh.Definition, string) { return anySidecar(t, pythonProxy, "plain", ""), "" })
	for _, mtls := range []string{"false", "true"} {
		check("haproxy, mtls "+mtls, func(t *testing.T) (mesh.Definition, string) {
			return shipped(t, "haproxy", map[string]string{"mtls": mtls})
		})
	}
	plain := own
	plain.TLS = false
	if _, err := deploy(t, load(t, "none"), "", plain); err == nil || !strings.Contains(err.Error(), "it speaks TLS") {
		t.Errorf("without tls: %v", err)
	}
	_, path := shipped(t, "nginx", nil)
	if _, err := deploy(t, load(t, "nginx"), path, own); err == nil || !strings.Contains(err.Error(), "nginx forwards only") {
		t.Errorf("behind nginx: %v", err)
	}
}
