// Package certificate makes X.509 certificates with ECDSA keys, for trials, meshes and tests.
package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"
)

// Pair is a certificate with its private key, P-256.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// Authority is the template of a certificate that signs others.
func Authority(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature}
}

// Leaf is the template of a certificate of a client or server.
func Leaf(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
}

const (
	clockSkew = time.Hour // a clock may be behind, or be stepped back
	lifetime  = 7 * 24 * time.Hour
)

// New makes a key, and its certificate with the fields of a template. A parent signs it, nil for its own key. Its serial
// number is random. By default it is valid for a week, and since an hour.
func New(template x509.Certificate, parent *Pair) (*Pair, error) {
	fail := func(err error) (*Pair, error) {
		return nil, fmt.Errorf("make the certificate of %s: %w", template.Subject.CommonName, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return fail(err)
	}
	now := time.Now()
	if template.NotBefore.IsZero() {
		template.NotBefore = now.Add(-clockSkew)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = now.Add(lifetime)
	}
	if parent == nil {
		parent = &Pair{&template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent.Certificate, &key.PublicKey, parent.Key)
	if err != nil {
		return fail(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return fail(err)
	}
	return &Pair{made, key}, nil
}

// PEM is the certificate.
func (p *Pair) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate.Raw})
}

// KeyPEM is the private key, as Linkerd reads it (SEC 1).
func (p *Pair) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(p.Key)
	if err != nil {
		return nil, fmt.Errorf("encode the key of %s: %w", p.Certificate.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// TLS is the pair for connections.
func (p *Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: p.Key}
}

// Write writes the certificate and the key to files that only this user can read.
func (p *Pair) Write(certPath, keyPath string) error {
	key, err := p.KeyPEM()
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(certPath, p.PEM(), 0o600), os.WriteFile(keyPath, key, 0o600)); err != nil {
		return fmt.Errorf("write the certificate of %s: %w", p.Certificate.Subject.CommonName, err)
	}
	return nil
}
