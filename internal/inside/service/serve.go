package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/net/netutil"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
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
	switch s.start.Protocol {
	case app.GRPC:
		return ServeGRPC(ctx, l, versioned(s, newGRPCServer(s)))
	case app.TCP:
		if err := s.serveTCP(ctx, l); err != nil {
			return fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
		return nil
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	// No timeouts: a deadline per request would add a cost.
	server := &http.Server{Handler: s, Protocols: &protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams}}
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
