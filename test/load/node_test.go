package load

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// nodeCounts is the last output of testdata/server.js.
type nodeCounts struct {
	Requests    int64 `json:"requests"`
	Answered    int64 `json:"answered"`
	Body        int64 `json:"body"`
	Connections int64 `json:"connections"`
	In          int64 `json:"in"`
	Out         int64 `json:"out"`
}

func TestNode(t *testing.T) {
	tare := build(t)
	const upload = 100 << 20
	for _, test := range []struct {
		name, protocol, each string // each: requests per connection; 0: any
		path, args           string
		kind                 string // of the error of every request; empty: success
		body                 int64  // bytes that the server reads per request
		retried              bool   // there must be some
	}{
		{"hello", "http1", "0", "/", "-n 1000 -c 4", "", 0, false},
		{"early hints, chunks and a trailer", "http1", "0", "/hints", "-n 500 -c 4", "", 0, false},
		{"100-continue", "http1", "0", "/upload", "-n 200 -c 4 -m PUT --body-size 3000 -H Expect:100-continue", "", 3000, false},
		{"100 MiB up", "http1", "0", "/upload", "-n 2 -c 1 -t 60s --body-size 104857600", "", upload, false},
		{"100 MiB down", "http1", "0", "/large", "-n 2 -c 1 -t 60s", "", 0, false},
		{"requests per connection", "http1", "20", "/", "-n 1000 -c 4", "", 0, false},
		{"reset", "http1", "0", "/reset", "-n 50 -c 4", "reset", 0, false},
		{"closed without an answer", "http1", "0", "/close", "-n 50 -c 4", "closed before an answer", 0, false},
		{"truncated body", "http1", "0", "/truncated", "-n 50 -c 4", "half a response", 0, false},
		{"truncated chunks", "http1", "0", "/broken-chunk", "-n 50 -c 4", "half a response", 0, false},
		{"HTTP/2", "http2", "0", "/", "-n 1000 -c 4 --http2", "", 0, false},
		{"HTTP/2, trailers", "http2", "0", "/trailers", "-n 500 -c 4 --http2", "", 0, false},
		{"HTTP/2, 100 MiB up", "http2", "0", "/", "-n 2 -c 1 --http2 -t 60s --body-size 104857600", "", upload, false},
		{"HTTP/2, session.close()", "http2", "50", "/", "-n 5000 -c 4 --http2", "", 0, true},
		{"HTTP/2, session.close(), open loop", "http2", "20", "/", "-n 1000 -c 4 -r 1000 --http2", "", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p *process
			var r *load.Report
			for range 3 { // Node.js sometimes corrupts its memory when it closes sessions of HTTP/2
				at := host()
				p = launch(t, program(t, "node"), "testdata/server.js", test.protocol, at, test.each)
				p.await(t, "tcp", at+":8080")
				o := run(t, tare, 5*time.Minute, append([]string{"http://" + at + ":8080" + test.path, "--warmup", "0s"}, strings.Fields(test.args)...)...)
				if r = &o.report; !p.crashed() {
					break
				}
				t.Logf("the server has crashed: %s", p.output.String())
			}
			var c nodeCounts
			if out := p.stop(t, syscall.SIGTERM); json.Unmarshal([]byte(out), &c) != nil {
				t.Fatalf("the server printed %q", out)
			}
			c.Connections-- // the one of await
			if test.kind != "" {
				if r.Errors[test.kind] != r.Requests || c.Requests != r.Requests {
					t.Errorf("tare: %d requests, errors %v; server: %d", r.Requests, r.Errors, c.Requests)
				}
				return
			}
			if d := difftest.Of("len(r.Errors) > 0", len(r.Errors) > 0, false, `r.Statuses["200"]`, r.Statuses["200"], r.Requests, "c.Answered", c.Answered, r.Requests, "c.Body", c.Body, test.body*r.Requests); d != "" {
				t.Errorf("%s: tare: %d requests, %v, errors %v, %d retried; server: %+v", d, r.Requests, r.Statuses, r.Errors, r.Retried, c)
			}
			if test.protocol == "http1" && (c.Requests != r.Requests || c.In != r.BytesOut || c.Out != r.BytesIn) {
				t.Errorf("tare: %d requests, %d bytes in, %d out; server: %+v", r.Requests, r.BytesIn, r.BytesOut, c)
			}
			var opened int64
			for _, n := range r.Addresses {
				opened += n
			}
			if c.Connections != opened {
				t.Errorf("tare: %d connections; server: %d", opened, c.Connections)
			}
			if test.retried && r.Retried == 0 {
				t.Error("no request was retried: the ends of sessions went unnoticed")
			}
		})
	}
}
