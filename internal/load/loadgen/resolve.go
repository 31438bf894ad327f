package loadgen

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// When the names of hosts are looked up.
const (
	ResolveOnce       = "once"       // before the load begins
	ResolveConnection = "connection" // for every connection that is opened
)

// addressRest is how long an address that could not be connected to is passed over,
// where a name has others.
const addressRest = int64(time.Second)

// lookup finds the addresses of a name; network is ip, ip4 or ip6.
type lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)

// networks that a look-up may be restricted to, by what a profile says.
var networks = map[string]string{"": "ip", "4": "ip4", "6": "ip6"}

// portOf is the port u is to be connected to.
func portOf(u *url.URL) uint16 {
	if s := u.Port(); s != "" {
		port, _ := strconv.ParseUint(s, 10, 16) // parseTarget has seen to it
		return uint16(port)
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// literal is u's address where it names one.
func literal(u *url.URL) []netip.AddrPort {
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	return []netip.AddrPort{netip.AddrPortFrom(addr, portOf(u))}
}

// addresses finds every address of u's host, in the resolver's order.
func (l lookup) addresses(ctx context.Context, u *url.URL, version string) ([]netip.AddrPort, error) {
	found, err := l(ctx, networks[version], u.Hostname())
	if err != nil {
		return nil, err
	}
	var addrs []netip.AddrPort
	for _, addr := range found {
		if a := netip.AddrPortFrom(addr.Unmap(), portOf(u)); !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: u.Hostname(), IsNotFound: true}
	}
	return addrs, nil
}

// lookupKind tells what kind of failure a look-up's error is.
func lookupKind(err error) kind {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return kindNoName
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &dns) && dns.IsTimeout:
		return kindLookupTimeout
	}
	return kindLookup
}
