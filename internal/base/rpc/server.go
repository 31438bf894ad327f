package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Handler serves a unary method. The status of an error that is not an [*Error] is [codeOf] it.
type Handler func(ctx context.Context, header http.Header, request []byte) (Message, error)

// Service has the full name of a service, and the handlers of its methods by name.
type Service struct {
	Name     string
	Handlers map[string]Handler
}

// Server serves services and their health. Serve it with
// [http.Protocols] that include HTTP/2.
type Server struct {
	limit    int64
	services map[string]bool
	methods  map[string]func(*Stream) error // by path
}

// NewServer returns a server for requests of at most limit bytes.
func NewServer(limit int64, services ...Service) *Server {
	s := &Server{limit: limit, services: map[string]bool{}, methods: map[string]func(*Stream) error{}}
	health := &healthService{names: map[string]bool{"": true}}
	for _, service := range services {
		methods := map[string]func(*Stream) error{}
		for method, h := range service.Handlers {
			methods[method] = unary(h)
		}
		s.add(service.Name, methods)
		health.names[service.Name] = true
	}
	s.add(healthName, map[string]func(*Stream) error{"Check": unary(health.check), "Watch": health.watch})
	return s
}

// Stream serves a method that receives and sends many messages.
func (s *Server) Stream(service, method string, serve func(*Stream) error) {
	s.add(service, map[string]func(*Stream) error{method: serve})
}

func (s *Server) add(service string, methods map[string]func(*Stream) error) {
	s.services[service] = true
	for name, m := range methods {
		s.methods["/"+service+"/"+name] = m
	}
}

// Stream is one call at the server.
type Stream struct {
	w     http.ResponseWriter
	r     *http.Request
	limit int64
}

// Context ends with the call.
func (s *Stream) Context() context.Context { return s.r.Context() }

// Receive returns the next message of the client, or [io.EOF] after the last.
func (s *Stream) Receive() ([]byte, error) { return read(s.r.Body, s.limit) }

// Send sends a message to the client at once. One goroutine may receive while another sends.
func (s *Stream) Send(m Message) error {
	if err := s.send(m); err != nil {
		return err
	}
	return s.flush()
}

// flush sends the written bytes without waiting for the end of the call.
func (s *Stream) flush() error { return http.NewResponseController(s.w).Flush() }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mediaType := r.Header.Get("Content-Type")
	switch {
	case r.ProtoMajor < 2:
		w.WriteHeader(http.StatusHTTPVersionNotSupported)
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case !isGRPC(mediaType):
		w.Header().Set("Accept", contentType)
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	h := w.Header()
	h["Content-Type"] = []string{mediaType}
	h["Date"] = nil // net/http would add it
	err := s.call(w, r)
	h[http.TrailerPrefix+statusHeader] = statusText(codeOf(err))
	if err != nil {
		text := err.Error()
		if e, ok := errors.AsType[*Error](err); ok {
			text = e.Message
		}
		h[http.TrailerPrefix+messageHeader] = []string{escape(text)}
	}
}

var textOK = []string{"0"}

func statusText(c Code) []string {
	if c == OK {
		return textOK
	}
	return []string{strconv.Itoa(int(c))}
}

func (s *Server) call(w http.ResponseWriter, r *http.Request) error {
	if e := r.Header.Get(encodingHeader); e != "" && e != "identity" {
		w.Header()[acceptHeader] = []string{"identity"}
		return Errorf(Unimplemented, "the encoding %.20q is not supported", e)
	}
	method, ok := s.methods[r.URL.Path]
	if !ok {
		service, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if s.services[service] {
			return Errorf(Unimplemented, "unknown method %.80s for service %.80s", name, service)
		}
		return Errorf(Unimplemented, "unknown service %.80s", service)
	}
	if text := r.Header.Get(timeoutHeader); text != "" {
		limit, err := parseTimeout(text)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		r = r.WithContext(ctx)
	}
	return method(&Stream{w, r, s.limit})
}

// unary is a method that receives and sends one message.
func unary(h Handler) func(*Stream) error {
	return func(s *Stream) error {
		in, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return Errorf(Internal, "the request has no message")
		}
		if err != nil {
			return err
		}
		if _, err := s.Receive(); !errors.Is(err, io.EOF) {
			return Errorf(Internal, "the request has more than one message")
		}
		out, err := h(s.r.Context(), s.r.Header, in)
		if err != nil {
			return err
		}
		if int64(out.size()) > int64(^uint32(0)) {
			return Errorf(ResourceExhausted, "the response of %d bytes is too large", out.size())
		}
		return s.send(out)
	}
}

func (s *Stream) send(m Message) error {
	if _, err := s.w.Write(m.prefix()); err != nil {
		return err
	}
	for _, part := range m {
		if _, err := s.w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

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
