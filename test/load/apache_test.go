package load

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const apacheConfig = `
ServerRoot "%[1]s"
ServerName localhost
PidFile "%[1]s/pid"
ErrorLog "%[1]s/error.log"
DefaultRuntimeDir "%[1]s"
Mutex posixsem
%[3]s
User nobody
Group nogroup
Listen %[2]s:8080
DocumentRoot "%[1]s"
Protocols h2c http/1.1
StartServers 2
ServerLimit 4
ThreadsPerChild 25
MaxRequestWorkers 100
GracefulShutdownTimeout 20
LogFormat "%%a:%%{remote}p %%>s %%O %%I" counts
CustomLog "%[1]s/access.log" counts
%[4]s
`

// TestApache compares counts, statuses, bytes and connections.
func TestApache(t *testing.T) {
	tare := build(t)
	for _, test := range []struct {
		name, option, args string
		restarted          bool
	}{
		{"keep-alive", "", "-n 1000 -c 4 http://{host}:8080/hello", false},
		{"requests per connection", "MaxKeepAliveRequests 20", "-n 1000 -c 4 http://{host}:8080/hello", false},
		{"connection per request", "KeepAlive Off", "-n 300 -c 4 http://{host}:8080/hello", false},
		{"status 404", "", "-n 300 -c 4 http://{host}:8080/missing", false},
		{"requests of a file", "", "-n 600 -c 4 --targets {dir}/requests.txt", false},
		{"HTTP/2", "", "-n 1000 -c 4 --http2 http://{host}:8080/hello", false},
		{"HTTP/2 restarted", "", "-z 3s -c 4 -r 500 --http2 http://{host}:8080/hello", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, dir, at := program(t, "apache2"), t.TempDir(), host()
			for _, d := range []string{dir, filepath.Dir(dir)} { // its children are of another user
				must.OK(t, os.Chmod(d, 0o755))
			}
			write(t, dir, "hello", "hello")
			write(t, dir, "body", `{"id": 7}`)
			write(t, dir, "requests.txt", strings.ReplaceAll("GET URL/hello?n=1\n\nGET URL/hello/a\n\nPOST URL/hello\nX-Id: 1\n@body\n", "URL", "http://"+at+":8080"))
			var modules strings.Builder
			from := filepath.Join(serversDir(), "usr", "lib", "apache2", "modules")
			if _, err := os.Stat(from); err != nil {
				from = "/usr/lib/apache2/modules"
			}
			for _, name := range []string{"mpm_event", "authz_core", "http2"} {
				fmt.Fprintf(&modules, "LoadModule %s_module %s/mod_%s.so\n", name, from, name)
			}
			config := write(t, dir, "apache.conf", fmt.Sprintf(apacheConfig, dir, at, modules.String(), test.option))
			p := launch(t, path, "-D", "FOREGROUND", "-f", config)
			p.await(t, "tcp", at+":8080")
			stop := repeat(t, time.Second, func() {
				if test.restarted {
					_ = p.cmd.Process.Signal(syscall.SIGUSR1) // graceful: children end with their connections
				}
			})
			args := strings.NewReplacer("{host}", at, "{dir}", dir).Replace(test.args)
			o := run(t, tare, time.Minute, strings.Fields("--warmup 0s "+args)...)
			stop()
			p.stop(t, syscall.SIGWINCH)
			c := readLog(t, dir)
			if test.restarted {
				// Apache ends some HTTP/2 sessions without a GOAWAY, and connections that have had no request. On a
				// busy machine it also ends sessions before it has sent answers that it logs, and several requests of a session are under way.
				r := &o.report
				failed := r.Requests - r.Classes["2xx"]
				if unsent := c.requests - r.Classes["2xx"]; unsent < 0 {
					t.Errorf("tare: %d requests, %v, errors %v, %d reconnects; server: %d", r.Requests, r.Classes, r.Errors, r.Reconnects, c.requests)
				} else if d := difftest.Wrong("unsent > failed", unsent > failed, "r.Reconnects == 0", r.Reconnects == 0, "failed > max(r.Reconnects, r.Requests/20)", failed > max(r.Reconnects, r.Requests/20), "failed > 0 && !strings.Contains(test.args, h2)", failed > 0 && !strings.Contains(test.args, h2)); d != "" {
					t.Errorf("%s: tare: %d requests, %v, errors %v, %d reconnects; server: %d", d, r.Requests, r.Classes, r.Errors, r.Reconnects, c.requests)
				}
				return
			}
			agree(t, &o.report, c, false)
			// Apache counts bytes again that it has only peeked at: 24 of each connection, for HTTP/2's
			// preface, and one after a request, for the next.
			r, peeked := &o.report, 24*int64(len(c.connections))+c.requests
			if more := c.in - r.BytesOut; !strings.Contains(test.args, h2) && (r.BytesIn != c.out || more < 0 || more > peeked) {
				t.Errorf("tare: %d bytes in, %d out; server: %d out, %d in", r.BytesIn, r.BytesOut, c.out, c.in)
			}
		})
	}
}
