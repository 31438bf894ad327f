package meshes

import (
	"crypto/x509"
	"time"

	"github.com/tare-mesh/tare/internal/base/certificate"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// certificateLifetime is the validity of an installation's CA.
const certificateLifetime = 365 * 24 * time.Hour

// issueCertificates creates a trust anchor and an issuer under it, ECDSA P-256, as Linkerd requires. The anchor's key is
// discarded, so that no other issuer can be created.
func issueCertificates(namespace string) (all mesh.IssuedCertificates, err error) {
	authority := func(name string, pathLength int) x509.Certificate {
		t := certificate.Authority(name + "." + namespace + ".cluster.local")
		t.NotAfter, t.MaxPathLen, t.MaxPathLenZero = time.Now().Add(certificateLifetime), pathLength, pathLength == 0
		return t
	}
	anchor, err := certificate.New(authority("root", 1), nil)
	if err != nil {
		return all, err
	}
	issuer, err := certificate.New(authority("identity", 0), anchor)
	if err != nil {
		return all, err
	}
	key, err := issuer.KeyPEM()
	return mesh.IssuedCertificates{TrustAnchor: string(anchor.PEM()), Issuer: string(issuer.PEM()), IssuerKey: string(key)}, err
}
