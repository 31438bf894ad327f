package engine

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// failure is a way a server can fail, what becomes of every request, and under
// which names, separated by |, it may be counted ("": none).
type failure struct {
	name   string
	server func(net.Conn) // nil: no listener
	class  load.Class
	kind   string
}

// failures are those over HTTP/1.1, with or without TLS.
func failures() []failure {
	hang := func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		buf := make([]byte, 4096)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}
	reset := answering(func(c net.Conn, _ int) bool {
		_ = wire(c).(*net.TCPConn).SetLinger(0)
		return false
	})
	byteAtATime := answering(func(c net.Conn, _ int) bool {
		for i := range len(helloResponse) {
			if _, err := c.Write([]byte(helloResponse[i : i+1])); err != nil {
				return false
			}
		}
		return true
	})
	endlessHeader := answering(func(c net.Conn, _ int) bool {
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n"))
		for range 100 {
			if _, err := c.Write([]byte("X: " + strings.Repeat("y", 10_000) + "\r\n")); err != nil {
				return false
			}
		}
		return false
	})
	return []failure{
		{"refused", nil, load.Conn, "connect refused"},
		{"accepts and closes", func(net.Conn) {}, load.Conn, "closed before an answer|reset|idle connection closed"},
		{"resets", reset, load.Conn, "reset"},
		{"closes early", answering(func(net.Conn, int) bool { return false }), load.Conn, "closed before an answer"},
		{"half a body", replyingOnce("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"), load.Conn, "half a response"},
		{"half a header", replyingOnce("HTTP/1.1 200 OK\r\nContent-Le"), load.Conn, "half a response"},
		{"half a chunk", replyingOnce("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"), load.Conn, "half a response"},
		{"more than Content-Length", replying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello"), load.Conn, "bytes after the response"},
		{"garbage", replying("SSH-2.0-OpenSSH_9.2\r\n"), load.Conn, "malformed response"},
		{"bad Content-Length", replying("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"), load.Conn, "malformed response"},
		{"endless header", endlessHeader, load.Conn, "header too large"},
		{"never answers", hang, load.Timeout, "timeout|timeout before a connection was free"},
		{"500", replying("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"), load.Status, ""},
		{"404 chunked", replying("HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), load.Status, ""},
		{"wrong size", replying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), load.Status, "wrong size"},
		{"a byte at a time", byteAtATime, load.OK, ""},
		{"closes after each", replyingOnce(strings.Replace(helloResponse, "Server", "Connection: close\r\nServer", 1)), load.OK, ""},
		{"until the end", replyingOnce("HTTP/1.0 200 OK\r\n\r\nhello"), load.OK, ""},
	}
}

// TestFailures checks that every server failure is counted under its own name, in
// every loop, and that the run ends.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, test := range failures() {
		for _, loop := range []string{"open", "closed", oneConnection} {
			t.Run(test.name+"/"+loop, func(t *testing.T) {
				t.Parallel()
				url := refusedTarget(t)
				if test.server != nil {
					url = rawServer(t, test.server)
				}
				test.check(t, profile(url), loop)
			})
		}
	}
}

// oneConnection is an open loop whose requests must wait for one connection. Each must meet the failure itself.
const oneConnection = "one"

// check runs p against the failing server, in one of the loops.
func (f failure) check(t *testing.T, p load.Profile, loop string) {
	t.Helper()
	p.Warmup, p.Tail, p.Measure, p.Drain, p.ExpectSize = 0, 0, brief, 30*time.Second, 5
	p.Timeout, p.Rate = 200*time.Millisecond, 100
	if f.class != load.Timeout {
		p.Timeout = 30 * time.Second // a busy machine is not a failure
	}
	if loop == oneConnection {
		p.Connections = 1
	}
	if loop == "closed" { // by number: a busy machine may do nothing in a brief window
		p.Rate, p.Requests, p.Measure = 0, 20, time.Minute
	}
	began := time.Now()
	r := mustRun(t, p)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
	if r.Requests == 0 || r.Classes[f.class] != r.Requests {
		t.Errorf("not all %q: %v of %d, errors %v", f.class, r.Classes, r.Requests, r.Errors)
	}
	var named int64
	for kind, n := range r.Errors {
		if strings.Contains("|"+f.kind+"|", "|"+kind+"|") {
			named += n
		} else {
			t.Errorf("%d errors of kind %q, want %q", n, kind, f.kind)
		}
	}
	if f.server == nil && r.Sent+r.Whole.Sent != 0 {
		t.Errorf("%d requests sent, %d in all, to no server", r.Sent, r.Whole.Sent)
	}
	if n := r.Errors[load.FailureNotSent.String()]; n > 0 && !strings.HasPrefix(r.Reasons[load.FailureNotSent.String()], "first failure: timeout") {
		t.Errorf("%d requests without a connection, reasons %v", n, r.Reasons)
	}
	if f.kind != "" && named != r.Requests {
		t.Errorf("%d of %d errors named %q: %v", named, r.Requests, f.kind, r.Errors)
	}
}

// wire is the socket under a connection.
func wire(c net.Conn) net.Conn {
	if s, ok := c.(*tls.Conn); ok {
		return s.NetConn()
	}
	return c
}

// TestUnreachableServerHasNoConnections checks that the report distinguishes an
// unreachable server from a failing one: no connection was open.
func TestUnreachableServerHasNoConnections(t *testing.T) {
	p := profile(refusedTarget(t))
	p.Measure, p.Warmup, p.Tail = 200*time.Millisecond, 0, 0
	r := mustRun(t, p)
	if r.Connected != 0 || r.ConnectErrors["connect refused"] < 8 || !strings.Contains(strings.Join(r.Warnings, "\n"), "0 of 8 connections were open") {
		t.Errorf("%d connected, %v, %q", r.Connected, r.ConnectErrors, r.Warnings)
	}

}
