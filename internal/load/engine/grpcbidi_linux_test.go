package engine

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// streamsServer counts what arrives at its streams in both directions.
type streamsServer struct {
	calls, messages, ahead atomic.Int64 // ahead: messages that came before the last was answered
	mu                     sync.Mutex
	wrong                  []string
}

// check notes a message out of order.
func (s *streamsServer) check(i int, m *wrapperspb.StringValue) {
	if want := fmt.Sprint("message ", i); m.Value != want {
		s.mu.Lock()
		s.wrong = append(s.wrong, fmt.Sprintf("%q, want %q", m.Value, want))
		s.mu.Unlock()
	}
	s.messages.Add(1)
}

// collect answers a stream of messages by one, with their number.
func (s *streamsServer) collect(_ any, stream grpc.ServerStream) error {
	s.calls.Add(1)
	for i := 0; ; i++ {
		var m wrapperspb.StringValue
		switch err := stream.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			return stream.SendMsg(wrapperspb.String(fmt.Sprint(i)))
		case err != nil:
			return err
		}
		s.check(i, &m)
	}
}

// chat answers each message after a pause, in which no other may come.
func (s *streamsServer) chat(pause time.Duration, most int) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		s.calls.Add(1)
		came := make(chan error)
		var m wrapperspb.StringValue
		receive := func() { came <- stream.RecvMsg(&m) }
		go receive()
		for i := 0; i < most; i++ {
			if err := <-came; errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			s.check(i, &m)
			go receive()
			select {
			case err := <-came:
				if err == nil {
					s.ahead.Add(1)
				}
				go func() { came <- err }()
			case <-time.After(pause):
			}
			if err := stream.SendMsg(wrapperspb.String("answer")); err != nil {
				return err
			}
		}
		go func() { <-came }()
		return nil
	}
}

// startStreams starts grpc-go with the streams of s.
func startStreams(t *testing.T, s *streamsServer, options ...grpc.ServerOption) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Streams", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "Collect", ClientStreams: true, Handler: s.collect},
			{StreamName: "Chat", ClientStreams: true, ServerStreams: true, Handler: s.chat(2*time.Millisecond, 1000)},
			{StreamName: "Short", ClientStreams: true, ServerStreams: true, Handler: s.chat(0, 2)},
		},
	}, struct{}{})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return "http://" + l.Addr().String() + "/test.Streams/"
}

// numbered are encoded messages with their numbers.
func numbered(t *testing.T, n int) (all [][]byte) {
	t.Helper()
	for i := range n {
		b := must.Get(proto.Marshal(wrapperspb.String(fmt.Sprint("message ", i))))(t)
		all = append(all, b)
	}
	return all
}

// Messages arrive whole and in order, and with round trips each after the answer to the last.
func TestGRPCRequestStreams(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method                  string
		server, trips           bool // response stream, round trips
		messages                int
		sent, answered, tripped int64 // a call
	}{
		{"Collect", false, false, 5, 5, 1, 0},
		{"Collect", false, false, 1, 1, 1, 0},
		{"Chat", true, false, 4, 4, 4, 0},
		{"Chat", true, true, 4, 4, 4, 4},
		{"Chat", true, true, 1, 1, 1, 1},
		{"Short", true, true, 4, 2, 2, 2}, // the server ends the call first
	} {
		s := &streamsServer{}
		p := profileH2(startStreams(t, s) + test.method)
		p.Protocol, p.GRPCStream, p.RoundTrips, p.Messages = load.ProtocolGRPC, test.server, test.trips, numbered(t, test.messages)
		p.Rate, p.Warmup, p.Requests, p.Measure = 100, 0, 20, 20*time.Second
		r := mustRun(t, p)
		if d := difftest.Of("r.Requests", r.Requests, 20, `r.Statuses["grpc-0"]`, r.Statuses["grpc-0"], 20, "r.Messages", r.Messages, 20*test.answered, "r.Reconnects", r.Reconnects, 0); d != "" {
			t.Errorf("%s: %+v: %+v", d, test, r)
		}
		if early := test.method == "Short"; s.calls.Load() != 20 || !early && s.messages.Load() != 20*test.sent || len(s.wrong) > 0 {
			t.Errorf("%+v: the server has %d calls, %d messages, %q", test, s.calls.Load(), s.messages.Load(), s.wrong)
		}
		if test.trips == (s.ahead.Load() > 0) && test.messages > 1 && test.method == "Chat" {
			t.Errorf("%+v: %d messages came before the answer to the last", test, s.ahead.Load())
		}
		if r.RoundTripMS.Count != 20*test.tripped {
			t.Errorf("%+v: %d round trips", test, r.RoundTripMS.Count)
		}
		// The pause of the server is in each round trip but the last, after which nothing more comes, and
		// all of them in the response.
		if test.tripped == 4 && (r.RoundTripMS.P50 < 1.9 || r.ResponseMS.Min < 3*1.9) {
			t.Errorf("round trip %v ms, response %v ms", r.RoundTripMS.P50, r.ResponseMS.Min)
		}
	}
}

// A server that ends its connections by age (GOAWAY) answers every call of a stream.
func TestGRPCStreamsOverAgedConnections(t *testing.T) {
	t.Parallel()
	s := &streamsServer{}
	p := profileH2(startStreams(t, s, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 100 * time.Millisecond, MaxConnectionAgeGrace: 10 * time.Second})) + "Chat")
	p.Protocol, p.GRPCStream, p.RoundTrips, p.Messages = load.ProtocolGRPC, true, true, numbered(t, 3)
	p.Rate, p.Warmup, p.Measure = 200, 0, time.Second
	r := mustRun(t, p)
	if r.Requests != 200 || r.Classes[load.OK] != 200 || s.calls.Load() != 200 {
		t.Errorf("%d calls at the server, %q: %+v", s.calls.Load(), s.wrong, r)
	} else if d := difftest.Wrong("r.Reconnects == 0", r.Reconnects == 0, "len(s.wrong) > 0", len(s.wrong) > 0); d != "" {
		t.Errorf("%s: %d calls at the server, %q: %+v", d, s.calls.Load(), s.wrong, r)
	}
}

// A body larger than the windows, in many messages, arrives whole.
func TestGRPCLargeRequestStream(t *testing.T) {
	t.Parallel()
	s := &streamsServer{}
	p := profileH2(startStreams(t, s) + "Collect")
	p.Protocol, p.Messages = load.ProtocolGRPC, numbered(t, 20_000)
	p.Rate, p.Warmup, p.Requests, p.Measure = 100, 0, 5, 20*time.Second
	if r := mustRun(t, p); r.Classes[load.OK] != 5 || s.messages.Load() != 5*20_000 || len(s.wrong) > 0 {
		t.Errorf("%d messages, %.200q: %+v", s.messages.Load(), s.wrong, r)
	}
}
