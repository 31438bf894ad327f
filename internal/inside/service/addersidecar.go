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

// maxAdderBody bounds what the function is sent, bytes: a payload of 64 MiB in base64.
const maxAdderBody = 96 << 20

// Sidecar has the function of the study, by REST and by gRPC.
type Sidecar struct{ requests atomic.Int64 }

// Add answers by gRPC.
func (s *Sidecar) Add(ctx context.Context, in *AddRequest) (*AddReply, error) {
	s.requests.Add(1)
	out, err := add(ctx, addends{in.GetA(), in.GetB(), in.GetPayload()})
	return &AddReply{Sum: out.Result, Checksum: out.Checksum}, err
}

// ServeHTTP answers by REST: POST /adder, and GET /healthz and /stats.
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

// Serve answers by REST and by gRPC on the listeners of each until ctx ends or one of them fails.
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
