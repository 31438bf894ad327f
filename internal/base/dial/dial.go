// Package dial opens connections from a given source address. By default, the
// kernel uses 127.0.0.1 for all connections over loopback. With a source address
// per pod, packets identify their pod, as in a cluster.
package dial

import (
	"context"
	"net"
	"net/netip"
)

// Func is the type of [net/http.Transport]'s DialContext.
type Func func(ctx context.Context, network, address string) (net.Conn, error)

// From connects from the source address, with a port that the kernel chooses.
// The kernel also chooses the address of connections that leave loopback, and of
// all connections if source is the zero Addr.
func From(source netip.Addr) Func {
	plain := new(net.Dialer)
	if !source.IsValid() {
		return plain.DialContext
	}
	bound := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0)), Control: portAtConnect}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !to.Addr().IsLoopback() || to.Addr().Is4() != source.Is4() {
			return plain.DialContext(ctx, network, address)
		}
		return bound.DialContext(ctx, network, address)
	}
}
