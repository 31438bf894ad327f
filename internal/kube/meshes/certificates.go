package meshes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Validity of an installation's CA. clockSkew is how far a node's clock may be behind.
const (
	certificateLifetime = 365 * 24 * time.Hour
	clockSkew           = time.Hour
)

// issueCertificates creates a trust anchor and an issuer under it, ECDSA P-256, as Linkerd requires. The anchor's key is
// discarded, so that no other issuer can be created.
func issueCertificates(namespace string) (mesh.IssuedCertificates, error) {
	anchor, anchorKey, err := certify("root."+namespace+".cluster.local", 1, nil, nil)
	if err != nil {
		return mesh.IssuedCertificates{}, err
	}
	issuer, issuerKey, err := certify("identity."+namespace+".cluster.local", 0, anchor, anchorKey)
	if err != nil {
		return mesh.IssuedCertificates{}, err
	}
	key, err := x509.MarshalECPrivateKey(issuerKey)
	if err != nil {
		return mesh.IssuedCertificates{}, fmt.Errorf("encode the issuer's key: %w", err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return mesh.IssuedCertificates{TrustAnchor: text("CERTIFICATE", anchor.Raw), Issuer: text("CERTIFICATE", issuer.Raw), IssuerKey: text("EC PRIVATE KEY", key)}, nil
}

// certify creates one CA certificate, self-signed without a parent.
func certify(name string, pathLength int, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("create the key of %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("create the certificate of %s: %w", name, err)
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLen: pathLength, MaxPathLenZero: pathLength == 0, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	if parent == nil {
		parent, parentKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, fmt.Errorf("create the certificate of %s: %w", name, err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("create the certificate of %s: %w", name, err)
	}
	return made, key, nil
}
