package engine

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/test/must"
)

// relay passes connections on to a server, and ends all of them on demand.
type relay struct {
	to string

	mu      sync.Mutex
	open    map[net.Conn]bool
	version int // changes with each end
	ended   int // connections
}

func (r *relay) handle(c net.Conn) {
	out, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer out.Close()
	r.mu.Lock()
	r.open[c] = true
	r.mu.Unlock()
	go func() { _, _ = io.Copy(out, c); _ = out.Close() }()
	_, _ = io.Copy(c, out)
	r.mu.Lock()
	delete(r.open, c)
	r.mu.Unlock()
}

func (r *relay) endAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	for c := range r.open {
		delete(r.open, c)
		r.ended++
		_ = c.Close()
	}
}

func (r *relay) shown() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strconv.Itoa(r.version)
}

// Connections that a server ends, and the requests under way on them, are in the answers of every protocol, with the version of each
// answer. On a WebSocket that is the version of its handshake.
func TestDroppedConnectionsAreInTheAnswers(t *testing.T) {
	t.Parallel()
	const connections, ends = 4, 3
	for _, protocol := range []string{load.ProtocolHTTP1, load.ProtocolHTTP2, load.ProtocolGRPC, load.ProtocolWebSocket} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			r := &relay{open: map[net.Conn]bool{}}
			answer := func(w http.ResponseWriter, q *http.Request) {
				if protocol != load.ProtocolWebSocket {
					w.Header().Set(load.VersionHeader, r.shown())
					time.Sleep(2 * time.Millisecond)
					return
				}
				c, err := (&websocket.Upgrader{}).Upgrade(w, q, http.Header{http.CanonicalHeaderKey(load.VersionHeader): {r.shown()}})
				if err != nil {
					return
				}
				defer c.Close()
				for {
					kind, message, err := c.ReadMessage()
					if err != nil || c.WriteMessage(kind, message) != nil {
						return
					}
				}
			}
			var protocols http.Protocols
			protocols.SetHTTP1(true)
			protocols.SetUnencryptedHTTP2(true)
			server := httptest.NewUnstartedServer(http.HandlerFunc(answer))
			server.Config.Protocols = &protocols
			server.Start()
			t.Cleanup(server.Close)
			r.to = server.Listener.Addr().String()
			if protocol == load.ProtocolGRPC {
				l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
				s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, call grpc.ServerStream) error {
					var m wrapperspb.BytesValue
					if err := call.RecvMsg(&m); err != nil {
						return err
					}
					if err := call.SetHeader(metadata.Pairs(load.VersionHeader, r.shown())); err != nil {
						return err
					}
					time.Sleep(2 * time.Millisecond)
					return call.SendMsg(&m)
				}))
				go func() { _ = s.Serve(l) }()
				t.Cleanup(s.Stop)
				r.to = l.Addr().String()
			}
			entry := must.Get(url.Parse(rawServer(t, r.handle)))(t)
			entry.Path = "/any.Service/Call"
			if protocol == load.ProtocolWebSocket {
				entry.Scheme = "ws"
			}
			p := profile(entry.String())
			p.Protocol, p.Connections, p.Warmup, p.Measure, p.Rate = protocol, connections, 200*time.Millisecond, 800*time.Millisecond, 400
			if protocol == load.ProtocolHTTP2 || protocol == load.ProtocolGRPC {
				p.Streams = 10
			}
			p.AnswersPath = filepath.Join(t.TempDir(), "answers.csv")
			go func() {
				for range ends {
					time.Sleep(250 * time.Millisecond)
					r.endAll()
				}
			}()
			report := mustRun(t, p)
			f := must.Get(os.Open(p.AnswersPath))(t)
			defer f.Close()
			events, versions := map[record.Event]int{}, map[string]int{}
			for _, a := range must.Get(record.ReadAnswers(f))(t) {
				events[a.Event]++
				if a.Conn < 0 || a.Conn >= connections {
					t.Errorf("an answer on connection %d of %d", a.Conn, connections)
				}
				if a.OK {
					versions[a.Version]++
				}
			}
			if events[record.Dropped] != r.ended || r.ended < ends*(connections-1) {
				t.Errorf("%d connections dropped, and %d were ended", events[record.Dropped], r.ended)
			}
			failed := 0
			for _, n := range report.Errors {
				failed += int(n)
			}
			if events[record.Cut] < failed || protocol != load.ProtocolWebSocket && failed == 0 {
				t.Errorf("%d requests cut, %d failed: %v", events[record.Cut], failed, report.Errors)
			}
			if len(versions) != ends+1 || versions[""] > 0 {
				t.Errorf("answers by version %v, want %d versions", versions, ends+1)
			}
		})
	}
}
