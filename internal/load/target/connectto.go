package target

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/load"
)

// connectTo finds the addresses that p has in place of the addresses of u's host, none without a
// replacement. Names are looked up at once.
func connectTo(ctx context.Context, p *load.Profile, u *url.URL, look Lookup) ([]netip.AddrPort, error) {
	places, err := replacements(p, u)
	if err != nil || places == nil {
		return nil, err
	}
	return lookUp(ctx, look, u, places, p.IPVersion)
}

// replacements are the hosts that p has in place of u's, none without a replacement.
func replacements(p *load.Profile, u *url.URL) ([]*url.URL, error) {
	for _, c := range p.ConnectTo {
		if c.Host != "" && !strings.EqualFold(c.Host, u.Hostname()) || c.Port != 0 && c.Port != load.PortOf(u) {
			continue
		}
		var places []*url.URL
		for _, to := range c.To {
			at, err := replaced(u, to)
			if err != nil {
				return nil, err
			}
			places = append(places, at)
		}
		return places, nil
	}
	return nil, nil
}

// literals are the addresses of places, none if at least one is a name.
func literals(places []*url.URL) (addrs []netip.AddrPort) {
	for _, at := range places {
		found := literal(at)
		if found == nil {
			return nil
		}
		addrs = append(addrs, found...)
	}
	return addrs
}

// lookUp finds the addresses of all places, which replace u's host.
func lookUp(ctx context.Context, look Lookup, u *url.URL, places []*url.URL, version string) (addrs []netip.AddrPort, err error) {
	for _, at := range places {
		found := literal(at)
		if found == nil {
			if found, err = look.Addresses(ctx, at, version); err != nil {
				return nil, fmt.Errorf("look up %s, where connections to %s go: %w", at.Host, u.Host, err)
			}
		}
		addrs = append(addrs, found...)
	}
	return addrs, nil
}

// replaced is u with the host and port of to where it has them.
func replaced(u *url.URL, to string) (*url.URL, error) {
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return nil, fmt.Errorf("connect to %q: %w", to, err)
	}
	if host == "" {
		host = u.Hostname()
	}
	if port == "" {
		port = strconv.Itoa(int(load.PortOf(u)))
	}
	return load.ParseTarget("http://" + net.JoinHostPort(host, port))
}
