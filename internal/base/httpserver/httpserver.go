// Package httpserver ends HTTP servers with their context, and serves JSON to clients with a token.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/tare-mesh/tare/internal/base/routine"
)

// Grace limits the time of requests in flight at the end.
const Grace = time.Second

// PlainProtocols are HTTP/1.1 and HTTP/2 on one port, without TLS.
func PlainProtocols() *http.Protocols {
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	return &both
}

// Serve serves on l until ctx ends, over TLS if the server has a configuration of it.
// Requests in flight then have [Grace] to finish.
func Serve(ctx context.Context, l net.Listener, server *http.Server) error {
	failed := make(chan error, 1)
	go routine.Guarded(func() {
		if server.TLSConfig != nil {
			failed <- server.ServeTLS(l, "", "")
			return
		}
		failed <- server.Serve(l)
	})()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), Grace)
	defer cancel()
	if err := server.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	} else if err != nil {
		return fmt.Errorf("end serving on %s: %w", l.Addr(), err)
	}
	return nil
}
