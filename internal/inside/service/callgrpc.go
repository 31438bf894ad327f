package service

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tare-mesh/tare/internal/base/dial"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// clients make the calls of a service. Their connections survive configuration
// changes.
type clients struct {
	http1, http2 transports
	from         dial.Func

	mu   sync.Mutex
	grpc map[string]*grpcTarget // by HOST:PORT
}

// grpcTarget is a connection and the number of configurations that use it.
type grpcTarget struct {
	conn *grpc.ClientConn
	uses int
}

func newClients(from dial.Func) *clients {
	return &clients{http1: newTransports(1, from), http2: newTransports(2, from), from: from, grpc: map[string]*grpcTarget{}}
}

func (c *clients) way(raw string, o app.CallOptions) (way, error) {
	switch o.Protocol {
	case app.GRPC:
		return c.grpcWay(raw, o)
	case app.HTTP2:
		return newHTTPWay(raw, o, c.http2)
	}
	return newHTTPWay(raw, o, c.http1)
}

// grpcWay calls one address over a shared connection.
type grpcWay struct {
	address string
	headers []string // name, value, name, value
	conn    *grpc.ClientConn
	from    dial.Func
}

var grpcOptions = []grpc.DialOption{
	grpc.WithTransportCredentials(insecure.NewCredentials()),
	grpc.WithDisableServiceConfig(),
	grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	grpc.WithNoProxy(),
}

func dialGRPC(address string, from dial.Func) (*grpc.ClientConn, error) {
	connect := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return from(ctx, "tcp", address) })
	return grpc.NewClient("passthrough:///"+address, append(slices.Clone(grpcOptions), connect)...)
}

func (c *clients) grpcWay(raw string, o app.CallOptions) (way, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	w := &grpcWay{address: u.Host, from: c.from}
	for name, value := range o.Headers {
		w.headers = append(w.headers, name, value)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.grpc[w.address]
	if !ok {
		conn, err := dialGRPC(w.address, c.from) // connects at the first call
		if err != nil {
			return nil, fmt.Errorf("address %s: %w", w.address, err)
		}
		t = &grpcTarget{conn: conn}
		c.grpc[w.address] = t
	}
	t.uses++
	w.conn = t.conn
	return w, nil
}

// release frees a way that no request will use again.
func (c *clients) release(w way) {
	g, ok := w.(*grpcWay)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.grpc[g.address]
	if t.uses--; t.uses == 0 {
		delete(c.grpc, g.address)
		_ = t.conn.Close() // fails only if already closed
	}
}

func (w *grpcWay) do(ctx context.Context, size int64, in incoming, alone bool) (sent int, err error) {
	conn := w.conn
	if alone {
		single, err := dialGRPC(w.address, w.from)
		if err != nil {
			return 0, err
		}
		defer single.Close()
		conn = single
	}
	if pairs := slices.Concat(in.pairs(), w.headers); len(pairs) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
	}
	var answer wrapperspb.BytesValue
	return 1, conn.Invoke(ctx, callMethod, &wrapperspb.BytesValue{Value: filled(size)}, &answer)
}

// closeIdle closes idle connections to URLs that may be unused.
func (c *clients) closeIdle() {
	c.http1.kept.CloseIdleConnections()
	c.http2.kept.CloseIdleConnections()
}
