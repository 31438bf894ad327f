package service

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protodesc"
)

// maxAdderBody is the max request size in bytes: a payload of 64 MiB in base64.
const maxAdderBody = 96 << 20

// Sidecar serves the function of the study over REST and gRPC.
type Sidecar struct{ requests atomic.Int64 }

// Add implements the gRPC method.
func (s *Sidecar) Add(ctx context.Context, in *AddRequest) (*AddReply, error) {
	s.requests.Add(1)
	out, err := add(ctx, addends{in.GetA(), in.GetB(), in.GetPayload()})
	return &AddReply{Sum: out.Result, Checksum: out.Checksum}, err
}

// ServeHTTP serves POST /adder, GET /healthz and GET /stats.
func (s *Sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case HealthPath, "/readyz":
		w.WriteHeader(http.StatusNoContent)
		return
	case StatsPath:
		answerJSON(w, http.StatusOK, Stats{Requests: s.requests.Load()})
		return
	}
	s.requests.Add(1)
	var in addends
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdderBody))
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
	answerJSON(w, http.StatusOK, out)
}

// Serve serves REST and gRPC on their listeners until ctx ends or one of them
// fails.
func (s *Sidecar) Serve(ctx context.Context, rest, rpc []net.Listener) error {
	serving, ctx := errgroup.WithContext(ctx)
	for _, l := range rest {
		serving.Go(func() error { return ServeHTTP(ctx, l, &http.Server{Handler: s}) })
	}
	for _, l := range rpc {
		server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
		server.RegisterService(&adderDesc, s)
		if err := register(server, protodesc.ToFileDescriptorProto(File_internal_service_adder_proto)); err != nil {
			return err
		}
		serving.Go(func() error { return runGRPC(ctx, l, server) })
	}
	return serving.Wait()
}
