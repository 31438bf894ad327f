package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tare-mesh/tare/test/must"
)

const (
	echoMethod = "/test.v1.Echo/Echo"
	limit      = 4 << 20
)

// oddText needs every kind of escape in grpc-message.
const oddText = "100 % über\n\x7f zurück"

// echo returns the payload, or fails as the header x-do requests.
func echo(ctx context.Context, header http.Header, request []byte) (Message, error) {
	switch header.Get("X-Do") {
	case "fail":
		return nil, Errorf(PermissionDenied, "%s", oddText)
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	fields, err := Fields(request)
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	return Message{AppendSize(nil, 1, len(fields[0].Bytes)), fields[0].Bytes}, nil
}

func h2c() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}

// served returns the address of a server of this package.
func served(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &http.Server{Handler: NewServer(limit, Service{"test.v1.Echo", map[string]Handler{"Echo": echo}}), Protocols: h2c()}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// dialled returns a client of grpc-go.
func dialled(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn := must.Get(grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func value(size int) *wrapperspb.BytesValue {
	return &wrapperspb.BytesValue{Value: bytes.Repeat([]byte("x"), size)}
}

var sizes = []int{0, 1, 127, 4096, 70_000, 1 << 20}

func TestServerWithGRPCGo(t *testing.T) {
	conn := dialled(t, served(t))
	for _, size := range sizes {
		var header, trailer metadata.MD
		out := new(wrapperspb.BytesValue)
		if err := conn.Invoke(t.Context(), echoMethod, value(size), out, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil || len(out.Value) != size {
			t.Errorf("%d bytes: %d bytes, %v", size, len(out.Value), err)
		}
	}
	for name, c := range map[string]struct {
		header  string
		method  string
		in      proto.Message
		options []grpc.CallOption
		timeout time.Duration
		code    codes.Code
		text    string
	}{
		"error":           {header: "fail", method: echoMethod, in: value(1), code: codes.PermissionDenied, text: oddText},
		"deadline":        {header: "wait", method: echoMethod, in: value(1), timeout: 50 * time.Millisecond, code: codes.DeadlineExceeded},
		"unknown service": {method: "/test.v1.Other/Echo", in: value(1), code: codes.Unimplemented, text: "unknown service"},
		"unknown method":  {method: "/test.v1.Echo/Other", in: value(1), code: codes.Unimplemented, text: "unknown method"},
		"too large":       {method: echoMethod, in: value(limit), code: codes.ResourceExhausted, text: "larger"},
		"compressed":      {method: echoMethod, in: value(1), options: []grpc.CallOption{grpc.UseCompressor(gzip.Name)}, code: codes.Unimplemented, text: "gzip"},
	} {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if c.timeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, c.timeout)
		}
		err := conn.Invoke(metadata.AppendToOutgoingContext(ctx, "x-do", c.header), c.method, c.in, new(wrapperspb.BytesValue), c.options...)
		cancel()
		if s := status.Convert(err); s.Code() != c.code || !strings.Contains(s.Message(), strings.ToValidUTF8(c.text, "\uFFFD")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The server ends a call at the client's deadline, and when the client is gone.
func TestServerEndsCalls(t *testing.T) {
	ended := make(chan error)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	wait := func(ctx context.Context, _ http.Header, _ []byte) (Message, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}
	s := &http.Server{Handler: NewServer(limit, Service{"test.v1.Echo", map[string]Handler{"Echo": wait}}), Protocols: h2c()}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	over := &http.Transport{Protocols: h2c()}
	for _, timeout := range []string{"20m", "1H"} {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr().String()+echoMethod, Message{}.reader())
		r.Header = http.Header{"Content-Type": {contentType}, timeoutHeader: {timeout}}
		if timeout == "1H" {
			time.AfterFunc(20*time.Millisecond, cancel)
		}
		go func() {
			if resp, err := over.RoundTrip(r); err == nil {
				resp.Body.Close()
			}
		}()
		if err := <-ended; err == nil {
			t.Errorf("grpc-timeout %s: not ended", timeout)
		}
		cancel()
	}
}

func TestHealthWithGRPCGo(t *testing.T) {
	client := grpc_health_v1.NewHealthClient(dialled(t, served(t)))
	for _, name := range []string{"", "test.v1.Echo"} {
		if h, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil || h.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, h, err)
		}
	}
	if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	for name, want := range map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{
		"": grpc_health_v1.HealthCheckResponse_SERVING, "other": grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN} {
		ctx, cancel := context.WithCancel(t.Context())
		stream := must.Get(client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: name}))(t)
		if h, err := stream.Recv(); err != nil || h.Status != want {
			t.Errorf("watch %q: %v, %v", name, h, err)
		}
		cancel()
		if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("watch %q: %v", name, err)
		}
	}
}

// echoing is the same service of grpc-go.
type echoing interface{}

var echoDesc = grpc.ServiceDesc{ServiceName: "test.v1.Echo", HandlerType: (*echoing)(nil), Methods: []grpc.MethodDesc{{
	MethodName: "Echo",
	Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.BytesValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		md, _ := metadata.FromIncomingContext(ctx)
		switch slices.Concat(md["x-do"], []string{""})[0] {
		case "fail":
			return nil, status.Error(codes.PermissionDenied, oddText)
		case "wait":
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		return in, nil
	},
}}}

// A client of this package calls a server of grpc-go and of this package.
func TestClient(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := grpc.NewServer()
	s.RegisterService(&echoDesc, struct{}{})
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	for name, address := range map[string]string{"grpc-go": l.Addr().String(), "tare": served(t)} {
		t.Run(name, func(t *testing.T) {
			over := &http.Transport{Protocols: h2c()}
			defer over.CloseIdleConnections()
			for _, size := range sizes {
				b, err := Call(t.Context(), over, address, echoMethod, nil, Message{Append(nil, 1, value(size).Value)}, limit)
				var out wrapperspb.BytesValue
				if err == nil {
					err = proto.Unmarshal(b, &out)
				}
				if err != nil || len(out.Value) != size {
					t.Errorf("%d bytes: %d bytes, %v", size, len(out.Value), err)
				}
			}
			if err := Healthy(t.Context(), over, address); err != nil {
				t.Error(err)
			}
			call := func(ctx context.Context, do, method string, limit int64) error {
				_, err := Call(ctx, over, address, method, http.Header{"X-Do": {do}}, Message{Append(nil, 1, value(100).Value)}, limit)
				return err
			}
			var e *Error
			if err := call(t.Context(), "fail", echoMethod, limit); !errors.As(err, &e) || e.Code != PermissionDenied || e.Message != strings.ToValidUTF8(oddText, "\uFFFD") {
				t.Errorf("%v", err)
			}
			if err := call(t.Context(), "", "/no.Such/Method", limit); codeOf(err) != Unimplemented {
				t.Errorf("%v", err)
			}
			if err := call(t.Context(), "", echoMethod, 50); codeOf(err) != ResourceExhausted {
				t.Errorf("a response above the limit: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := call(ctx, "wait", echoMethod, limit); codeOf(err) != DeadlineExceeded {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := Call(t.Context(), &http.Transport{Protocols: h2c()}, "127.0.0.1:1", echoMethod, nil, nil, limit); codeOf(err) != Unavailable {
		t.Errorf("without a server: %v", err)
	}
}

// Answers other than gRPC are errors with the code of their status.
func TestClientOfOtherServers(t *testing.T) {
	for want, answer := range map[Code]http.HandlerFunc{
		Unavailable:     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		Unauthenticated: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
		Unknown:         func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		Internal: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write([]byte{0, 0, 0, 0, 9, 1})
		},
		DataLoss: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set(statusHeader, "15")
		},
	} {
		s := httptest.NewUnstartedServer(answer)
		s.Config.Protocols = h2c()
		s.Start()
		if _, err := Call(t.Context(), &http.Transport{Protocols: h2c()}, s.Listener.Addr().String(), echoMethod, nil, nil, limit); codeOf(err) != want {
			t.Errorf("%v: %v", want, err)
		}
		s.Close()
	}
}

func TestTimeouts(t *testing.T) {
	for text, want := range map[string]time.Duration{"100m": 100 * time.Millisecond, "1H": time.Hour, "99999999H": 1<<63 - 1, "5n": 5} {
		if got, err := parseTimeout(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "m", "5", "5x", "-5m", "123456789m", "+5m"} {
		if got, err := parseTimeout(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, d := range []time.Duration{0, 1, time.Second, time.Hour, 1000 * time.Hour, 1<<63 - 1} {
		if got, err := parseTimeout(formatTimeout(d)); err != nil || got < d {
			t.Errorf("%v: %s", d, formatTimeout(d))
		}
	}
}

// Any bytes are decoded as by protobuf, or refused.
func FuzzFields(f *testing.F) {
	for _, m := range []proto.Message{value(3), &grpc_health_v1.HealthCheckResponse{Status: 1}, &descriptorpb.FieldDescriptorProto{Name: proto.String("x"), Number: proto.Int32(-1)}} {
		b := must.Get(proto.Marshal(m))(f)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fields, err := Fields(b)
		if err != nil {
			return
		}
		if known := proto.Unmarshal(b, new(wrapperspb.BytesValue)); known != nil {
			t.Errorf("protobuf refuses %x: %v", b, known)
		}
		var again []byte
		for _, f := range fields {
			if f.Bytes != nil {
				again = Append(again, f.Number, f.Bytes)
			} else {
				again = AppendInt(again, f.Number, f.Int)
			}
		}
		if _, err := Fields(again); err != nil {
			t.Error(err)
		}
	})
}

// A server may reset a call at its deadline before the context of the client has ended.
func TestResetAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration]Code{deadlineSlack / 2: DeadlineExceeded, time.Second: Unavailable} {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			if got := codeOf(failed(ctx, errors.New("CANCEL; received from peer"))); got != want {
				t.Errorf("%v before the deadline: code %v, want %v", left, got, want)
			}
		}
	})
}
