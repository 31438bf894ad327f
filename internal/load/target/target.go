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
	"github.com/tare-mesh/tare/internal/load/websocket"
)

// Target is one URL, parsed, resolved and encoded.
type Target struct {
	URL       *url.URL
	Addrs     []netip.AddrPort   // of the host
	Socket    string             // path of a Unix socket, in place of addr
	protocol  string             // http1, http2, grpc or tcp
	TLS       *tls.Config        // nil: plaintext
	Request   []byte             // the whole request, written as it is
	HTTP2     *http2.Request     // the same for HTTP/2, nil for HTTP/1.1
	Path      int                // of the profile's paths
	Bodily    bool               // answers have a body: the method is not HEAD
	WebSocket *websocket.Request // the same for WebSocket, nil for another protocol
	Echo      []byte             // the whole answer that protocol tcp expects, nil for HTTP
	Until     []byte             // the end of the answer, of which Echo is then the beginning; nil for none
	Unlike    load.Failure       // of another one
	Opening   *load.Exchange     // on each connection, before its first request; nil for none
	Origin    int                // of the profile's origins
}

// Resolve looks every host up once, before the load begins: a look-up under way would be
// charged to the server.
func Resolve(ctx context.Context, p *load.Profile, body []byte, look Lookup) ([]Target, error) {
	targets := make([]Target, len(p.Targets))
	_, pathOf := p.Paths()
	origins, originOf := p.Origins()
	specs, configs := make([][]http2.Spec, len(origins)), make([]*tls.Config, len(origins))
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
		t := Target{URL: u, Socket: p.Socket, protocol: p.Protocol, Path: pathOf[i], Origin: originOf[i], Bodily: call.Method != http.MethodHead}
		switch {
		case p.Protocol == load.ProtocolTCP:
			t.Request = echoed(body)
			t.Echo, t.Unlike = t.Request, load.FailureWrongEcho
			if len(p.Answer)+len(p.Until) > 0 {
				t.Echo, t.Until, t.Unlike = p.Answer, p.Until, load.FailureWrongBody
			}
			t.Opening = p.Opening
		default:
			t.Request = http1.BuildRequest(u, &call, body)
		}
		if t.Addrs, err = connectTo(ctx, p, u, look); err != nil {
			return nil, fmt.Errorf("target %s: %w", raw, err)
		}
		if t.Addrs == nil {
			t.Addrs = literal(u)
		}
		if t.Socket == "" && t.Addrs == nil {
			if t.Addrs, err = look.addresses(ctx, u); err != nil {
				return nil, fmt.Errorf("look up target %s: %w", raw, err)
			}
		}
		if p.Protocol == load.ProtocolAuto {
			origin := u.Scheme + "://" + u.Host
			if t.protocol = protocols[origin]; t.protocol == "" {
				if t.protocol, err = chooseProtocol(ctx, p, &t); err != nil {
					return nil, fmt.Errorf("negotiate the protocol with target %s: %w", raw, err)
				}
				protocols[origin] = t.protocol
			}
		}
		if t.protocol == load.ProtocolHTTP2 || t.protocol == load.ProtocolGRPC {
			t.HTTP2 = new(http2.Request)
			specs[t.Origin] = append(specs[t.Origin], http2.Spec{Into: t.HTTP2, URL: u, Profile: &call, Body: body})
		}
		if t.protocol == load.ProtocolWebSocket {
			t.WebSocket = websocket.BuildRequest(u, &call, body)
		}
		if u.Scheme == "https" || u.Scheme == load.SchemeTLS || u.Scheme == load.SchemeWSS {
			if configs[t.Origin] == nil {
				if configs[t.Origin], err = tlsConfig(p.TLS, u.Hostname(), offered[t.protocol]); err != nil {
					return nil, fmt.Errorf("target %s: %w", raw, err)
				}
			}
			t.TLS = configs[t.Origin]
		}
		targets[i] = t
	}
	for _, s := range specs {
		if len(s) > 0 {
			http2.BuildRequests(s)
		}
	}
	return targets, nil
}

// Dial is where t is connected to, where one connection is enough.
func (t *Target) Dial() (network, address string) {
	switch {
	case t.Socket != "":
		return "unix", t.Socket
	case len(t.Addrs) > 0:
		return "tcp", t.Addrs[0].String()
	}
	return "tcp", net.JoinHostPort(t.URL.Hostname(), strconv.Itoa(int(load.PortOf(t.URL))))
}
