package target

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/tare-mesh/tare/internal/load"
)

// Lookup finds the addresses of a name. network is ip, as of [net.Resolver.LookupNetIP].
type Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)

// literal is u's address where it names one.
func literal(u *url.URL) []netip.AddrPort {
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	return []netip.AddrPort{netip.AddrPortFrom(addr, load.PortOf(u))}
}

// addresses finds every address of u's host, in the resolver's order.
func (l Lookup) addresses(ctx context.Context, u *url.URL) ([]netip.AddrPort, error) {
	found, err := l(ctx, "ip", u.Hostname())
	if err != nil {
		return nil, err
	}
	var addrs []netip.AddrPort
	for _, addr := range found {
		if a := netip.AddrPortFrom(addr.Unmap(), load.PortOf(u)); !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: u.Hostname(), IsNotFound: true}
	}
	return addrs, nil
}

// once looks each name up once: many targets may have one host.
func (l Lookup) once() Lookup {
	known := map[string][]netip.Addr{}
	return func(ctx context.Context, network, name string) ([]netip.Addr, error) {
		if addrs, ok := known[name]; ok {
			return addrs, nil
		}
		addrs, err := l(ctx, network, name)
		if err == nil {
			known[name] = addrs
		}
		return addrs, err
	}
}
