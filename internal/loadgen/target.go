package loadgen

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

// target is one URL, taken apart and ready to be asked.
type target struct {
	url     *url.URL
	addr    netip.AddrPort
	socket  string      // path of a Unix socket, in place of addr
	tls     *tls.Config // nil: plaintext
	request []byte      // the whole request, written as it is
}

// parseTarget checks one URL of a profile without looking up its host.
func parseTarget(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("target: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("target %q does not begin with http:// or https://", raw)
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

// resolveTargets looks every host up once, before the load begins: a look-up
// under way would be charged to the server.
func resolveTargets(ctx context.Context, p *Profile) ([]target, error) {
	targets := make([]target, len(p.Targets))
	for i, raw := range p.Targets {
		u, err := parseTarget(raw)
		if err != nil {
			return nil, err
		}
		t := target{url: u, socket: p.Socket, request: buildRequest(u, p)}
		if t.socket == "" {
			if t.addr, err = resolve(ctx, u); err != nil {
				return nil, fmt.Errorf("look up target %s: %w", raw, err)
			}
		}
		if u.Scheme == "https" {
			if t.tls, err = p.TLS.config(u.Hostname()); err != nil {
				return nil, fmt.Errorf("target %s: %w", raw, err)
			}
		}
		targets[i] = t
	}
	return targets, nil
}

func resolve(ctx context.Context, u *url.URL) (netip.AddrPort, error) {
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if s := u.Port(); s != "" {
		port, _ = strconv.ParseUint(s, 10, 16) // parseTarget has seen to it
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return netip.AddrPortFrom(addr, uint16(port)), nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(addrs) == 0 {
		return netip.AddrPort{}, errors.New("no address")
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), uint16(port)), nil
}

// buildRequest writes the request once; every send writes the same bytes.
func buildRequest(u *url.URL, p *Profile) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tare\r\n", p.Method, u.RequestURI(), u.Host)
	if p.RequestSize > 0 || p.Method == "POST" || p.Method == "PUT" || p.Method == "PATCH" {
		fmt.Fprintf(&b, "Content-Type: application/octet-stream\r\nContent-Length: %d\r\n", p.RequestSize)
	}
	b.WriteString("\r\n")
	b.Write(bytes.Repeat([]byte{'x'}, int(p.RequestSize)))
	return b.Bytes()
}
