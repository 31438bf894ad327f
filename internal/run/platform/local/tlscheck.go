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

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const tlsHint = "the mesh claims mutual TLS but the connections are not so; see the proxies' configurations and logs in the trial's provenance directory"

// dialTimeout bounds one connection that is tried, its request included.
const dialTimeout = 3 * time.Second

// failureCounters stand beside Envoy's handshake counters, by their last word
// (Envoy documentation, "TLS statistics" of listeners).
var failureCounters = []string{"connection_error", "fail_verify_no_cert", "fail_verify_error", "fail_verify_san", "fail_verify_cert_hash"}

// failures is the flow of the TLS errors that belong to a flow of handshakes: it must not move.
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

// checkTLS connects to each pod's way in, as a caller and as those who must be kept out.
func (v *verifier) checkTLS(ctx context.Context) []platform.Check {
	var checks []platform.Check
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

// checkIdentity connects as one of the callers and looks at who answers.
func (v *verifier) checkIdentity(ctx context.Context, p *pod) platform.Check {
	caller := p.sidecar.Inbound.Callers[0]
	c := platform.Check{Name: "identity of " + p.name}
	served, err := v.request(ctx, p, callers(v.layout.spec.Topology, p.service)[0])
	switch {
	case err != nil:
		c.Detail = fmt.Sprintf("as %s: %v", caller, err)
	case served != p.sidecar.Identity:
		c.Detail = fmt.Sprintf("%s is served, %s expected", served, p.sidecar.Identity)
	default:
		c.OK, c.Detail = true, fmt.Sprintf("%s is served to %s", served, caller)
	}
	if !c.OK {
		c.Hint = tlsHint
	}
	return c
}

// alpn is what a client of a protocol offers in the handshake.
var alpn = map[string][]string{app.HTTP1: {"http/1.1"}, app.HTTP2: {"h2"}, app.GRPC: {"h2"}}

// stranger has a certificate of the right authority and no business here.
const stranger = "stranger"

func (v *verifier) checkRefusals(ctx context.Context, p *pod) []platform.Check {
	var checks []platform.Check
	for _, try := range []struct{ name, service string }{
		{"without a certificate", ""},
		{"as a stranger", stranger},
	} {
		denied := v.denied(ctx, p, try.service)
		_, err := v.request(ctx, p, try.service)
		checks = append(checks, refusal(fmt.Sprintf("%s refuses connections %s", p.name, try.name), err))
		checks = append(checks, denied()...)
	}
	_, err := exchange(ctx, p, func(c net.Conn) (net.Conn, string, error) { return c, "", nil })
	return append(checks, refusal(p.name+" refuses plain text", err))
}

// denied prepares to check that the sidecar itself says that it refuses a
// service it knows by its certificate: then it was the mesh's policy, and no other
// failure. There is no such check where the mesh's definition names no counter.
func (v *verifier) denied(ctx context.Context, p *pod, service string) func() []platform.Check {
	names, err := v.layout.spec.Mesh.Local.Verify.Counters(p.sidecar)
	if err == nil && (service == "" || names.Denied == "") {
		return func() []platform.Check { return nil }
	}
	f := flow{name: fmt.Sprintf("%s denies a known %s", p.name, service), want: 1, parts: []part{{p, names.Denied}}, sidecars: true,
		hint: "the mesh's policy is not in force; see the proxies' configurations and logs in the trial's provenance directory"}
	var before []reading
	if err == nil {
		before, err = readAll(ctx, []flow{f})
	}
	return func() []platform.Check {
		var after []reading
		if err == nil {
			after, err = settle(ctx, v.settle, []flow{f}, before)
		}
		if err != nil {
			return []platform.Check{{Name: f.name, Detail: err.Error(), Hint: f.hint}}
		}
		c := f.check(before[0], after[0])
		if after[0].missing == "" {
			c.Detail = fmt.Sprintf("%s moved by %d for one request, 1 expected", f.names(), after[0].sum-before[0].sum)
		}
		return []platform.Check{c}
	}
}

// errNoConnection says that a try did not come as far as a connection: that is no proof of a refusal.
var errNoConnection = errors.New("no connection")

// statusError is an answer other than 200.
type statusError int

func (s statusError) Error() string {
	return fmt.Sprintf("a request was answered %d %s", int(s), http.StatusText(int(s)))
}

// refusals are the statuses that refuse a caller; any other shows that the request was let in.
var refusals = []statusError{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden}

func refusal(name string, err error) platform.Check {
	var status statusError
	switch {
	case err == nil:
		return platform.Check{Name: name, Detail: "a request was answered", Hint: tlsHint}
	case errors.As(err, &status) && !slices.Contains(refusals, status):
		return platform.Check{Name: name, Detail: err.Error(), Hint: tlsHint}
	case errors.Is(err, errNoCertificate):
		return platform.Check{Name: name, Detail: err.Error(), Hint: "the mesh's authority does not answer; see the log of its control plane in the trial's provenance directory"}
	case errors.Is(err, errNoConnection):
		return platform.Check{Name: name, Detail: err.Error(), Hint: "the proxy does not accept connections; see its log in the trial's provenance directory"}
	}
	return platform.Check{Name: name, OK: true, Detail: err.Error()}
}

// errNoCertificate says that a try could not be made: that is no proof of a refusal either.
var errNoCertificate = errors.New("no certificate to try with")

// request sends one request over TLS with a certificate of the service (none
// if empty), and returns the identity that the other end showed.
func (v *verifier) request(ctx context.Context, p *pod, service string) (served string, err error) {
	roots, err := v.proxies.issuer().roots(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoCertificate, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: alpn[p.protocol],
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
			return "", fmt.Errorf("%w: %w", errNoCertificate, err)
		}
		config.Certificates = []tls.Certificate{c}
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

// exchange sends one request for the application's health into a pod and reads
// the answer; with TLS 1.3 a refusal of the client only shows in the answer.
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
	if err := speakers[p.protocol].exchange(ctx, conn, p.service); err != nil {
		return "", err
	}
	return served, nil
}
