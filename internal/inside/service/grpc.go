package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// maxMessage is the max size of a gRPC message in bytes: the largest body and
// its header.
const maxMessage = MaxResponseSize + 16

func newGRPCServer(s *Service) *rpc.Server {
	service, method := path.Split(app.GRPCMethod)
	return rpc.NewServer(maxMessage, rpc.Service{Name: strings.Trim(service, "/"), Handlers: map[string]rpc.Handler{method: s.serveCall}})
}

// versioned adds the version of the configuration to the headers of answers.
func versioned(s *Service, to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := s.now.Load(); n.version != nil {
			w.Header()[versionHeader] = n.version
		}
		to.ServeHTTP(w, r)
	})
}

// ServeGRPC is [Serve] for gRPC services.
func ServeGRPC(ctx context.Context, l net.Listener, s http.Handler) error {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return httpserver.Serve(ctx, l, &http.Server{Handler: s, Protocols: &protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams}})
}

// serveCall implements the gRPC method.
func (s *Service) serveCall(ctx context.Context, header http.Header, request []byte) (rpc.Message, error) {
	if _, err := rpc.Fields(request); err != nil {
		return nil, err
	}
	s.count.requests.Add(1)
	n := s.now.Load()
	start := time.Now()
	answer, code, err := s.callGRPC(ctx, header, n)
	if err != nil {
		s.count.failed.Add(1)
	}
	s.metrics.observe(n, code, time.Since(start))
	return answer, err
}

func (s *Service) callGRPC(ctx context.Context, header http.Header, n *snapshot) (rpc.Message, int, error) {
	result := outcome{status: n.status}
	if n.work {
		var in incoming
		if len(n.steps) > 0 {
			in.alone, in.trace = isAlone(canonicalAlone, header), traceOf(canonicalTrace, header)
		}
		result = s.do(ctx, n, in)
	}
	if result.status/100 != 2 {
		err := result.err
		if err == nil {
			err = errors.New(http.StatusText(result.status))
		}
		return nil, result.status, rpc.Errorf(codeOf(result.status), "%v", err)
	}
	size := n.size
	if size < 0 {
		size = n.instance.ResponseSize.Draw()
	}
	return payload(size), result.status, nil
}

// payload is a message of size equal bytes.
func payload(size int64) rpc.Message {
	if size == 0 { // proto3 omits it
		return nil
	}
	return rpc.Message{rpc.AppendSize(nil, app.GRPCPayload, int(size)), filled(size)}
}

// grpcCodes maps an HTTP status to the gRPC code of the same meaning
// (google.rpc.Code).
var grpcCodes = map[int]rpc.Code{
	http.StatusBadRequest: rpc.InvalidArgument, http.StatusUnauthorized: rpc.Unauthenticated,
	http.StatusForbidden: rpc.PermissionDenied, http.StatusNotFound: rpc.NotFound,
	http.StatusConflict: rpc.Aborted, http.StatusPreconditionFailed: rpc.FailedPrecondition,
	http.StatusTooManyRequests: rpc.ResourceExhausted, statusGone: rpc.Canceled,
	http.StatusInternalServerError: rpc.Internal, http.StatusNotImplemented: rpc.Unimplemented,
	http.StatusBadGateway: rpc.Unavailable, http.StatusServiceUnavailable: rpc.Unavailable,
	http.StatusGatewayTimeout: rpc.DeadlineExceeded,
}

func codeOf(status int) rpc.Code {
	if c, ok := grpcCodes[status]; ok {
		return c
	}
	return rpc.Unknown
}
