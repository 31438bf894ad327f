package rpc

import (
	"context"
	"net/http"
	"strings"
)

// The health service (grpc/health/v1/health.proto). Every service of a server is healthy.
const (
	healthName     = "grpc.health.v1.Health"
	HealthCheck    = "/" + healthName + "/Check"
	serving        = 1
	serviceUnknown = 3
)

type healthService struct{ names map[string]bool }

func (h *healthService) check(_ context.Context, _ http.Header, request []byte) (Message, error) {
	status, err := h.statusOf(request)
	switch {
	case err != nil:
		return nil, err
	case status == serviceUnknown:
		return nil, Errorf(NotFound, "unknown service")
	}
	return Message{AppendInt(nil, 1, status)}, nil
}

// watch sends the status once, as it does not change.
func (h *healthService) watch(s *Stream) error {
	request, err := s.Receive()
	if err != nil {
		return Errorf(Internal, "the request has no message")
	}
	status, err := h.statusOf(request)
	if err != nil {
		return err
	}
	if err := s.send(Message{AppendInt(nil, 1, status)}); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	<-s.r.Context().Done()
	return s.r.Context().Err()
}

func (h *healthService) statusOf(request []byte) (uint64, error) {
	fields, err := Fields(request)
	name := ""
	for _, f := range fields {
		if f.Number == 1 {
			name = strings.ToValidUTF8(string(f.Bytes), "\uFFFD")
		}
	}
	if !h.names[name] {
		return serviceUnknown, err
	}
	return serving, err
}
