package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func profileH2(urls ...string) load.Profile {
	p := profile(urls...)
	p.Protocol, p.Connections, p.Streams, p.Warmup, p.Tail = load.ProtocolHTTP2, 2, 4, 50*time.Millisecond, 0
	p.Timeout, p.Drain = 20*time.Second, 20*time.Second // a busy machine is not a failure
	return p
}

func TestHTTP2AgainstNetHTTP(t *testing.T) {
	t.Parallel()
	const sent, answered = 300_000, 200_000 // more than any first window
	var wrong atomic.Value
	url := h2Server(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if r.ProtoMajor != 2 || n != sent || err != nil || r.Method != http.MethodPut || r.Header.Get("X-A") != "b" || r.Host != "other" || r.URL.RawQuery != "q=1" || r.Header.Get("User-Agent") != "me" {
			wrong.Store(fmt.Sprint(r, n, err))
		}
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-T")
		_, _ = w.Write(bytes.Repeat([]byte("y"), answered))
		w.(http.Flusher).Flush()
		w.Header().Set("X-T", "1")
	})
	p := profileH2(url + "/p?q=1")
	p.Method, p.RequestSize, p.ExpectSize, p.Headers, p.BodyHas = http.MethodPut, sent, answered, []string{"X-A: b", "Host: other", "User-Agent: me"}, []string{"yyy"}
	for _, rate := range []float64{100, 0} {
		r := mustRun(t, atRate(p, rate, 50))
		if d := difftest.Of("r.Requests", r.Requests, 50, "r.Classes[load.OK]", r.Classes[load.OK], r.Requests, `r.Statuses["200"]`, r.Statuses["200"], r.Requests, "r.Connected", r.Connected, 2, "r.Reconnects", r.Reconnects, 0); d != "" {
			t.Errorf("%s: %+v", d, r)
		}
	}
	if w := wrong.Load(); w != nil {
		t.Error(w)
	}
}

// TestHTTP2UsesEveryStream checks that the load uses all streams of all connections,
// up to the server's limit if that is lower.
func TestHTTP2UsesEveryStream(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ server, want int64 }{{250, 8}, {3, 6}} {
		var now, most atomic.Int64
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(5 * time.Millisecond) // the work of this handler
			now.Add(-1)
		}))
		s.Config.Protocols, s.Config.HTTP2 = new(http.Protocols), &http.HTTP2Config{MaxConcurrentStreams: int(test.server)}
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		p := profileH2(s.URL)
		r := mustRun(t, atRate(p, 0, 200))
		s.Close()
		// A handler may return a little after its answer was complete.
		if r.Classes[load.OK] != r.Requests || most.Load() < test.want || most.Load() > test.want+2 {
			t.Errorf("server takes %d: %d at once, want %d: %+v", test.server, most.Load(), test.want, r)
		}
	}
}

func TestHTTP2StatusesAndTimeouts(t *testing.T) {
	t.Parallel()
	url := h2Server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/hang":
			<-r.Context().Done()
		}
	})
	for _, test := range []struct {
		path  string
		class load.Class
		kind  string
	}{{"/404", load.Status, ""}, {"/abort", load.Conn, "stream reset"}, {"/hang", load.Timeout, "timeout"}} {
		p := profileH2(url + test.path)
		p.Rate, p.Measure, p.Warmup, p.Tail = 50, 300*time.Millisecond, 0, 0
		if test.class == load.Timeout {
			p.Timeout = time.Second // for connecting, too, on a busy machine
		}
		r := mustRun(t, p)
		if test.kind != "" && r.Errors[test.kind] != 15 {
			t.Errorf("%s: %+v", test.path, r)
		} else if d := difftest.Of("r.Classes[test.class]", r.Classes[test.class], 15, "r.Requests", r.Requests, 15, "r.Reconnects", r.Reconnects, 0); d != "" {
			t.Errorf("%s: %s: %+v", d, test.path, r)
		}
	}
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	for _, test := range []struct {
		name, method string
		size         int64
		class        load.Class
		status       string
		text         string // of the failures
	}{
		{"ok", "/grpc.health.v1.Health/Check", 0, load.OK, "grpc-0", ""},
		{"no such service is watched", "/grpc.health.v1.Health/Check", 200, load.Status, "grpc-5", "unknown service"},
		{"no such method", "/grpc.health.v1.Health/Nothing", 0, load.Status, "grpc-12", "unknown method Nothing for service grpc.health.v1.Health"},
	} {
		p := profileH2("http://" + l.Addr().String() + test.method)
		p.Protocol, p.RequestSize = load.ProtocolGRPC, test.size
		for _, rate := range []float64{500, 0} {
			p.Rate, p.Measure = rate, 200*time.Millisecond
			if rate == 0 {
				p.Requests, p.Measure = 100, time.Minute
			}
			r := mustRun(t, p)
			if r.Requests == 0 || rate > 0 && r.Requests != 100 {
				t.Errorf("%s: %+v", test.name, r)
			} else if d := difftest.Of("r.Classes[test.class]", r.Classes[test.class], r.Requests, "r.Statuses[test.status]", r.Statuses[test.status], r.Requests); d != "" {
				t.Errorf("%s: %s: %+v", d, test.name, r)
			}
			if f := r.Result.Failures; test.text == "" && len(f) > 0 || test.text != "" && (len(f) != 1 || f[0].Detail != test.text) {
				t.Errorf("%s: failures %+v, want the text %q", test.name, f, test.text)
			}
		}
	}
}

// http2Server is a raw HTTP/2 server. It sends its preface and calls answer for each request header.
func http2Server(answer func(c net.Conn, id uint32)) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
			return
		}
		_, _ = c.Write(appendFrame(nil, frameSettings, 0, 0, 0))
		header := make([]byte, frameHeader)
		for {
			if _, err := io.ReadFull(c, header); err != nil {
				return
			}
			f, size := parseFrameHeader(header)
			if _, err := io.CopyN(io.Discard, c, int64(size)); err != nil {
				return
			}
			if f.kind == frameHeaders {
				answer(c, f.id)
			}
		}
	}
}

func framed(kind, flags byte, id uint32, payload string) []byte {
	return append(appendFrame(nil, kind, flags, id, len(payload)), payload...)
}

func headBlock(fields ...string) string {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.String()
}

func frames(parts func(id uint32) [][]byte) func(net.Conn) {
	return http2Server(func(c net.Conn, id uint32) { _, _ = c.Write(bytes.Join(parts(id), nil)) })
}

func TestHTTP2Failures(t *testing.T) {
	t.Parallel()
	ok := headBlock(":status", "200")
	const end, last = flagEndHeaders | flagEndStream, flagEndStream
	code := func(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }
	tests := []struct {
		name   string
		server func(net.Conn)
		class  load.Class
		kind   string
	}{
		{"headers alone", frames(func(id uint32) [][]byte { return [][]byte{framed(frameHeaders, end, id, ok)} }), load.OK, ""},
		{"continued, padded, with priority, pings and unknown frames", frames(func(id uint32) [][]byte {
			return [][]byte{
				framed(framePing, 0, 0, "12345678"), framed(77, 0xff, id, "what"), framed(framePriority, 0, id, "12345"),
				framed(frameHeaders, flagPadded|flagPriority, id, "\x03"+"\x00\x00\x00\x00\x10"+ok[:1]+"pad"),
				framed(frameContinuation, 0, id, ""), framed(frameContinuation, flagEndHeaders, id, ok[1:]),
				framed(frameData, flagPadded, id, "\x02hi  "), framed(frameData, 0, id, ""),
				framed(frameHeaders, end, id, headBlock("x-trailer", "1")),
			}
		}), load.OK, ""},
		{"a byte at a time", http2Server(func(c net.Conn, id uint32) {
			for _, b := range bytes.Join([][]byte{framed(frameHeaders, flagEndHeaders, id, ok), framed(frameData, last, id, "hi")}, nil) {
				_, _ = c.Write([]byte{b})
			}
		}), load.OK, ""},
		{"HTTP/1.1", replying("HTTP/1.1 400 Bad Request\r\n\r\n"), load.Conn, "http2 protocol error"},
		{"refused", nil, load.Conn, "connect refused"},
		{"reset stream", frames(func(id uint32) [][]byte { return [][]byte{framed(frameReset, 0, id, code(2))} }), load.Conn, "stream reset"},
		{"refused stream", frames(func(id uint32) [][]byte { return [][]byte{framed(frameReset, 0, id, code(codeRefused))} }), load.Conn, "stream refused"},
		{"reset after the answer", frames(func(id uint32) [][]byte {
			return [][]byte{framed(frameHeaders, end, id, ok), framed(frameReset, 0, id, code(0))}
		}), load.OK, ""},
		// Connections that never serve open again within a budget, so some requests run out of time before their last attempt.
		{"goaway", http2Server(func(c net.Conn, id uint32) { _, _ = c.Write(framed(frameGoAway, 0, 0, code(0)+code(0))) }), "", "goaway|timeout"},
		{"goaway after the answer", frames(func(id uint32) [][]byte {
			return [][]byte{framed(frameGoAway, 0, 0, code(id)+code(0)), framed(frameHeaders, end, id, ok)}
		}), "", "goaway"},
		{"closes", http2Server(func(c net.Conn, _ uint32) { c.Close() }), load.Conn, "closed before an answer|reset"},
		{"half an answer", http2Server(func(c net.Conn, id uint32) {
			_, _ = c.Write(framed(frameHeaders, flagEndHeaders, id, ok))
			_ = c.(*net.TCPConn).CloseWrite()
		}), load.Conn, "half a response|closed before an answer"},
		{"never answers", http2Server(func(net.Conn, uint32) {}), load.Timeout, "timeout|timeout before a connection was free"},
		{"never greets", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, load.Timeout, "timeout|timeout before a connection was free"},
		{"no status", frames(func(id uint32) [][]byte { return [][]byte{framed(frameHeaders, end, id, headBlock("a", "b"))} }), load.Conn, "malformed response"},
		{"data first", frames(func(id uint32) [][]byte { return [][]byte{framed(frameData, last, id, "hi")} }), load.Conn, "malformed response"},
		{"wrong content-length", frames(func(id uint32) [][]byte {
			return [][]byte{framed(frameHeaders, flagEndHeaders, id, headBlock(":status", "200", "content-length", "3")), framed(frameData, last, id, "hi")}
		}), load.Conn, "malformed response"},
		{"bad compression", frames(func(id uint32) [][]byte { return [][]byte{framed(frameHeaders, end, id, "\xff\xff\xff")} }), load.Conn, "http2 protocol error"},
		{"a stream nobody opened", frames(func(id uint32) [][]byte { return [][]byte{framed(frameHeaders, end, id+100, ok)} }), load.Conn, "http2 protocol error"},
		{"push", frames(func(id uint32) [][]byte { return [][]byte{framed(framePush, flagEndHeaders, id, code(2)+ok)} }), load.Conn, "http2 protocol error"},
		{"endless header", frames(func(id uint32) [][]byte {
			parts := [][]byte{framed(frameHeaders, 0, id, ok)}
			for range 10 {
				parts = append(parts, framed(frameContinuation, 0, id, strings.Repeat("\x00\x01a\x01b", 3000)))
			}
			return parts
		}), load.Conn, "header too large|reset"},
		{"frame too large", frames(func(id uint32) [][]byte { return [][]byte{appendFrame(nil, frameData, 0, id, maxFrame+1)} }), load.Conn, "http2 protocol error"},
	}
	for _, test := range tests {
		for _, loop := range []struct {
			rate        float64
			connections int
		}{{100, 2}, {0, 2}, {100, 1}} {
			rate := loop.rate
			t.Run(fmt.Sprint(test.name, "/", rate, "/", loop.connections), func(t *testing.T) {
				t.Parallel()
				url := refusedTarget(t)
				if test.server != nil {
					url = rawServer(t, test.server)
				}
				p := profileH2(url)
				p.Warmup, p.Tail, p.Measure, p.Drain, p.Rate, p.Connections = 0, 0, brief, 20*time.Second, rate, loop.connections
				if test.class == load.Timeout || test.name == "goaway" {
					p.Timeout = 100 * time.Millisecond
				}
				if rate == 0 {
					p.Requests, p.Measure = 20, time.Minute
				}
				r := mustRun(t, p)
				if r.Requests == 0 || test.class != "" && r.Classes[test.class] != r.Requests {
					t.Errorf("not all %q: %v of %d, errors %v", test.class, r.Classes, r.Requests, r.Errors)
				}
				if test.server == nil && r.Sent+r.Whole.Sent != 0 {
					t.Errorf("%d requests sent, %d in all, to no server", r.Sent, r.Whole.Sent)
				}
				if test.name == "goaway" && r.Classes[load.OK] != 0 {
					t.Errorf("a server that answers nothing has %d successes", r.Classes[load.OK])
				}
				for kind, n := range r.Errors {
					if !strings.Contains("|"+test.kind+"|", "|"+kind+"|") {
						t.Errorf("%d errors of kind %q, want %q", n, kind, test.kind)
					}
				}
			})
		}
	}
}

// TestHTTP2SmallServer checks that the engine respects a server's limits of no header table and one stream.
func TestHTTP2SmallServer(t *testing.T) {
	t.Parallel()
	ok := headBlock(":status", "200")
	plain := make(chan bool, 1)
	url := rawServer(t, func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
			return
		}
		setting := func(id uint16, v uint32) string {
			return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), v))
		}
		_, _ = c.Write(framed(frameSettings, 0, 0, setting(settingTableSize, 0)+setting(settingMaxStreams, 1)))
		d := hpack.NewDecoder(0, nil)
		d.SetAllowedMaxDynamicTableSize(0)
		header := make([]byte, frameHeader)
		for {
			if _, err := io.ReadFull(c, header); err != nil {
				return
			}
			f, size := parseFrameHeader(header)
			payload := make([]byte, size)
			if _, err := io.ReadFull(c, payload); err != nil {
				return
			}
			if f.kind != frameHeaders {
				continue
			}
			fields, err := d.DecodeFull(payload)
			select {
			case plain <- err == nil && fields[0].Value == "GET":
			default:
			}
			_, _ = c.Write(framed(frameHeaders, flagEndHeaders|flagEndStream, f.id, ok))
		}
	})
	r := mustRun(t, profileH2(url))
	if r.Classes[load.OK] != 250 || !<-plain {
		t.Errorf("%+v", r)
	}
}

func TestHTTP2ValidatesWhatItCannotDo(t *testing.T) {
	for want, change := range map[string]func(*load.Profile){
		"header Connection":              func(p *load.Profile) { p.Headers = []string{"Connection: close"} },
		"a connection for every request": func(p *load.Profile) { p.NoKeepAlive = true },
		"-1 streams":                     func(p *load.Profile) { p.Streams = -1 },
		"/package.Service/Method":        func(p *load.Profile) { p.Protocol = load.ProtocolGRPC },
	} {
		p := profileH2("http://127.0.0.1/")
		change(&p)
		must.Fail(t, p.Validate(), want)
	}
}
