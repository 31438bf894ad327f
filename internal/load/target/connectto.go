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
func connectTo(ctx context.Context, p *load.Profile, u *url.URL, look Lookup) (addrs []netip.AddrPort, err error) {
	for _, c := range p.ConnectTo {
		if c.Host != "" && !strings.EqualFold(c.Host, u.Hostname()) || c.Port != 0 && c.Port != load.PortOf(u) {
			continue
		}
		for _, to := range c.To {
			at, err := replaced(u, to)
			if err != nil {
				return nil, err
			}
			found := literal(at)
			if found == nil {
				if found, err = look.addresses(ctx, at); err != nil {
					return nil, fmt.Errorf("look up %s, where connections to %s go: %w", at.Host, u.Host, err)
				}
			}
			addrs = append(addrs, found...)
		}
		return addrs, nil
	}
	return nil, nil
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
