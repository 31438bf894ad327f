package adder

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/inside/service"
)

// Sidecar serves the function of the study over REST and gRPC.
type Sidecar struct{ requests atomic.Int64 }

// ServeHTTP serves POST /adder, GET /healthz and GET /stats.
func (s *Sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case service.HealthPath, service.ReadyPath:
		w.WriteHeader(http.StatusNoContent)
		return
	case service.StatsPath:
		writeJSON(w, service.Stats{Requests: s.requests.Load()})
		return
	}
	s.requests.Add(1)
	var in addends
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	out, err := add(r.Context(), in)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	writeJSON(w, out)
}

// Serve serves REST and gRPC on their listeners until ctx ends or one of them fails.
func (s *Sidecar) Serve(ctx context.Context, rest, grpc []net.Listener) error {
	serving, ctx := errgroup.WithContext(ctx)
	for _, l := range rest {
		serving.Go(func() error { return httpserver.Serve(ctx, l, &http.Server{Handler: s}) })
	}
	for _, l := range grpc {
		server := rpc.NewServer(maxBody+maxAnswer, rpc.Service{File: grpcFile, Handlers: map[string]rpc.Handler{"Add": s.serveAdd}})
		serving.Go(func() error { return service.ServeGRPC(ctx, l, server) })
	}
	return serving.Wait()
}

// serveAdd implements the gRPC method.
func (s *Sidecar) serveAdd(ctx context.Context, _ http.Header, request []byte) (rpc.Message, error) {
	s.requests.Add(1)
	in, err := decodeAddends(request)
	if err != nil {
		return nil, err
	}
	out, err := add(ctx, in)
	return out.encode(), err
}
