package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/net/netutil"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Listen listens on "HOST:PORT" or on a Unix socket, "unix:PATH". With "fd:N" it
// takes over an inherited listening socket, descriptor N.
func Listen(address string) (net.Listener, error) {
	if path, socket := strings.CutPrefix(address, "unix:"); socket {
		l, err := net.Listen("unix", path)
		if err != nil {
			return nil, addressError(address, err, "choose a new path of at most 107 bytes, or remove the socket of a killed process")
		}
		return l, nil
	}
	if number, inherited := strings.CutPrefix(address, "fd:"); inherited {
		return inherit(address, number)
	}
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		_, port, _ := net.SplitHostPort(address)
		return nil, addressError(address, syscall.EADDRINUSE,
			"another process has this port; take another, or port 0 for any free one; `ss -ltnp 'sport = :"+port+"'` shows who has it")
	case errors.Is(err, syscall.EACCES):
		return nil, addressError(address, syscall.EACCES, "choose a port above 1023, or run with more privileges")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, addressError(address, syscall.EADDRNOTAVAIL, "choose an address of this machine, such as 127.0.0.1")
	}
	return nil, addressError(address, err, "write an address such as 127.0.0.1:8080")
}

func inherit(address, number string) (net.Listener, error) {
	const advice = "fd:N is for a program that starts this one with a listening socket as descriptor N; by hand, give HOST:PORT"
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil, addressError(address, fmt.Errorf("%q is not a descriptor from 3 up", number), advice)
	}
	f := os.NewFile(uintptr(fd), address)
	defer f.Close() // FileListener duplicates the descriptor
	l, err := net.FileListener(f)
	if err != nil {
		return nil, addressError(address, err, advice)
	}
	return l, nil
}

func addressError(address string, err error, advice string) error {
	return hint.New(advice, "listen on %s: %w", address, err)
}

// Serve serves s on l in its protocol until ctx ends. Requests in flight then
// have 1 s to finish.
func Serve(ctx context.Context, l net.Listener, s *Service) error {
	switch s.protocol {
	case app.GRPC:
		return ServeGRPC(ctx, l, versioned(s, newGRPCServer(s)))
	case app.TCP:
		if err := s.serveTCP(ctx, l); err != nil {
			return fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
		return nil
	}
	// No timeouts: a deadline per request would add a cost.
	server := &http.Server{Handler: s, Protocols: httpserver.PlainProtocols(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams}}
	if s.sockets { // the server does not end upgraded connections
		server.BaseContext = func(net.Listener) context.Context { return ctx }
	}
	return httpserver.Serve(ctx, l, server)
}

// maxStreams is the max number of streams per connection, too high to limit a
// measurement.
const maxStreams = 1 << 20

// ServeAdmin serves the admin interface until ctx ends. It limits the concurrent
// connections, and further ones wait.
func ServeAdmin(ctx context.Context, l net.Listener, a *Admin) error {
	return httpserver.Serve(ctx, netutil.LimitListener(l, adminConnections), a.Server())
}

// serveTCP echoes every connection until ctx ends. A connection counts as one
// request: the configured work is done at its start, and a failure closes it.
func (s *Service) serveTCP(ctx context.Context, l net.Listener) error {
	var open sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer open.Wait()
	defer cancel()
	context.AfterFunc(ctx, func() { l.Close() })
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		open.Go(func() { s.echo(ctx, c) })
	}
}

func (s *Service) echo(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer c.Close()
	s.count.requests.Add(1)
	if n := s.now.Load(); n.work {
		if s.do(ctx, n, incoming{}).status/100 != 2 {
			return
		}
	}
	_, _ = io.Copy(c, c) // fails if the client is gone
}

// upgrader accepts every origin: the clients are loads and proxies.
var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

// serveWebSocket answers the messages of one connection until it or ctx ends. The work of a request
// is done for each message. A failure closes the connection with status 1011.
func (s *Service) serveWebSocket(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	answers, echo := 0, true
	if text := r.Header.Get(app.AnswersHeader); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			http.Error(w, app.AnswersHeader+" is not a number of messages", http.StatusBadRequest)
			return
		}
		answers, echo = n, false
	}
	var shown http.Header
	if n := s.now.Load(); n.version != nil {
		shown = http.Header{versionHeader: n.version}
	}
	c, err := upgrader.Upgrade(w, r, shown) // it answers on a failure
	if err != nil {
		s.count.failed.Add(1)
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close()
	c.SetReadLimit(int64(app.MaxSize))
	in := incoming{alone: isAlone(canonicalAlone, r.Header), trace: traceOf(canonicalTrace, r.Header)}
	var message bytes.Buffer // reused
	for {
		kind, from, err := c.NextReader()
		if err != nil {
			return // the client is gone
		}
		message.Reset()
		if _, err := message.ReadFrom(from); err != nil {
			return
		}
		s.count.messages.Add(1)
		n := s.now.Load()
		status := n.status
		if n.work {
			status = s.do(ctx, n, in).status
		}
		if isError(status) {
			s.count.failed.Add(1)
			_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseInternalServerErr, http.StatusText(status)), time.Now().Add(closeTimeout))
			return
		}
		if echo {
			err = c.WriteMessage(kind, message.Bytes())
		}
		for i := 0; i < answers && err == nil; i++ {
			err = c.WriteMessage(websocket.BinaryMessage, filled(n.draw()))
		}
		if err != nil {
			return
		}
	}
}

// closeTimeout limits the write of the last frame.
const closeTimeout = time.Second

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
	return httpserver.Serve(ctx, l, &http.Server{Handler: s, Protocols: httpserver.PlainProtocols(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams}})
}

// serveCall implements the gRPC method.
func (s *Service) serveCall(ctx context.Context, header http.Header, request []byte) (rpc.Message, error) {
	if _, err := rpc.Fields(request); err != nil {
		return nil, err
	}
	s.count.requests.Add(1)
	n := s.now.Load()
	result := outcome{status: n.status}
	if n.work {
		var in incoming
		if len(n.steps) > 0 {
			in.alone, in.trace = isAlone(canonicalAlone, header), traceOf(canonicalTrace, header)
		}
		result = s.do(ctx, n, in)
	}
	if result.status/100 != 2 {
		s.count.failed.Add(1)
		err := result.err
		if err == nil {
			err = errors.New(http.StatusText(result.status))
		}
		return nil, rpc.Errorf(codeOf(result.status), "%v", err)
	}
	return payload(n.draw()), nil
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
