package engine

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const (
	streamMessages = 5
	streamPayload  = 20_000 // bytes: a message is in several frames
	streamPause    = 20 * time.Millisecond
)

// streamsService has one server-streaming method for each way to answer.
func streamsService() *grpc.Server {
	answer := func(payload int, before func(i int), end error) grpc.StreamHandler {
		return func(_ any, s grpc.ServerStream) error {
			var request wrapperspb.BytesValue
			if err := s.RecvMsg(&request); err != nil {
				return err
			}
			if payload < 0 {
				return end
			}
			for i := range streamMessages {
				before(i)
				if err := s.SendMsg(&wrapperspb.BytesValue{Value: make([]byte, payload)}); err != nil {
					return err
				}
			}
			return end
		}
	}
	atOnce := func(int) {}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Streams", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "Give", ServerStreams: true, Handler: answer(streamPayload, atOnce, nil)},
			{StreamName: "Empty", ServerStreams: true, Handler: answer(0, atOnce, nil)},
			{StreamName: "None", ServerStreams: true, Handler: answer(-1, atOnce, nil)},
			{StreamName: "Slow", ServerStreams: true, Handler: answer(100, func(i int) {
				if i > 0 {
					time.Sleep(streamPause / (streamMessages - 1)) // the work of this handler
				}
			}, nil)},
			{StreamName: "Fail", ServerStreams: true, Handler: answer(100, atOnce, status.Error(codes.DataLoss, "lost"))},
		},
	}, struct{}{})
	return s
}

func TestGRPCStreaming(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := streamsService()
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	// The same service behind net/http's cleartext HTTP/2.
	h := httptest.NewUnstartedServer(streamsService())
	h.Config.Protocols = new(http.Protocols)
	h.Config.Protocols.SetUnencryptedHTTP2(true)
	h.Start()
	t.Cleanup(h.Close)
	for _, server := range []string{"http://" + l.Addr().String(), h.URL} {
		for _, test := range []struct {
			method   string
			many     bool
			size     int64
			class    load.Class
			outcome  string // status or error
			messages int64
		}{
			{"Give", true, streamPayload, load.OK, "grpc-0", streamMessages},
			{"Give", true, streamPayload - 1, load.Status, "wrong size", streamMessages},
			{"Give", false, -1, load.Conn, "malformed response", streamMessages},
			{"Empty", true, 0, load.OK, "grpc-0", streamMessages},
			{"None", true, -1, load.OK, "grpc-0", 0},
			{"None", false, -1, load.Conn, "malformed response", 0},
			{"Slow", true, -1, load.OK, "grpc-0", streamMessages},
			{"Fail", true, -1, load.Status, "grpc-15", streamMessages},
			{"Nothing", true, -1, load.Status, "grpc-12", 0},
		} {
			p := profileH2(server + "/test.Streams/" + test.method)
			p.Protocol, p.GRPCStream, p.ExpectSize, p.Rate, p.Warmup = load.ProtocolGRPC, test.many, test.size, 100, 0
			p.Requests, p.Measure = 20, 20*time.Second
			r := mustRun(t, p)
			counted := r.Statuses[test.outcome] + r.Errors[test.outcome]
			if d := difftest.Of("r.Requests", r.Requests, 20, "r.Classes[test.class]", r.Classes[test.class], 20, "counted", counted, 20, "r.Messages", r.Messages, 20*test.messages); d != "" {
				t.Errorf("%s: %s %+v: %+v", d, server, test, r)
			}
			if want := test.class == load.OK && test.messages > 0; want != (r.FirstMessageMS.Count == 20) {
				t.Errorf("%+v: %d first messages", test, r.FirstMessageMS.Count)
			}
			// The response time lasts until the status, the first message comes before.
			if rest := r.ServiceMS.P50 - r.FirstMessageMS.P50; test.method == "Slow" && (rest < 0.8*streamPause.Seconds()*1e3 || r.FirstMessageMS.P50 > r.ServiceMS.P50) {
				t.Errorf("first message after %v ms, status after %v ms", r.FirstMessageMS.P50, r.ServiceMS.P50)
			}
			if gap, want := r.MessageGapMS, 20*max(0, test.messages-1); gap.Count != want || test.method == "Slow" && gap.Mean < streamPause.Seconds()*1e3/(streamMessages-1) {
				t.Errorf("%+v: %d gaps of %v ms, want %d", test, gap.Count, gap.Mean, want)
			}
		}
	}
}
