package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/certificate"
	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// issuer issues the identities of a deployment: tare's own authority, or the mesh's.
type issuer interface {
	// identity is the SPIFFE ID of a service.
	identity(service string) (string, error)
	// certificate is a certificate of the service, for probes.
	certificate(ctx context.Context, service string) (tls.Certificate, error)
	// roots are the authorities that must have signed the mesh's certificates.
	roots(ctx context.Context) (*x509.CertPool, error)
}

func (px *proxies) issuer() issuer {
	if local := px.layout.spec.Mesh.Local; local != nil && local.Certificates != nil {
		return meshIssuer{px.control, px.workspace.secrets, *local.Certificates}
	}
	return ownIssuer{px.authority}
}

// ownIssuer is tare's own authority, nil without mTLS, where identities are names only.
type ownIssuer struct{ authority *authority }

func (o ownIssuer) identity(service string) (string, error) { return identityOf(service), nil }

func (o ownIssuer) certificate(_ context.Context, service string) (tls.Certificate, error) {
	pair, err := o.authority.issue(service)
	if err != nil {
		return tls.Certificate{}, err
	}
	return pair.TLS(), nil
}

func (o ownIssuer) roots(context.Context) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	pool.AddCert(o.authority.Certificate)
	return pool, nil
}

// meshIssuer requests certificates from the mesh's control plane, and keeps none.
type meshIssuer struct {
	control    *controlPlane
	secrets    *secrets
	definition mesh.Certificates
}

func (m meshIssuer) identity(service string) (string, error) {
	return m.definition.IdentityOf(m.templates(service))
}

func (m meshIssuer) certificate(ctx context.Context, service string) (c tls.Certificate, err error) {
	defer func() { err = hint.Prefix(err, "get a certificate of %s", service) }()
	answer, err := m.control.request(ctx, m.definition.Issue, m.templates(service))
	if err != nil {
		return c, err
	}
	chain, err := field(answer, m.definition.Chain)
	if err != nil {
		return c, err
	}
	key, err := field(answer, m.definition.Key)
	if err != nil {
		return c, err
	}
	return tls.X509KeyPair([]byte(chain), []byte(key))
}

func (m meshIssuer) roots(ctx context.Context) (*x509.CertPool, error) {
	answer, err := m.control.request(ctx, m.definition.Roots, m.templates(""))
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(answer) {
		err = errors.New("the answer has no certificate in PEM")
	}
	return pool, hint.Prefix(err, "get the roots of the mesh's authority")
}

func (m meshIssuer) templates(service string) mesh.CertificateContext {
	return mesh.CertificateContext{Service: service, Control: m.control.contexts(), Secrets: m.secrets.get}
}

// trustDomain of the identities of a local trial.
const trustDomain = "tare.local"

// identityOf is the SPIFFE ID of a service, in the format of meshes on Kubernetes.
func identityOf(service string) string {
	return "spiffe://" + trustDomain + "/ns/default/sa/" + service
}

// authority is the certificate authority of one deployment. Its key remains in memory.
type authority struct{ *certificate.Pair }

func newAuthority() (*authority, error) {
	t := certificate.Authority("tare trial CA")
	t.URIs = []*url.URL{{Scheme: "spiffe", Host: trustDomain}}
	pair, err := certificate.New(t, nil)
	return &authority{pair}, err
}

// issue makes a certificate for clients and servers of a service: its SPIFFE ID, and for proxies that do not read it the
// service's name as common name and as host name.
func (a *authority) issue(service string) (*certificate.Pair, error) {
	uri, err := url.Parse(identityOf(service))
	if err != nil {
		return nil, fmt.Errorf("issue a certificate to %s: %w", service, err)
	}
	t := certificate.Leaf(service)
	t.URIs, t.DNSNames = []*url.URL{uri}, []string{service}
	return certificate.New(t, a.Pair)
}

// secrets are the random values in a mesh's templates, by name. They are written to the
// deployment's runtime directory only, and removed with it.
type secrets struct {
	mu     sync.Mutex
	values map[string]string
}

// get is a UUID of 122 random bits (RFC 9562, version 4), the same for the same name.
func (s *secrets) get(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[name] == "" {
		var b [16]byte
		_, _ = rand.Read(b[:]) // it never fails
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		s.values[name] = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	return s.values[name]
}

func (s *secrets) redact(text []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		text = bytes.ReplaceAll(text, []byte(s.values[name]), []byte("SECRET-"+name))
	}
	return text
}

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
