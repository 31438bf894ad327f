package service

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tare-mesh/tare/internal/base/dial"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// clients make the calls of a service. Their connections survive configuration
// changes.
type clients struct{ http1, http2 transports }

func newClients(from dial.Func) *clients {
	return &clients{http1: newTransports(1, from), http2: newTransports(2, from)}
}

func (c *clients) way(raw, host string, o app.CallOptions) (way, error) {
	switch o.Protocol {
	case app.GRPC:
		return newGRPCWay(raw, host, o, c.http2)
	case app.HTTP2:
		return newHTTPWay(raw, host, o, c.http2)
	}
	return newHTTPWay(raw, host, o, c.http1)
}

// closeIdle closes idle connections to URLs that may be unused.
func (c *clients) closeIdle() {
	c.http1.kept.CloseIdleConnections()
	c.http2.kept.CloseIdleConnections()
}

// grpcWay calls one address. Concurrent calls share a connection.
type grpcWay struct {
	address string
	headers http.Header
	transports
}

func newGRPCWay(raw, host string, o app.CallOptions, t transports) (*grpcWay, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	w := &grpcWay{address: u.Host, headers: http.Header{}, transports: t}
	for name, value := range o.Headers {
		w.headers.Set(name, value)
	}
	if host != "" {
		w.headers.Set("Host", host)
	}
	return w, nil
}

func (w *grpcWay) do(ctx context.Context, size int64, in incoming, alone bool) (sent int, err error) {
	over := w.kept
	if alone {
		over = w.single
	}
	header := w.headers.Clone()
	pairs := in.pairs()
	for i := 0; i < len(pairs); i += 2 {
		header.Set(pairs[i], pairs[i+1])
	}
	answer, err := rpc.Call(ctx, over, w.address, app.GRPCMethod, header, payload(size), maxMessage)
	if err == nil {
		_, err = rpc.Fields(answer)
	}
	return 1, err
}
