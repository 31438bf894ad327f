package engine

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// echoing sends back the received bytes.
func echoing(c net.Conn) { _, _ = io.Copy(c, c) }

func tcpTarget(t *testing.T, handle func(net.Conn)) string {
	return strings.Replace(rawServer(t, handle), "http://", "tcp://", 1)
}

func TestEcho(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1, 100, 12 << 20} { // the last is more than the sockets hold
		for _, rate := range []float64{100, 0} {
			p := profile(tcpTarget(t, echoing))
			p.Protocol, p.RequestSize, p.Rate, p.Warmup, p.Tail, p.Connections = load.ProtocolTCP, size, rate, 0, 0, 2
			p.Measure, p.Timeout, p.Drain = brief, 20*time.Second, 20*time.Second
			if p = atRate(p, rate, 100); size > 1000 {
				p.Requests, p.Measure = 3, 20*time.Second
			}
			r := mustRun(t, p)
			if d := difftest.Wrong("r.Requests == 0", r.Requests == 0, "r.Classes[load.OK] != r.Requests", r.Classes[load.OK] != r.Requests, "len(r.Statuses) > 0", len(r.Statuses) > 0, "r.Reconnects > 0", r.Reconnects > 0, "r.ResponseMS.Count != r.Requests", r.ResponseMS.Count != r.Requests); d != "" {
				t.Errorf("%s: %d bytes, rate %v: %+v", d, size, rate, r)
			}
			if want := int64(brief.Seconds() * 100); rate > 0 && size < 1000 && r.Requests != want {
				t.Errorf("%d bytes: %d requests, want %d", size, r.Requests, want)
			}
			if least := r.Completed * max(1, size); r.BytesOut < least || r.BytesIn < least {
				t.Errorf("%d bytes, rate %v: %d answers, %d bytes sent, %d received", size, rate, r.Completed, r.BytesOut, r.BytesIn)
			}
		}
	}

}

// The end of a long answer is read after the worker has listed the events of all connections. The event of
// these bytes then concerns a free connection, which stays open.
func TestLongAnswersKeepTheirConnections(t *testing.T) {
	t.Parallel()
	p := profile(tcpTarget(t, echoing))
	p.Protocol, p.RequestSize, p.Connections, p.Warmup = load.ProtocolTCP, 4<<20, 8, 0
	p = atRate(p, 0, 200)
	p.Rate = 400 // connections are free between requests
	if r := mustRun(t, p); r.Classes[load.OK] != 200 || r.IdleClosed > 0 || r.Reconnects > 0 {
		t.Errorf("%v, %d idle connections closed, %d reconnects", r.Classes, r.IdleClosed, r.Reconnects)
	}
}

func TestEchoFailures(t *testing.T) {
	t.Parallel()
	const size = 10
	answer := func(b string, more bool) func(net.Conn) {
		return func(c net.Conn) {
			for {
				if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
					return
				}
				if _, _ = io.WriteString(c, b); !more {
					return
				}
			}
		}
	}
	for _, test := range []struct {
		name   string
		server func(net.Conn)
		class  load.Class
		kind   string
	}{
		{"refused", nil, load.Conn, "connect refused"},
		{"other bytes", answer("xxxxxxxxxy", true), load.Conn, "other bytes than were sent"},
		{"too many", answer("xxxxxxxxxxx", true), load.Conn, "bytes after the response"},
		{"half", answer("xxxxx", false), load.Conn, "half a response"},
		{"closes", answer("", false), load.Conn, "closed before an answer"},
		{"silent", answer("", true), load.Timeout, "timeout|timeout before a connection was free"},
		{"too few", answer("xxxxx", true), load.Timeout, "timeout|timeout before a connection was free"},
	} {
		for _, rate := range []float64{50, 0} {
			target := strings.Replace(refusedTarget(t), "http", "tcp", 1)
			if test.server != nil {
				target = tcpTarget(t, test.server)
			}
			p := profile(target)
			p.Protocol, p.RequestSize, p.Rate, p.Warmup, p.Tail = load.ProtocolTCP, size, rate, 0, 0
			p.Measure, p.Drain, p.Timeout = brief, 10*time.Second, 10*time.Second
			if test.class == load.Timeout {
				p.Timeout = 100 * time.Millisecond
			}
			r := mustRun(t, atRate(p, rate, 10))
			named := int64(0)
			for kind, n := range r.Errors {
				if strings.Contains("|"+test.kind+"|", "|"+kind+"|") {
					named += n
				}
			}
			if r.Requests == 0 || r.Classes[test.class] != r.Requests || named != r.Requests {
				t.Errorf("%s, rate %v: %v, %v of %d", test.name, rate, r.Classes, r.Errors, r.Requests)
			}
		}

	}
}

// An answer that is known in advance, as Redis has it. Neither one that begins alike counts, nor the request itself.
func TestKnownAnswer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"+PONG\r\n": "", "+POND\r\n": "wrong body", "PING\r\n": "wrong body", "+PO": "half a response"} {
		p := profile(tcpTarget(t, func(c net.Conn) {
			for {
				if _, err := io.ReadFull(c, make([]byte, len("PING\r\n"))); err != nil {
					return
				}
				if _, _ = io.WriteString(c, answer); len(answer) < 4 {
					return
				}
			}
		}))
		p.Protocol, p.Body, p.Answer, p.Warmup, p.Tail = load.ProtocolTCP, []byte("PING\r\n"), []byte("+PONG\r\n"), 0, 0
		p.Measure, p.Drain = brief, 10*time.Second
		r := mustRun(t, atRate(p, 50, 10))
		if good := r.Classes[load.OK]; r.Requests == 0 || want == "" && good != r.Requests || want != "" && r.Errors[want] != r.Requests {
			t.Errorf("answer %q: %v, %v of %d", answer, r.Classes, r.Errors, r.Requests)
		}
	}
	p := profile("http://127.0.0.1:1")
	p.Answer = []byte("x")
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "only tcp has it") {
		t.Errorf("over HTTP: %v", err)
	}
}

func TestEchoRefusesWhatItCannotDo(t *testing.T) {
	for _, test := range []struct {
		change      func(*load.Profile)
		want        string
		unsupported bool
	}{
		{func(p *load.Profile) { p.Protocol = "" }, "is of protocol tcp, not http1", false},
		{func(p *load.Profile) { p.Targets[0] = "tcp://127.0.0.1" }, "names no port", false},
		{func(p *load.Profile) { p.Targets[0] = "tls://127.0.0.1" }, "names no port", false},
		{func(p *load.Profile) { p.Targets[0], p.Protocol = "tls://127.0.0.1:1", load.ProtocolHTTP1 }, "is of protocol tcp", false},
		{func(p *load.Profile) { p.Headers = []string{"A: b"} }, "protocol tcp does not support headers", true},
		{func(p *load.Profile) { p.BodyHas = []string{"b"} }, "checks of the body", true},
	} {
		p := profile("tcp://127.0.0.1:1")
		p.Protocol = load.ProtocolTCP
		test.change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, errors.ErrUnsupported) != test.unsupported {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
