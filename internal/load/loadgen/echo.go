package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
)

// Protocol tcp: a request is a number of bytes, and its answer is the same bytes.

// schemeTCP and schemeTLS are the schemes of a target of protocol tcp, plain and over TLS.
const (
	schemeTCP = "tcp"
	schemeTLS = "tls"
)

// ofEcho says whether a target is one that only an echo can have.
func ofEcho(u *url.URL) bool { return u.Scheme == schemeTCP || u.Scheme == schemeTLS }

// longEcho is the size in bytes above which an echo may come back before all is sent.
const longEcho = 32 << 10

// echoed is what an exchange sends: the body, or one byte where there is none.
func echoed(body []byte) []byte {
	if len(body) == 0 {
		return []byte{'x'}
	}
	return body
}

// takeEcho compares what has come back with what was sent.
func (p *parser) takeEcho(b []byte) (used int, k kind) {
	rest := p.echo[p.body:]
	b = b[:min(len(b), len(rest))]
	if !bytes.Equal(b, rest[:len(b)]) {
		return 0, kindWrongEcho
	}
	if p.body += int64(len(b)); len(b) == len(rest) {
		p.state = atDone
	}
	return len(b), kindNone
}

// validateEcho names what an echo cannot be asked for, and a target that only an
// echo can have.
func (p *Profile) validateEcho() (errs []error) {
	echo := p.Protocol == protocolTCP
	for _, raw := range p.Targets {
		u, err := parseTarget(raw)
		switch {
		case err != nil: // named already
		case ofEcho(u) && !echo:
			errs = append(errs, fmt.Errorf("target %s is of protocol tcp, not %s", raw, p.Protocol))
		case ofEcho(u) && u.Port() == "" && p.Socket == "":
			errs = append(errs, fmt.Errorf("target %s names no port", raw))
		}
	}
	for _, wish := range []struct {
		there bool
		what  string
	}{{len(p.Headers) > 0, "headers"}, {len(p.BodyHas)+len(p.BodyLacks)+len(p.JSONHas)+len(p.JSONLacks) > 0, "checks of the body"}, {len(p.ExpectStatus) > 0, "checks of the status"}} {
		if echo && wish.there {
			errs = append(errs, fmt.Errorf("%s with protocol tcp: %w", wish.what, errors.ErrUnsupported))
		}
	}
	return errs
}
