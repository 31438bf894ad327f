package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

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

func (m meshIssuer) certificate(ctx context.Context, service string) (tls.Certificate, error) {
	fail := func(err error) (tls.Certificate, error) {
		return tls.Certificate{}, fmt.Errorf("get a certificate of %s: %w", service, err)
	}
	answer, err := m.control.request(ctx, m.definition.Issue, m.templates(service))
	if err != nil {
		return fail(err)
	}
	chain, err := field(answer, m.definition.Chain)
	if err != nil {
		return fail(err)
	}
	key, err := field(answer, m.definition.Key)
	if err != nil {
		return fail(err)
	}
	c, err := tls.X509KeyPair([]byte(chain), []byte(key))
	if err != nil {
		return fail(err)
	}
	return c, nil
}

func (m meshIssuer) roots(ctx context.Context) (*x509.CertPool, error) {
	answer, err := m.control.request(ctx, m.definition.Roots, m.templates(""))
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(answer) {
		err = errors.New("the answer has no certificate in PEM")
	}
	if err != nil {
		return nil, fmt.Errorf("get the roots of the mesh's authority: %w", err)
	}
	return pool, nil
}

func (m meshIssuer) templates(service string) mesh.CertificateContext {
	return mesh.CertificateContext{Service: service, Control: m.control.contexts(), Secrets: m.secrets.get}
}
