package engine

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// TestManySessionsDrain runs against a server that ends each session after five requests, and answers
// them only once three later sessions have come: none may wait until another has drained.
func TestManySessionsDrain(t *testing.T) {
	t.Parallel()
	const each, ahead, requests = 5, 3, 60
	ok := headBlock(":status", "200")
	for _, rate := range []float64{0, 1000} {
		var (
			mu       sync.Mutex
			changed  = sync.NewCond(&mu)
			sessions int
			seen     int // requests
		)
		url := rawServer(t, func(c net.Conn) {
			mu.Lock()
			sessions++
			mine := sessions
			changed.Broadcast()
			mu.Unlock()
			http2Server(func(c net.Conn, id uint32) {
				if id > 2*each-1 {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen++
				changed.Broadcast()
				if id == 2*each-1 {
					_, _ = c.Write(framed(frameGoAway, 0, 0, code(id)+code(0)))
				}
				go func() {
					mu.Lock()
					defer mu.Unlock()
					for sessions < mine+ahead && seen < requests {
						changed.Wait()
					}
					_, _ = c.Write(framed(frameHeaders, flagEndHeaders|flagEndStream, id, ok))
				}()
			})(c)
		})
		p := profileH2(url)
		p.Connections, p.Streams, p.Warmup = 1, 40, 0
		p = atRate(p, rate, requests)
		p.Requests, p.Measure = requests, time.Minute
		r := mustRun(t, p)
		if r.Classes[load.OK] != requests || r.GoAways < requests/each-1 || strings.Contains(strings.Join(r.Warnings, "\n"), "holds only") {
			t.Errorf("rate %v: %v, %v, %d GOAWAYs, %q", rate, r.Classes, r.Errors, r.GoAways, r.Warnings)
		}
	}
}

// accepting counts the connections of a listener.
type accepting struct {
	net.Listener
	mu      sync.Mutex
	changed *sync.Cond
	opened  int
}

func (a *accepting) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opened++
	a.changed.Broadcast()
	return c, err
}

// TestSlowCallsAtMaxConnectionAge runs against grpc-go, whose connections end soon. Its first calls are answered only once
// four later connections have come.
func TestSlowCallsAtMaxConnectionAge(t *testing.T) {
	t.Parallel()
	const ahead = 4
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	a := &accepting{Listener: l}
	a.changed = sync.NewCond(&a.mu)
	s := grpc.NewServer(grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: time.Minute}),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			for a.opened < 1+ahead {
				a.changed.Wait()
			}
			return status.Error(codes.Unavailable, "answered")
		}))
	go func() { _ = s.Serve(a) }()
	t.Cleanup(s.Stop)
	p := profileH2("http://" + l.Addr().String() + "/any.Service/Call")
	p.Protocol, p.Connections, p.Streams, p.Warmup, p.Rate, p.Measure = load.ProtocolGRPC, 1, 100, 0, 100, 500*time.Millisecond
	if r := mustRun(t, p); r.Requests != 50 || r.Statuses["grpc-14"] != 50 || r.GoAways < ahead {
		t.Errorf("%v, %v, %d GOAWAYs, %q", r.Statuses, r.Errors, r.GoAways, r.Warnings)
	}
}

// TestClosedLoopKeepsItsNumber checks that requests of draining sessions count in the closed loop's number.
func TestClosedLoopKeepsItsNumber(t *testing.T) {
	t.Parallel()
	const streams = 4
	ok := headBlock(":status", "200")
	var now, most, requests atomic.Int64
	p := profileH2(rawServer(t, http2Server(func(c net.Conn, id uint32) {
		if id > 3 {
			return
		}
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		if id == 3 {
			_, _ = c.Write(framed(frameGoAway, 0, 0, code(id)+code(0)))
		}
		slow := requests.Add(1)%2 == 0
		go func() {
			if slow {
				time.Sleep(20 * time.Millisecond) // the work of this server
			}
			now.Add(-1)
			_, _ = c.Write(framed(frameHeaders, flagEndHeaders|flagEndStream, id, ok))
		}()
	})))
	p.Connections, p.Streams, p.Warmup = 1, streams, 0
	p = atRate(p, 0, 100)
	if r := mustRun(t, p); r.Classes[load.OK] != 100 || most.Load() > streams+1 { // one may begin between two of these lines
		t.Errorf("%v, %v, %d at once, want %d", r.Classes, r.Errors, most.Load(), streams)
	}
}

// TestReasonsOfServers checks that the code and the text of GOAWAY and RST_STREAM are in the result.
func TestReasonsOfServers(t *testing.T) {
	t.Parallel()
	const calm = 11
	for _, test := range []struct {
		name    string
		server  func(net.Conn)
		cause   load.Cause // without the count
		warning string
	}{
		{"reset", frames(func(id uint32) [][]byte { return [][]byte{framed(frameReset, 0, id, code(calm))} }),
			load.Cause{Cause: "stream reset", Detail: "code 11 (ENHANCE_YOUR_CALM)"}, ""},
		{"unknown code", frames(func(id uint32) [][]byte { return [][]byte{framed(frameReset, 0, id, code(99))} }),
			load.Cause{Cause: "stream reset", Detail: "code 99 (unknown)"}, ""},
		{"goaway", http2Server(func(c net.Conn, id uint32) {
			_, _ = c.Write(framed(frameGoAway, 0, 0, code(id)+code(calm)+"slow\x1b[31m down"))
			_ = c.Close()
		}), load.Cause{Cause: "goaway", Detail: "code 11 (ENHANCE_YOUR_CALM): slow\ufffd[31m down"}, "by GOAWAY, code 11 (ENHANCE_YOUR_CALM): slow"},
	} {
		p := profileH2(rawServer(t, test.server))
		p.Connections, p.Streams, p.Warmup = 1, 1, 0
		r := mustRun(t, atRate(p, 0, 20))
		test.cause.Count = r.Requests
		if !slices.Equal(r.Result.Failures, []load.Cause{test.cause}) || !strings.Contains(strings.Join(r.Warnings, "\n"), test.warning) {
			t.Errorf("%s: %+v, want %+v; %q", test.name, r.Result.Failures, test.cause, r.Warnings)
		}
	}
}

// TestLostOutsideTheWindow checks that requests of the warm-up that the server drops are in the report.
func TestLostOutsideTheWindow(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	p := profile(rawServer(t, answering(func(c net.Conn, _ int) bool {
		if n.Add(1) <= 3 {
			return false
		}
		_, _ = c.Write([]byte(helloResponse))
		return true
	})))
	p.Connections, p.Rate, p.Warmup, p.Tail, p.Measure = 1, 100, 200*time.Millisecond, 0, brief
	r := mustRun(t, p)
	if len(r.Lost) != 1 || r.Result.Success == nil {
		t.Errorf("lost %v, %+v, %+v", r.Lost, r.Result, r.Whole)
	} else if d := difftest.Of(`r.Lost["closed before an answer"]`, r.Lost["closed before an answer"], 3, "*r.Result.Success", *r.Result.Success, 1, "r.Whole.Unanswered", r.Whole.Unanswered, 3); d != "" {
		t.Errorf("%s: lost %v, %+v, %+v", d, r.Lost, r.Result, r.Whole)
	}

}

// TestBodyAfterHead checks that a body in the response to HEAD has one name, whenever it comes.
func TestBodyAfterHead(t *testing.T) {
	t.Parallel()
	const want = "body in the response to HEAD"
	ok := headBlock(":status", "200", "content-length", "2")
	p := profileH2(rawServer(t, frames(func(id uint32) [][]byte {
		return [][]byte{framed(frameHeaders, flagEndHeaders, id, ok), framed(frameData, flagEndStream, id, "hi")}
	})))
	p.Method, p.Warmup = http.MethodHead, 0
	if r := mustRun(t, atRate(p, 0, 20)); r.Errors[want] != 20 {
		t.Errorf("HTTP/2: %v, %v", r.Classes, r.Errors)
	}
	for _, body := range []string{strings.Repeat("x", 100<<10), "line\r\nline\r\n", "H"} {
		p := profile(rawServer(t, answering(func(c net.Conn, n int) bool {
			if n > 0 { // after the next request: the worst time
				_, _ = c.Write([]byte(body))
			}
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"))
			return true
		})))
		p.Method, p.Warmup, p.Connections = http.MethodHead, 0, 1
		r := mustRun(t, atRate(p, 0, 20))
		if r.Classes[load.OK] != 10 || len(r.Errors) != 1 || r.Errors[want] != 10 {
			t.Errorf("%.10q: %v, %v", body, r.Classes, r.Errors)
		}

	}
	// A slow load has the bytes while no request is under way.
	var later sync.WaitGroup
	t.Cleanup(later.Wait)
	p = profile(rawServer(t, answering(func(c net.Conn, _ int) bool {
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"))
		later.Go(func() {
			time.Sleep(time.Millisecond) // the pace of this server
			_, _ = c.Write([]byte("hello"))
		})
		return true
	})))
	p.Method, p.Rate, p.Connections, p.Warmup, p.Measure = http.MethodHead, 20, 1, 0, brief
	if r := mustRun(t, p); r.ExtraBytes == 0 && r.Errors[want] == 0 || r.ExtraBytes > 0 && !strings.Contains(strings.Join(r.Warnings, "\n"), "response to HEAD") {
		t.Errorf("%d connections with bytes after a response, %v, %q", r.ExtraBytes, r.Errors, r.Warnings)
	}
}

// TestUploadToAServerThatReturnsItsWindowLate checks that a small rest is sent in the end: this server returns its
// window only when there is less left than the engine sends at once.
func TestUploadToAServerThatReturnsItsWindowLate(t *testing.T) {
	t.Parallel()
	const window, kept = 65535, 9000
	ok := headBlock(":status", "200")
	p := profileH2(rawServer(t, func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
			return
		}
		_, _ = c.Write(framed(frameSettings, 0, 0, ""))
		header, owed := make([]byte, frameHeader), 0
		for {
			if _, err := io.ReadFull(c, header); err != nil {
				return
			}
			f, size := parseFrameHeader(header)
			if _, err := io.CopyN(io.Discard, c, int64(size)); err != nil {
				return
			}
			if f.kind != frameData {
				continue
			}
			if owed += size; owed > window-kept {
				_, _ = c.Write(append(framed(frameWindow, 0, 0, code(uint32(owed))), framed(frameWindow, 0, f.id, code(uint32(owed)))...))
				owed = 0
			}
			if header[4]&flagEndStream != 0 {
				_, _ = c.Write(framed(frameHeaders, flagEndHeaders|flagEndStream, f.id, ok))
			}
		}
	}))
	p.Method, p.RequestSize, p.Connections, p.Streams, p.Warmup = http.MethodPut, 300_000, 1, 1, 0
	if r := mustRun(t, atRate(p, 0, 4)); r.Classes[load.OK] != 4 || r.LateRests == 0 || !strings.Contains(strings.Join(r.Generator.Notes, "\n"), "waited 100 ms") {
		t.Errorf("%v, %v, %d late rests, %q", r.Classes, r.Errors, r.LateRests, r.Generator.Notes)
	}
}
