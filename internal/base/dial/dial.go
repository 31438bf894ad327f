// Package dial makes connections that begin at an address of one's own. The
// kernel gives every connection over loopback the source 127.0.0.1; a pod whose
// connections begin at its own address can be told from the others by what
// looks at packets, as it can in a cluster.
package dial

import (
	"context"
	"net"
	"net/netip"
)

// Func connects, as [net/http.Transport] wants it.
type Func func(ctx context.Context, network, address string) (net.Conn, error)

// From connects from the source address, with a port of the kernel's choice.
// Connections to what is not on loopback, and all of them where source is the
// zero Addr, begin where the kernel says.
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
