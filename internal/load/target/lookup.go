package target

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/tare-mesh/tare/internal/load"
)

// Lookup finds the addresses of a name, and network is ip, ip4 or ip6.
type Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)

// literal is u's address where it names one.
func literal(u *url.URL) []netip.AddrPort {
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	return []netip.AddrPort{netip.AddrPortFrom(addr, load.PortOf(u))}
}

// Addresses finds every address of u's host, in the resolver's order.
func (l Lookup) Addresses(ctx context.Context, u *url.URL, version string) ([]netip.AddrPort, error) {
	found, err := l(ctx, load.IPNetworks[version], u.Hostname())
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
	type question struct{ network, name string }
	known := map[question][]netip.Addr{}
	return func(ctx context.Context, network, name string) ([]netip.Addr, error) {
		q := question{network, name}
		if addrs, ok := known[q]; ok {
			return addrs, nil
		}
		addrs, err := l(ctx, network, name)
		if err == nil {
			known[q] = addrs
		}
		return addrs, err
	}
}

// LookUp finds the addresses of t, which has none yet.
func (t *Target) LookUp(ctx context.Context, look Lookup, version string) ([]netip.AddrPort, error) {
	if t.places != nil {
		return lookUp(ctx, look, t.URL, t.places, version)
	}
	return look.Addresses(ctx, t.URL, version)
}
