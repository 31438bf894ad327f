package load

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// counted is the content of a server's log.
type counted struct {
	requests    int64
	statuses    map[string]int64
	connections map[string]bool
	in, out     int64 // bytes, headers included
}

const nginxConfig = `
daemon off; user root; worker_processes 1; pid %[1]s/pid; error_log %[1]s/error.log notice;
events { worker_connections 1000; }
http {
  log_format counts '$connection $status $bytes_sent $request_length';
  access_log %[1]s/access.log counts;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server {
    listen %[2]s:8080; listen %[2]s:8081 http2; listen unix:%[1]s/socket; listen [::1]:%[3]d;
    root %[1]s; %[4]s
    location = /hello { return 200 "hello"; }
    location = /gone { return 410; }
    location = /moved { return 302 /hello; }
    location = /empty { return 204; }
  }
}
`

// nginx runs one with extra directives, on an address of its own and a port of ::1.
func nginx(t *testing.T, directives string) (p *process, dir, at string, port6 int) {
	t.Helper()
	path := program(t, "nginx")
	dir, at = t.TempDir(), host()
	port6 = must.Get(programtest.Port("::1"))(t)
	config := write(t, dir, "nginx.conf", fmt.Sprintf(nginxConfig, dir, at, port6, directives))
	p = launch(t, path, "-c", config, "-p", dir, "-e", filepath.Join(dir, "error.log"))
	p.await(t, "tcp", at+":8080")
	return p, dir, at, port6
}

// readLog reads a server's log, once it has ended: connection, "-" if unknown, status, bytes out and in. Lines of nginx with
// "400 0 0" are of connections without a request. Lines of lighttpd with status 100 are of connections of HTTP/2.
func readLog(t *testing.T, dir string) (c counted) {
	t.Helper()
	c.statuses, c.connections = map[string]int64{}, map[string]bool{}
	b := must.Get(os.ReadFile(filepath.Join(dir, "access.log")))(t)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			t.Fatalf("log line %q", line)
		}
		if f[1] == "100" {
			continue
		}
		out, _ := strconv.ParseInt(f[2], 10, 64)
		in, _ := strconv.ParseInt(f[3], 10, 64)
		c.requests++
		c.statuses[f[1]]++
		if f[0] != "-" {
			c.connections[f[0]] = true
		}
		c.in, c.out = c.in+in, c.out+out
	}
	return c
}

// agree compares the server's log with tare's report of a load without errors.
func agree(t *testing.T, r *load.Report, c counted, bytes bool) {
	t.Helper()
	if len(r.Errors) > 0 || r.Requests != c.requests || !maps.Equal(r.Statuses, c.statuses) {
		t.Errorf("tare: %d requests, %v, errors %v; server: %d, %v", r.Requests, r.Statuses, r.Errors, c.requests, c.statuses)
	}
	if bytes && (r.BytesIn != c.out || r.BytesOut != c.in) {
		t.Errorf("tare: %d bytes in, %d out; server: %d out, %d in", r.BytesIn, r.BytesOut, c.out, c.in)
	}
	var opened int64
	for _, n := range r.Addresses {
		opened += n
	}
	// A connection opened at the end may have carried no request, and Unix sockets have no address.
	if served := int64(len(c.connections)); opened > 0 && served > 0 && (served > opened || opened > served+int64(r.Held)) {
		t.Errorf("tare: %d connections opened; server: %d used", opened, served)
	}
}

func TestNginx(t *testing.T) {
	tare := build(t)
	const large = 100 << 20
	for _, test := range []struct {
		name, directives string
		url, args        string // {host}, {dir} and {port6} are replaced
		bytes            bool   // compared too
		retried          bool   // there must be some
	}{
		{"keep-alive", "", "http://{host}:8080/hello", "-n 3000 -c 8", true, false},
		{"open loop", "", "http://{host}:8080/hello", "-n 500 -c 8 -r 1000", true, false},
		{"a connection per request", "", "http://{host}:8080/hello", "-n 300 -c 8 --no-keepalive", true, false},
		{"keepalive_requests over HTTP/1.1", "keepalive_requests 50;", "http://{host}:8080/hello", "-n 3000 -c 8", true, false},
		{"keepalive_requests over HTTP/2", "keepalive_requests 50;", "http://{host}:8081/hello", "-n 3000 -c 4 --http2", false, true},
		{"default keepalive_requests over HTTP/2", "", "http://{host}:8081/hello", "-n 20000 -c 4 --http2", false, true},
		{"one stream at a time", "http2_max_concurrent_streams 1;", "http://{host}:8081/hello", "-n 1000 -c 4 --http2", false, false},
		{"status 410", "", "http://{host}:8080/gone", "-n 300 -c 4", true, false},
		{"redirects, not followed", "", "http://{host}:8080/moved", "-n 300 -c 4", true, false},
		{"no content", "", "http://{host}:8080/empty", "-n 300 -c 4", true, false},
		{"HEAD", "", "http://{host}:8080/large", "-n 300 -c 4 -m HEAD", true, false},
		{"100 MiB", "", "http://{host}:8080/large", "-n 4 -c 2 -t 60s", true, false},
		{"100 MiB over HTTP/2", "", "http://{host}:8081/large", "-n 4 -c 2 -t 60s --http2", false, false},
		{"chunked and compressed", "gzip on; gzip_types *; gzip_min_length 0;", "http://{host}:8080/large", "-n 2 -c 1 -t 60s -H Accept-Encoding:gzip", true, false},
		{"IPv6", "", "http://[::1]:{port6}/hello", "-n 1000 -c 4", true, false},
		{"dead addresses", "", "http://many.test:8080/hello", "-n 1000 -c 6 --resolve many.test:8080:127.0.0.1,{host}", true, false},
		{"Unix socket", "", "http://localhost/hello", "-n 1000 -c 4 --unix-socket {dir}/socket", true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, dir, at, port6 := nginx(t, test.directives)
			must.OK(t, os.Truncate(write(t, dir, "large", ""), large))
			fill := strings.NewReplacer("{host}", at, "{dir}", dir, "{port6}", strconv.Itoa(port6))
			o := run(t, tare, 5*time.Minute, append([]string{fill.Replace(test.url), "--warmup", "0s"}, strings.Fields(fill.Replace(test.args))...)...)
			p.stop(t, syscall.SIGQUIT)
			agree(t, &o.report, readLog(t, dir), test.bytes)
			if test.retried && o.report.Retried == 0 {
				t.Error("no request was retried: the ends of connections went unnoticed")
			}
		})
	}
}

// TestNginxReload replaces nginx's workers again and again under load. No request may fail.
func TestNginxReload(t *testing.T) {
	tare := build(t)
	for name, args := range map[string]string{
		"HTTP/1.1":            "-c 4 -r 1000 --no-keepalive {host}:8080/hello",
		"HTTP/2":              "-c 4 -r 1000 --http2 {host}:8081/hello",
		"HTTP/2, closed loop": "-c 4 --http2 {host}:8081/hello",
	} {
		t.Run(name, func(t *testing.T) {
			p, dir, at, _ := nginx(t, "")
			reloads := 0
			stop := repeat(t, 300*time.Millisecond, func() {
				_ = p.cmd.Process.Signal(syscall.SIGHUP)
				reloads++
			})
			o := run(t, tare, time.Minute, strings.Fields("-d 2s --warmup 0s "+strings.ReplaceAll(args, "{host}", at))...)
			stop()
			p.stop(t, syscall.SIGQUIT)
			agree(t, &o.report, readLog(t, dir), false)
			if reloads == 0 || o.report.Reconnects == 0 {
				t.Errorf("%d reloads, %d reconnects", reloads, o.report.Reconnects)
			}
		})
	}
}
