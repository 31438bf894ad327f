package load

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const haproxyConfig = `
global
  nbthread 1
  stats socket %[1]s/admin level admin expose-fd listeners
  log stdout format raw local0 info
  hard-stop-after 20s
defaults
  mode http
  log global
  log-format "request %%ST"
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  %[3]s
frontend http1
  bind %[2]s:8080
  http-request return status 200 content-type text/plain string hello
frontend http2
  bind %[2]s:8081 proto h2
  http-request return status 200 content-type text/plain string hello
`

// TestHAProxy compares counts, among them counts of a proxy that is replaced under load: the
// old process closes idle connections, and ends HTTP/2 sessions with a GOAWAY.
func TestHAProxy(t *testing.T) {
	tare := build(t)
	for _, test := range []struct {
		name, option, args string
		replaced           bool
	}{
		{"HTTP/1.1", "", "-n 2000 -c 8 {host}:8080/", false},
		{"HTTP/1.1 with a connection per request", "option httpclose", "-n 300 -c 4 {host}:8080/", false},
		{"HTTP/2", "", "-n 2000 -c 4 --http2 {host}:8081/", false},
		{"HTTP/2 replaced", "", "-d 2s -c 4 -r 1000 --http2 {host}:8081/", true},
		{"HTTP/2 replaced in a closed loop", "", "-d 2s -c 4 --http2 {host}:8081/", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, dir, at := program(t, "haproxy"), t.TempDir(), host()
			config := write(t, dir, "haproxy.cfg", fmt.Sprintf(haproxyConfig, dir, at, test.option))
			processes := []*process{launch(t, path, "-db", "-f", config)}
			processes[0].await(t, "tcp", at+":8080")
			stop := repeat(t, 400*time.Millisecond, func() {
				if test.replaced && len(processes) < 4 {
					old := processes[len(processes)-1].cmd.Process.Pid
					processes = append(processes, launch(t, path, "-db", "-f", config, "-x", filepath.Join(dir, "admin"), "-sf", strconv.Itoa(old)))
				}
			})
			o := run(t, tare, time.Minute, strings.Fields("--warmup 0s "+strings.ReplaceAll(test.args, "{host}", at))...)
			stop()
			var served int64
			for _, p := range processes {
				served += int64(strings.Count(p.stop(t, syscall.SIGUSR1), "request 200\n"))
			}
			r := &o.report
			// HAProxy drops lines of its log at the rate of a closed loop.
			logged := served == r.Requests || test.replaced && r.Loop == "closed"
			if len(r.Errors) > 0 || r.Statuses["200"] != r.Requests || !logged {
				t.Errorf("tare: %d requests, %v, errors %v, %d retried; server: %d", r.Requests, r.Statuses, r.Errors, r.Retried, served)
			}
			if test.replaced && r.Reconnects == 0 {
				t.Error("no reconnect: the proxy was not replaced")
			}
		})
	}
}

const lighttpdConfig = `
server.modules = ("mod_accesslog")
server.document-root = "%[1]s"
server.bind = "%[2]s"
server.port = 8080
server.pid-file = "%[1]s/pid"
server.errorlog = "%[1]s/error.log"
server.feature-flags = ("server.h2proto" => "enable", "server.h2c" => "enable")
accesslog.filename = "%[1]s/access.log"
accesslog.format = "- %%s %%O %%I"
%[3]s
`

// TestLighttpd compares counts, statuses and bytes.
func TestLighttpd(t *testing.T) {
	tare := build(t)
	for _, test := range []struct{ name, option, args string }{
		{"keep-alive", "", "-n 1000 -c 4 http://{host}:8080/hello"},
		{"requests per connection", "server.max-keep-alive-requests = 20", "-n 1000 -c 4 http://{host}:8080/hello"},
		{"status 404", "", "-n 300 -c 4 http://{host}:8080/missing"},
		{"HTTP/2", "", "-n 1000 -c 4 --http2 http://{host}:8080/hello"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, dir, at := program(t, "lighttpd"), t.TempDir(), host()
			write(t, dir, "hello", "hello")
			config := write(t, dir, "lighttpd.conf", fmt.Sprintf(lighttpdConfig, dir, at, test.option))
			args := []string{"-D", "-f", config}
			if modules, _ := filepath.Glob(filepath.Join(serversDir(), "usr", "lib", "lighttpd")); len(modules) > 0 {
				args = append(args, "-m", modules[0])
			}
			p := launch(t, path, args...)
			p.await(t, "tcp", at+":8080")
			o := run(t, tare, time.Minute, strings.Fields("--warmup 0s "+strings.ReplaceAll(test.args, "{host}", at))...)
			p.stop(t, syscall.SIGINT)
			agree(t, &o.report, readLog(t, dir), !strings.Contains(test.args, h2))
		})
	}
}
