// Package pki makes the keys and certificates of a cluster. They live for as long as the cluster does and are
// trusted by nothing else.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is longer than any cluster that is thrown away after its tests.
const lifetime = 365 * 24 * time.Hour

// Certificate describes the subject of a certificate.
type Certificate struct {
	File         string // without the suffixes .crt and .key
	Name         string // common name: the user
	Organization string // the group, may be empty
	Hosts        []string
	Addresses    []net.IP
}

// Authority signs certificates, and keeps them in a directory, keys readable by their owner alone.
type Authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	PEM  []byte // its own certificate
}

// NewAuthority makes an authority whose certificate and key are dir/file.crt and dir/file.key.
func NewAuthority(dir, file, name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of %s: %w", name, err)
	}
	template, err := template(name)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate of %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back certificate of %s: %w", name, err)
	}
	a := &Authority{dir: dir, key: key, cert: cert}
	a.PEM, _, err = write(dir, file, der, key)
	return a, err
}

// Issue signs a certificate for clients and servers and returns certificate and key as PEM.
func (a *Authority) Issue(c Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key of %s: %w", c.Name, err)
	}
	template, err := template(c.Name)
	if err != nil {
		return nil, nil, err
	}
	if c.Organization != "" {
		template.Subject.Organization = []string{c.Organization}
	}
	template.DNSNames, template.IPAddresses = c.Hosts, c.Addresses
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate of %s: %w", c.Name, err)
	}
	return write(a.dir, c.File, der, private)
}

// KeyPair makes a bare key pair, dir/file.key and dir/file.pub, such as service account tokens are signed with.
func KeyPair(dir, file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key %s: %w", file, err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encode public key %s: %w", file, err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", file, err)
	}
	if _, err := writePEM(filepath.Join(dir, file+".pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	_, err = writePEM(filepath.Join(dir, file+".key"), "EC PRIVATE KEY", private)
	return err
}

func template(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choose serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(lifetime)}, nil
}

func write(dir, file string, der []byte, key *ecdsa.PrivateKey) (certPEM, keyPEM []byte, err error) {
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key %s: %w", file, err)
	}
	if certPEM, err = writePEM(filepath.Join(dir, file+".crt"), "CERTIFICATE", der); err != nil {
		return nil, nil, err
	}
	keyPEM, err = writePEM(filepath.Join(dir, file+".key"), "EC PRIVATE KEY", private)
	return certPEM, keyPEM, err
}

func writePEM(path, kind string, der []byte) ([]byte, error) {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return data, os.WriteFile(path, data, 0o600)
}
