// Package target prepares one URL of a profile: addresses, TLS configuration, encoded request.
package target

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
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
		if t.Addrs = connectTo(p, u); t.Addrs == nil {
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

// echoed is the request of an echo: the body, or one byte.
func echoed(body []byte) []byte {
	if len(body) == 0 {
		return []byte{'x'}
	}
	return body
}

// Body is the body of every request.
func Body(p *load.Profile) []byte {
	if p.Body != nil {
		return p.Body
	}
	return bytes.Repeat([]byte{'x'}, int(p.RequestSize))
}

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
	addrs := lists.Add(nil, lists.Map(found, func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a.Unmap(), load.PortOf(u)) })...)
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

// connectTo are the addresses that p has in place of those of u's host, nil without a replacement.
func connectTo(p *load.Profile, u *url.URL) []netip.AddrPort {
	for _, c := range p.ConnectTo {
		if (c.Host == "" || strings.EqualFold(c.Host, u.Hostname())) && (c.Port == 0 || c.Port == load.PortOf(u)) {
			return lists.Map(c.To, func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, load.PortOf(u)) })
		}
	}
	return nil
}

// choose finds the protocol of an automatic choice: what the server at t chooses, in
// a connection made for nothing else.
func chooseProtocol(ctx context.Context, p *load.Profile, t *Target) (string, error) {
	if t.URL.Scheme != "https" || p.NoKeepAlive {
		return load.ProtocolHTTP1, nil
	}
	config, err := tlsConfig(p.TLS, t.URL.Hostname(), offered[load.ProtocolHTTP2])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	network, address := t.Dial()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if conn.(*tls.Conn).ConnectionState().NegotiatedProtocol == AlpnHTTP2 {
		return load.ProtocolHTTP2, nil
	}
	return load.ProtocolHTTP1, nil
}

// Protocols lists the targets' protocols, each once.
func Protocols(targets []Target) string {
	var names []string
	for i := range targets {
		names = lists.Add(names, targets[i].protocol)
	}
	return strings.Join(names, ", ")
}

// Protocols by the names that TLS has for them (ALPN, RFC 7301).
const (
	alpnHTTP1 = "http/1.1"
	AlpnHTTP2 = "h2"
)

// offered are the protocols that a server may choose from. To a server of HTTP/2
// HTTP/1.1 is offered too, so that a server without HTTP/2 chooses that.
var offered = map[string][]string{
	load.ProtocolHTTP1: {alpnHTTP1},
	load.ProtocolHTTP2: {AlpnHTTP2, alpnHTTP1},
	load.ProtocolGRPC:  {AlpnHTTP2},

	load.ProtocolWebSocket: {alpnHTTP1},
}

// maxCertificates bounds a file of certificates, in bytes. A system's roots have 250 KiB.
const maxCertificates = 16 << 20

// config reads the files and makes a client configuration for host, which offers
// the named protocols. A nil t means the defaults.
func tlsConfig(t *load.TLS, host string, protocols []string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, NextProtos: protocols,
		// A request is not made smaller records because the connection is young.
		DynamicRecordSizingDisabled: true}
	c.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	if t == nil {
		return c, nil
	}
	c.InsecureSkipVerify = t.Insecure
	if t.CAFile != "" {
		pem, err := regular.ReadInput(t.CAFile, maxCertificates)
		if err != nil {
			return nil, fmt.Errorf("read trusted roots: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read trusted roots: no certificate in %s", t.CAFile)
		}
	}
	if t.CertFile != "" {
		own, err := keyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		// Whatever authorities the server names: it may accept others.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return c, nil
}

// keyPair reads a client certificate and its key.
func keyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := regular.ReadInput(certFile, maxCertificates)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := regular.ReadInput(keyFile, maxCertificates)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// NetFailure names an error of package net.
func NetFailure(err error) load.Failure {
	if err == nil {
		return load.FailureNone
	}
	for _, known := range []struct {
		err  error
		kind load.Failure
	}{
		{os.ErrDeadlineExceeded, load.FailureTimeout},
		{context.DeadlineExceeded, load.FailureTimeout},
		{syscall.ECONNREFUSED, load.FailureRefused},
		{syscall.ENOENT, load.FailureRefused},
		{syscall.ECONNRESET, load.FailureReset},
		{syscall.EPIPE, load.FailureReset},
		{syscall.ECONNABORTED, load.FailureReset},
		{syscall.EMFILE, load.FailureNoDescriptors},
		{syscall.ENFILE, load.FailureNoDescriptors},
		{syscall.EADDRNOTAVAIL, load.FailureNoPorts},
		{syscall.ENETUNREACH, load.FailureUnreachable},
		{syscall.EHOSTUNREACH, load.FailureUnreachable},
		{io.EOF, load.FailureClosedEarly},
		{io.ErrUnexpectedEOF, load.FailureHalfResponse},
	} {
		if errors.Is(err, known.err) {
			return known.kind
		}
	}
	// An alert. In TLS 1.3 the refusal of a client's certificate comes after the handshake.
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" {
		return load.FailureTLS
	}
	return load.FailureOther
}

// noProtocol ends the error of an alert no_application_protocol, whose type
// crypto/tls keeps to itself.
const noProtocol = "tls: no application protocol"

// TLSFailure classifies the error of a handshake.
func TLSFailure(err error) load.Failure {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return load.FailureCertificate
	}
	if strings.HasSuffix(err.Error(), noProtocol) {
		return load.FailureALPN
	}
	if k := NetFailure(err); k != load.FailureOther {
		return k
	}
	return load.FailureTLS
}
