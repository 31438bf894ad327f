package loadgen

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// target is one URL, taken apart and ready to be asked.
type target struct {
	url      *url.URL
	addrs    []netip.AddrPort // of the host; none: to be looked up for each connection
	socket   string           // path of a Unix socket, in place of addr
	protocol string           // http1, http2, grpc or tcp
	tls      *tls.Config      // nil: plaintext
	request  []byte           // the whole request, written as it is
	h2       *requestH2       // the same for HTTP/2; nil: HTTP/1.1
	root     *hop             // the request as the beginning of a chain of redirects
	path     int              // of the profile's paths
	echo     []byte           // the request where protocol tcp expects it back; nil: HTTP
}

// parseTarget checks one URL of a profile without looking up its host.
func parseTarget(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("target: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" && !ofEcho(u):
		return nil, fmt.Errorf("target %q does not begin with http:// or https://, nor with tcp:// or tls:// for an echo", raw)
	case u.Hostname() == "":
		return nil, fmt.Errorf("target %q names no host", raw)
	case u.User != nil:
		return nil, fmt.Errorf("target %s: credentials in a URL: %w", u.Redacted(), errors.ErrUnsupported)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("target %q: port %s is not between 1 and 65535", raw, port)
		}
	}
	return u, nil
}

// resolveTargets looks every host up once, before the load begins, unless every
// connection is to do so: a look-up under way would be charged to the server.
func resolveTargets(ctx context.Context, p *Profile, body []byte, look lookup) ([]target, error) {
	targets := make([]target, len(p.Targets))
	_, pathOf := p.routes()
	for i, raw := range p.Targets {
		u, err := parseTarget(raw)
		if err != nil {
			return nil, err
		}
		t := target{url: u, socket: p.Socket, protocol: p.Protocol, root: root(u, p), path: pathOf[i]}
		if p.Protocol == protocolTCP {
			t.echo = echoed(body)
			t.request = t.echo
		} else {
			t.request = buildRequest(u, p, body)
		}
		t.addrs = literal(u)
		if t.socket == "" && t.addrs == nil && p.Resolve == ResolveOnce {
			if t.addrs, err = look.addresses(ctx, u, p.IPVersion); err != nil {
				return nil, fmt.Errorf("look up target %s: %w", raw, err)
			}
		}
		if p.Protocol == protocolAuto {
			if t.protocol, err = chooseProtocol(ctx, p, &t); err != nil {
				return nil, fmt.Errorf("ask target %s for its protocol: %w", raw, err)
			}
		}
		if t.protocol == protocolHTTP2 || t.protocol == protocolGRPC {
			t.h2 = buildRequestH2(u, p, body)
		}
		if u.Scheme == "https" || u.Scheme == schemeTLS {
			if t.tls, err = tlsConfig(p.TLS, u.Hostname(), offered[t.protocol]); err != nil {
				return nil, fmt.Errorf("target %s: %w", raw, err)
			}
		}
		targets[i] = t
	}
	return targets, nil
}

// dial is where t is connected to, where one connection is enough.
func (t *target) dial() (network, address string) {
	switch {
	case t.socket != "":
		return "unix", t.socket
	case len(t.addrs) > 0:
		return "tcp", t.addrs[0].String()
	}
	return "tcp", net.JoinHostPort(t.url.Hostname(), strconv.Itoa(int(portOf(t.url))))
}

// choose finds the protocol of an automatic choice: what the server at t chooses, in
// a connection made for nothing else.
func chooseProtocol(ctx context.Context, p *Profile, t *target) (string, error) {
	if t.url.Scheme != "https" || p.NoKeepAlive || p.Follow > 0 || p.portable() {
		return protocolHTTP1, nil
	}
	config, err := tlsConfig(p.TLS, t.url.Hostname(), offered[protocolHTTP2])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	network, address := t.dial()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if conn.(*tls.Conn).ConnectionState().NegotiatedProtocol == alpnHTTP2 {
		return protocolHTTP2, nil
	}
	return protocolHTTP1, nil
}

// spoken lists the targets' protocols, each once.
func spoken(targets []target) string {
	var names []string
	for i := range targets {
		if !slices.Contains(names, targets[i].protocol) {
			names = append(names, targets[i].protocol)
		}
	}
	return strings.Join(names, ", ")
}

// body is what every request carries.
func requestBody(p *Profile) ([]byte, error) {
	if p.BodyFile == "" {
		return bytes.Repeat([]byte{'x'}, int(p.RequestSize)), nil
	}
	info, err := os.Stat(p.BodyFile)
	if err == nil && info.Size() > maxRequestSize {
		err = fmt.Errorf("%s has %d bytes, more than %d", p.BodyFile, info.Size(), maxRequestSize)
	}
	if err != nil {
		return nil, fmt.Errorf("read request body: %w", err)
	}
	body, err := os.ReadFile(p.BodyFile)
	if err != nil {
		return nil, fmt.Errorf("read request body: %w", err)
	}
	return body, nil
}

// buildRequest writes the request once; every send writes the same bytes. A
// header of the profile's takes the place of the one that would be sent anyway.
func buildRequest(u *url.URL, p *Profile, body []byte) []byte {
	fields := [][2]string{{"Host", u.Host}, {"User-Agent", "tare"}}
	if len(body) > 0 || p.Method == http.MethodPost || p.Method == http.MethodPut || p.Method == http.MethodPatch {
		fields = append(fields, [2]string{"Content-Type", "application/octet-stream"}, [2]string{"Content-Length", strconv.Itoa(len(body))})
	}
	if p.NoKeepAlive {
		fields = append(fields, [2]string{"Connection", "close"})
	}
	own := len(fields)
	for _, h := range p.Headers {
		name, value, _ := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		same := slices.IndexFunc(fields[:own], func(f [2]string) bool { return strings.EqualFold(f[0], name) })
		if same >= 0 {
			fields[same][1] = value
		} else {
			fields = append(fields, [2]string{name, value})
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", p.Method, u.RequestURI())
	for _, f := range fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f[0], f[1])
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// turns is the order in which targets are visited: by their weights, and as
// evenly spread as that allows (smooth weighted round robin: each target gains
// its weight every turn, and the richest pays the sum for being visited).
func turnsOf(p *Profile) []int {
	if len(p.Weights) == 0 {
		order := make([]int, len(p.Targets))
		for i := range order {
			order[i] = i
		}
		return order
	}
	var sum int
	for _, w := range p.Weights {
		sum += w
	}
	credit := make([]int, len(p.Weights))
	order := make([]int, sum)
	for turn := range order {
		best := 0
		for i, w := range p.Weights {
			if credit[i] += w; credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= sum
		order[turn] = best
	}
	return order
}

// seats shares n connections out among the targets: one each, the rest by weight.
func seatsOf(p *Profile, n int) []int {
	order := turnsOf(p)
	seats := make([]int, 0, n)
	for i := range min(n, len(p.Targets)) {
		seats = append(seats, i)
	}
	for i := len(p.Targets); i < n; i++ {
		seats = append(seats, order[i%len(order)])
	}
	return seats
}
