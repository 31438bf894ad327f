package load

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
)

// Protocol tcp: a request is a number of bytes, and its answer is known: the same bytes, or others.

// schemeTCP and schemeTLS are the schemes of a target of protocol tcp, plain and over TLS.
const (
	SchemeTCP = "tcp"
	SchemeTLS = "tls"
)

// PortOf is the port u is to be connected to.
func PortOf(u *url.URL) uint16 {
	if s := u.Port(); s != "" {
		port, _ := strconv.ParseUint(s, 10, 16) // parseTarget has seen to it
		return uint16(port)
	}
	if u.Scheme == "https" || u.Scheme == SchemeWSS {
		return 443
	}
	return 80
}

// Paths lists the paths of the targets, each once, and which of them each target has: of
// calls their names. One path for all yields no paths.
func (p *Profile) Paths() (paths []string, of []int) {
	index := map[string]int{}
	for i, raw := range p.Targets {
		path := raw
		if u, err := url.Parse(raw); err == nil {
			path = u.EscapedPath()
		}
		if i < len(p.Calls) {
			path = cmp.Or(p.Calls[i].Name, cmp.Or(p.Calls[i].Method, p.Method, http.MethodGet)+" "+cmp.Or(path, "/"))
		}
		if _, ok := index[path]; !ok {
			index[path] = len(paths)
			paths = append(paths, path)
		}
		of = append(of, index[path])
	}
	if len(paths) <= 1 {
		paths = nil
	}
	return paths, of
}

// Origins lists the origins of the targets, each once, and which of them each target has.
// Requests of one origin share its connections.
func (p *Profile) Origins() (origins []string, of []int) {
	index := map[string]int{}
	for _, raw := range p.Targets {
		origin, _ := SplitOrigin(raw)
		origin = strings.ToLower(origin)
		if _, ok := index[origin]; !ok {
			index[origin] = len(origins)
			origins = append(origins, origin)
		}
		of = append(of, index[origin])
	}
	return origins, of
}

// SplitOrigin divides a URL into scheme, host and port, and all that follows.
func SplitOrigin(raw string) (origin, rest string) {
	begin := max(0, strings.Index(raw, "://")+len("://"))
	if i := strings.IndexAny(raw[min(begin, len(raw)):], "/?#"); i >= 0 {
		return raw[:begin+i], raw[begin+i:]
	}
	return raw, ""
}

// ParseTarget checks one URL of a profile without looking up its host.
func ParseTarget(raw string) (*url.URL, error) {
	u, err := printable.ParseURL(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("target: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" && !isEcho(u) && !isSocket(u):
		return nil, fmt.Errorf("target %q does not begin with http:// or https://, ws:// or wss://, nor with tcp:// or tls:// for an echo", printable.URL(raw))
	case u.Hostname() == "":
		return nil, fmt.Errorf("target %q names no host", printable.URL(raw))
	case u.User != nil:
		return nil, fmt.Errorf("target %s: credentials in a URL: %w", u.Redacted(), errors.ErrUnsupported)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("target %q: port %s is not between 1 and 65535", printable.URL(raw), port)
		}
	}
	return u, nil
}

func isEcho(u *url.URL) bool { return u.Scheme == SchemeTCP || u.Scheme == SchemeTLS }

func isSocket(u *url.URL) bool { return u.Scheme == schemeWS || u.Scheme == SchemeWSS }

// Protocols the engine speaks, HTTP/1.1 also under other names that experiments give it.
const (
	ProtocolHTTP1 = "http1"
	ProtocolHTTP2 = "http2"
	ProtocolGRPC  = "grpc"
	ProtocolTCP   = "tcp"
	ProtocolAuto  = "auto"

	ProtocolWebSocket = "websocket"
)

// protocols by every name a profile may give them.
var protocols = map[string]string{
	"": ProtocolHTTP1, ProtocolHTTP1: ProtocolHTTP1, "http/1.1": ProtocolHTTP1, "http": ProtocolHTTP1,
	ProtocolHTTP2: ProtocolHTTP2, ProtocolGRPC: ProtocolGRPC, ProtocolTCP: ProtocolTCP, ProtocolAuto: ProtocolAuto,
	ProtocolWebSocket: ProtocolWebSocket,
}

func (p *Profile) mayHTTP2() bool {
	return p.Protocol == ProtocolHTTP2 || p.Protocol == ProtocolGRPC || p.Protocol == ProtocolAuto
}
