package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

func code(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

// goingAway is a server that answers a number of requests per connection and announces the
// end with a GOAWAY before the last of them. It ignores later streams, and counts answers.
func goingAway(each uint32, answered *atomic.Int64) func(net.Conn) {
	ok := headBlock(":status", "200")
	return func(c net.Conn) {
		last := 2*each - 1
		http2Server(func(c net.Conn, id uint32) {
			if id > last {
				return
			}
			var b []byte
			if id == last {
				b = framed(frameGoAway, 0, 0, code(last)+code(0))
			}
			answered.Add(1)
			_, _ = c.Write(append(b, framed(frameHeaders, flagEndHeaders|flagEndStream, id, ok)...))
		})(c)
	}
}

// TestGoAwayIsNotAFailure checks that streams above the last of a GOAWAY are retried on
// another connection, and that the server answers each request exactly once.
func TestGoAwayIsNotAFailure(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{1, 3} {
		for _, rate := range []float64{0, 2000} {
			t.Run(fmt.Sprint(connections, "/", rate), func(t *testing.T) {
				t.Parallel()
				var answered atomic.Int64
				p := profileH2(rawServer(t, goingAway(20, &answered)))
				p.Connections, p.Warmup, p.Streams = connections, 0, 16
				p = atRate(p, rate, 1000)
				p.Requests, p.Measure = 1000, time.Minute
				r := mustRun(t, p)
				if r.Classes[load.OK] != 1000 || len(r.Errors) > 0 || answered.Load() < 1000 {
					t.Errorf("%v, %v, server answered %d", r.Classes, r.Errors, answered.Load())
				}
				if rate == 0 && r.Retried == 0 {
					t.Error("no request was retried: the server's ends went unnoticed")
				}
			})
		}
	}
}

// TestRefusedStreamsAreSentAgain checks that a refused stream is retried, and how often.
func TestRefusedStreamsAreSentAgain(t *testing.T) {
	t.Parallel()
	ok := headBlock(":status", "200")
	for _, test := range []struct {
		name    string
		refuses func(n int64) bool
		class   load.Class
		seen    int64 // by the server, per request
	}{
		{"the first", func(n int64) bool { return n <= 10 }, load.OK, 0},
		{"all", func(int64) bool { return true }, load.Conn, 11},
	} {
		for _, connections := range []int{1, 2} {
			var seen atomic.Int64
			p := profileH2(rawServer(t, http2Server(func(c net.Conn, id uint32) {
				if test.refuses(seen.Add(1)) {
					_, _ = c.Write(framed(frameReset, 0, id, code(codeRefused)))
					return
				}
				_, _ = c.Write(framed(frameHeaders, flagEndHeaders|flagEndStream, id, ok))
			})))
			p.Connections, p.Warmup = connections, 0
			p = atRate(p, 0, 100)
			r := mustRun(t, p)
			if d := difftest.Of("r.Requests", r.Requests, 100, "r.Classes[test.class]", r.Classes[test.class], 100, "r.Retried == 0", r.Retried == 0, false, "r.Reconnects > 0", r.Reconnects > 0, false); d != "" {
				t.Errorf("%s: %s: %v, %v, %d retried, %d reconnects", d, test.name, r.Classes, r.Errors, r.Retried, r.Reconnects)
			}
			if test.seen > 0 && (seen.Load() != test.seen*100 || r.Retried != 100 || r.Errors["stream refused"] != 100) {
				t.Errorf("%s: the server saw %d streams for 100 requests, %d retried, %v", test.name, seen.Load(), r.Retried, r.Errors)
			}
		}
	}
}

// TestRetriesKeepTheirClock checks that a request that is retried has its response time
// from the intended start, and one timeout in all.
func TestRetriesKeepTheirClock(t *testing.T) {
	t.Parallel()
	const slow = 60 * time.Millisecond
	ok := headBlock(":status", "200")
	for _, test := range []struct {
		timeout time.Duration
		class   load.Class
	}{{20 * time.Second, load.OK}, {slow + slow/2, load.Timeout}} {
		var seen atomic.Int64
		p := profileH2(rawServer(t, http2Server(func(c net.Conn, id uint32) {
			first := seen.Add(1) == 1
			time.Sleep(slow) // the work of this server
			if first {
				_, _ = c.Write(framed(frameReset, 0, id, code(codeRefused)))
				return
			}
			_, _ = c.Write(framed(frameHeaders, flagEndHeaders|flagEndStream, id, ok))
		})))
		p.Connections, p.Streams, p.Warmup, p.Rate, p.Requests, p.Measure, p.Timeout = 1, 1, 0, 100, 1, time.Minute, test.timeout
		r := mustRun(t, p)
		if r.Requests != 1 || r.Classes[test.class] != 1 || test.class == load.OK && r.Retried != 1 {
			t.Errorf("timeout %v: %v, %v, %d retried", test.timeout, r.Classes, r.Errors, r.Retried)
		}
		if least := 2 * slow.Seconds() * 1e3; test.class == load.OK && (r.ServiceMS.P50 < least || r.ResponseMS.P50 < least) {
			t.Errorf("response %v, service %v: less than both attempts", r.ResponseMS, r.ServiceMS)
		}
	}
}

// closingIdle is a server that answers a request and soon closes the connection, without notice.
func closingIdle() func(net.Conn) {
	return answering(func(c net.Conn, _ int) bool {
		_, _ = c.Write([]byte(helloResponse))
		for wait := time.Now().Add(rand.N(60 * time.Microsecond)); time.Now().Before(wait); {
		}
		return false
	})
}

// TestIdleCloseIsAClassOfItsOwn checks the name of a request sent on a connection that the
// server had closed.
func TestIdleCloseIsAClassOfItsOwn(t *testing.T) {
	t.Parallel()
	url := rawServer(t, closingIdle())
	p := profile(url)
	p.Warmup, p.Connections = 0, 4
	p = atRate(p, 0, 2000)
	var raced int64
	for range 20 {
		r := mustRun(t, p)
		raced = r.Errors["idle connection closed"]
		// A request that arrived before the close, and was not read, is reset.
		if r.Classes[load.OK]+raced+r.Errors["reset"] != r.Requests || r.Retried > 0 {
			t.Errorf("%v, %v, %d retried", r.Classes, r.Errors, r.Retried)
		}
		if raced > 0 {
			break
		}
	}
	if raced == 0 {
		t.Error("no idle close: the race did not occur")
	}
}

// TestGoAwayOpensAnotherConnectionAtOnce runs against a server that answers the streams left on
// an ended session only once the next connection has come.
func TestGoAwayOpensAnotherConnectionAtOnce(t *testing.T) {
	t.Parallel()
	ok := headBlock(":status", "200")
	var sessions atomic.Int64
	next := make(chan struct{}, 100)
	url := rawServer(t, func(c net.Conn) {
		mine := sessions.Add(1)
		next <- struct{}{}
		http2Server(func(c net.Conn, id uint32) {
			answer := framed(frameHeaders, flagEndHeaders|flagEndStream, id, ok)
			switch {
			case mine > 1:
				_, _ = c.Write(answer)
			case id == 1:
				_, _ = c.Write(framed(frameGoAway, 0, 0, code(1)+code(0)))
				<-next // this one
				select {
				case <-next:
					_, _ = c.Write(answer)
				case <-time.After(10 * time.Second): // longer than the timeout
				}
			}
		})(c)
	})
	for _, rate := range []float64{0, 500} {
		p := profileH2(url)
		p.Connections, p.Streams, p.Warmup, p.Timeout, p.Drain = 1, 4, 0, 5*time.Second, 10*time.Second
		p = atRate(p, rate, 100)
		p.Requests, p.Measure = 100, time.Minute
		if r := mustRun(t, p); r.Classes[load.OK] != 100 || r.Held != 1 {
			t.Errorf("rate %v: %v, %v, %d retried, %d held", rate, r.Classes, r.Errors, r.Retried, r.Held)
		}
		sessions.Store(0)
		for len(next) > 0 {
			<-next
		}
	}
}
