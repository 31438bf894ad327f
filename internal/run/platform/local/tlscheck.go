package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

const tlsHint = "the mesh declares mutual TLS, but the connections lack it; see the proxies' configurations and logs in the trial's provenance directory"

// dialTimeout bounds one connection with its request.
const dialTimeout = 3 * time.Second

// failureCounters are beside Envoy's handshake counters, by their last word (Envoy documentation,
// "TLS statistics" of listeners).
var failureCounters = []string{"connection_error", "fail_verify_no_cert", "fail_verify_error", "fail_verify_san", "fail_verify_cert_hash"}

// failures is the flow of TLS errors beside a flow of handshakes. It must not change.
func (f flow) failures() flow {
	e := flow{name: "TLS errors" + strings.TrimPrefix(f.name, "TLS handshakes"), sidecars: true, hint: tlsHint}
	for _, p := range f.parts {
		stem := strings.TrimSuffix(p.counter, "handshake")
		e.shown = stem + "{" + strings.Join(failureCounters, ",") + "}"
		for _, last := range failureCounters {
			e.parts = append(e.parts, part{p.pod, stem + last})
		}
	}
	return e
}

// checkTLS connects to each pod, as a caller and as clients that must be refused.
func (v *verifier) checkTLS(ctx context.Context) []check.Check {
	var checks []check.Check
	for _, s := range v.layout.spec.Topology.Services {
		for _, p := range v.layout.pods[s.Name] {
			if p.sidecar.Inbound != nil && len(p.sidecar.Inbound.Callers) > 0 {
				checks = append(checks, v.checkIdentity(ctx, p))
				checks = append(checks, v.checkRefusals(ctx, p)...)
			}
		}
	}
	return checks
}

// checkIdentity connects as one of the callers and checks the identity of the server.
func (v *verifier) checkIdentity(ctx context.Context, p *pod) check.Check {
	caller := p.sidecar.Inbound.Callers[0]
	c := check.Check{Name: "identity of " + p.name}
	served, err := v.request(ctx, p, callers(v.layout.spec.Topology, p.service)[0])
	switch {
	case err != nil:
		c.Detail = fmt.Sprintf("as %s: %v", caller, err)
	case served != p.sidecar.Identity:
		c.Detail = fmt.Sprintf("%s is served, %s expected", served, p.sidecar.Identity)
	default:
		c.OK, c.Detail = true, fmt.Sprintf("%s is served to %s", served, caller)
	}
	if c.OK {
		return c
	}
	c.Hint = tlsHint
	var status statusError
	if p.own.IsOwn() && errors.As(err, &status) {
		c.Hint = "set ready to a path that the program answers with 200, so that refusals of the mesh are distinguishable"
	}
	return c
}

// alpn is the protocol that a client offers in the handshake.
var alpn = map[string][]string{app.HTTP1: {"http/1.1"}, app.HTTP2: {"h2"}, app.GRPC: {"h2"}, app.WebSocket: {"http/1.1"}}

// outsider is a service with a valid certificate that no policy admits.
const outsider = "outside-client"

func (v *verifier) checkRefusals(ctx context.Context, p *pod) []check.Check {
	var checks []check.Check
	for _, try := range []struct{ name, service, hint string }{
		{"without a certificate", "", "the proxy requires no certificate of its clients: its configuration must"},
		{"as an outside client", outsider, "the proxy admits every certificate of its authority: its configuration must admit the callers alone, by their names (.Inbound.Callers and .Inbound.CallerNames in the definition)"},
	} {
		denied := v.denied(ctx, p, try.service)
		_, err := v.request(ctx, p, try.service)
		checks = append(checks, refusal(fmt.Sprintf("%s refuses connections %s", p.name, try.name), err, try.hint))
		checks = append(checks, denied()...)
	}
	_, err := exchange(ctx, p, func(c net.Conn) (net.Conn, string, error) { return c, "", nil })
	return append(checks, refusal(p.name+" refuses plain text", err, "the proxy accepts plain text on its port for callers in the mesh: its configuration must require TLS there"))
}

// denied prepares a check that the sidecar counts a denied request of a service with a valid
// certificate. Then the mesh's policy refused it, and no other failure. Without a counter in the
// mesh's definition there is no check.
func (v *verifier) denied(ctx context.Context, p *pod, service string) func() []check.Check {
	names, err := p.counterNames()
	if err == nil && (service == "" || names.Denied == "") {
		return func() []check.Check { return nil }
	}
	f := flow{name: fmt.Sprintf("%s denies a known %s", p.name, service), want: 1, parts: []part{{p, names.Denied}}, sidecars: true,
		hint: "the mesh's policy is not in force; see the proxies' configurations and logs in the trial's provenance directory"}
	var before []reading
	if err == nil {
		before, err = readAll(ctx, []flow{f})
	}
	return func() []check.Check {
		var after []reading
		if err == nil {
			after, err = settle(ctx, v.settle, []flow{f}, before)
		}
		if err != nil {
			return []check.Check{{Name: f.name, Detail: err.Error(), Hint: f.hint}}
		}
		c := f.check(before[0], after[0])
		if after[0].missing == "" {
			c.Detail = fmt.Sprintf("%s increased by %d for one request, 1 expected", f.names(), after[0].sum-before[0].sum)
		}
		return []check.Check{c}
	}
}

// errNoConnection: no connection was made. This does not prove a refusal.
var errNoConnection = errors.New("no connection")

// statusError is an answer other than 200.
type statusError int

func (s statusError) Error() string {
	return fmt.Sprintf("a request was answered %d %s", int(s), http.StatusText(int(s)))
}

// refusals are the statuses that refuse a caller. With any other the request was admitted.
var refusals = []statusError{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden}

// refusal is the check that a request was refused, with the cure if it was admitted.
func refusal(name string, err error, cure string) check.Check {
	var status statusError
	switch {
	case err == nil:
		return check.Check{Name: name, Detail: "a request was answered", Hint: cure}
	case errors.As(err, &status) && !slices.Contains(refusals, status):
		return check.Check{Name: name, Detail: err.Error(), Hint: cure}
	case errors.Is(err, errNoCertificate):
		return check.Check{Name: name, Detail: err.Error(), Hint: "the mesh's authority does not answer; see its control plane's log in the trial's provenance directory"}
	case errors.Is(err, errNoConnection):
		return check.Check{Name: name, Detail: err.Error(), Hint: "the proxy does not accept connections; see its log in the trial's provenance directory"}
	}
	return check.Check{Name: name, OK: true, Detail: err.Error()}
}

// errNoCertificate: no certificate to connect with. This does not prove a refusal.
var errNoCertificate = errors.New("no certificate to connect with")

// request sends one request over TLS with a certificate of the service, or without one, and
// returns the identity of the server.
func (v *verifier) request(ctx context.Context, p *pod, service string) (served string, err error) {
	config, err := v.client(ctx, p, service)
	if err != nil {
		return "", err
	}
	return exchange(ctx, p, func(c net.Conn) (net.Conn, string, error) {
		conn := tls.Client(c, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, "", fmt.Errorf("TLS handshake: %w", err)
		}
		uris := conn.ConnectionState().PeerCertificates[0].URIs
		if len(uris) != 1 {
			return nil, "", fmt.Errorf("the certificate served has %d identities, want 1", len(uris))
		}
		return conn, uris[0].String(), nil
	})
}

// client is the configuration of TLS to a pod, with a certificate of the service or without one.
func (v *verifier) client(ctx context.Context, p *pod, service string) (*tls.Config, error) {
	roots, err := v.proxies.issuer().roots(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCertificate, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: alpn[p.carried()],
		ServerName: p.service,
		// SPIFFE certificates have no host name: the chain is verified below, the identity by the caller.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			intermediates := x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				intermediates.AddCert(c)
			}
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates,
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			return err
		},
	}
	if service != "" {
		c, err := v.proxies.issuer().certificate(ctx, service)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoCertificate, err)
		}
		config.Certificates = []tls.Certificate{c}
	}
	return config, nil
}

// exchange sends one request for the application's health to a pod and reads the answer. With TLS
// 1.3 only the answer shows that the client is refused.
func exchange(ctx context.Context, p *pod, secure func(net.Conn) (net.Conn, string, error)) (served string, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", p.inbound.String())
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoConnection, err)
	}
	defer raw.Close()
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return "", fmt.Errorf("%w: %w", errNoConnection, err)
	}
	conn, served, err := secure(raw)
	if err != nil {
		return "", err
	}
	if p.own.Secure() { // within the mesh's encryption
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: alpn[p.protocol]}) //nolint:gosec // any certificate
	}
	if err := clients[p.protocol].exchange(ctx, conn, p); err != nil {
		return "", err
	}
	return served, nil
}
