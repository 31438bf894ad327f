// Package target prepares one URL of a profile: addresses, TLS configuration, encoded request.
package target

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/http2"
)

// Target is one URL, parsed, resolved and encoded.
type Target struct {
	URL      *url.URL
	Addrs    []netip.AddrPort // of the host; none: to be looked up for each connection
	Socket   string           // path of a Unix socket, in place of addr
	protocol string           // http1, http2, grpc or tcp
	TLS      *tls.Config      // nil: plaintext
	Request  []byte           // the whole request, written as it is
	HTTP2    *http2.Request   // the same for HTTP/2; nil: HTTP/1.1
	Root     *http1.Hop       // the request as the beginning of a chain of redirects
	Path     int              // of the profile's paths
	Bodily   bool             // answers have a body: the method is not HEAD
	Echo     []byte           // the request where protocol tcp expects it back; nil: HTTP
}

// Resolve looks every host up once, before the load begins, unless every
// connection is to do so: a look-up under way would be charged to the server.
func Resolve(ctx context.Context, p *load.Profile, body []byte, look Lookup) ([]Target, error) {
	targets := make([]Target, len(p.Targets))
	_, pathOf := p.Paths()
	common := body
	look, protocols := look.once(), map[string]string{}
	for i, raw := range p.Targets {
		body := common
		u, err := load.ParseTarget(raw)
		if err != nil {
			return nil, err
		}
		call := p.ForTarget(i)
		if i < len(p.Calls) && p.Calls[i].Body != nil {
			body = p.Calls[i].Body
		}
		t := Target{URL: u, Socket: p.Socket, protocol: p.Protocol, Root: http1.RootHop(u, &call), Path: pathOf[i], Bodily: call.Method != http.MethodHead}
		if p.Protocol == load.ProtocolTCP {
			t.Echo = echoed(body)
			t.Request = t.Echo
		} else {
			t.Request = http1.BuildRequest(u, &call, body)
		}
		if t.Addrs, err = connectTo(ctx, p, u, look); err != nil {
			return nil, fmt.Errorf("target %s: %w", raw, err)
		}
		if t.Addrs == nil {
			t.Addrs = literal(u)
		}
		if t.Socket == "" && t.Addrs == nil && p.Resolve == load.ResolveOnce {
			if t.Addrs, err = look.Addresses(ctx, u, p.IPVersion); err != nil {
				return nil, fmt.Errorf("look up target %s: %w", raw, err)
			}
		}
		if p.Protocol == load.ProtocolAuto {
			origin := u.Scheme + "://" + u.Host
			if t.protocol = protocols[origin]; t.protocol == "" {
				if t.protocol, err = chooseProtocol(ctx, p, &t); err != nil {
					return nil, fmt.Errorf("ask target %s for its protocol: %w", raw, err)
				}
				protocols[origin] = t.protocol
			}
		}
		if t.protocol == load.ProtocolHTTP2 || t.protocol == load.ProtocolGRPC {
			t.HTTP2 = http2.BuildRequest(u, &call, body)
		}
		if u.Scheme == "https" || u.Scheme == load.SchemeTLS {
			if t.TLS, err = tlsConfig(p.TLS, u.Hostname(), offered[t.protocol]); err != nil {
				return nil, fmt.Errorf("target %s: %w", raw, err)
			}
		}
		targets[i] = t
	}
	return targets, nil
}

// dial is where t is connected to, where one connection is enough.
func (t *Target) dial() (network, address string) {
	switch {
	case t.Socket != "":
		return "unix", t.Socket
	case len(t.Addrs) > 0:
		return "tcp", t.Addrs[0].String()
	}
	return "tcp", net.JoinHostPort(t.URL.Hostname(), strconv.Itoa(int(load.PortOf(t.URL))))
}
