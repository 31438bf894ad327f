package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"time"
)

// validity of a trial's certificates: longer than any trial.
const validity = 7 * 24 * time.Hour

// trustDomain of the identities of a local trial.
const trustDomain = "tare.local"

// identityOf is the SPIFFE ID of a service, in the format of meshes on Kubernetes.
func identityOf(service string) string {
	return "spiffe://" + trustDomain + "/ns/default/sa/" + service
}

// authority is the certificate authority of one deployment. Its key remains in memory.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the trial's certificate authority: %w", err)
	}
	uri, err := url.Parse("spiffe://" + trustDomain)
	if err != nil {
		return nil, err
	}
	t, err := template("tare trial CA", uri)
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the trial's certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the trial's certificate authority: %w", err)
	}
	return &authority{key: key, cert: cert, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// issue makes a certificate for clients and servers of a service: its SPIFFE ID, and for proxies that do not read it the
// service's name as common name and as host name.
func (a *authority) issue(service string) (tls.Certificate, error) {
	fail := func(err error) (tls.Certificate, error) {
		return tls.Certificate{}, fmt.Errorf("issue a certificate to %s: %w", service, err)
	}
	uri, err := url.Parse(identityOf(service))
	if err != nil {
		return fail(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	t, err := template(service, uri)
	if err != nil {
		return fail(err)
	}
	t.KeyUsage, t.DNSNames = x509.KeyUsageDigitalSignature, []string{service}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fail(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func template(name string, uri *url.URL) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		URIs:         []*url.URL{uri},
		NotBefore:    now.Add(-time.Hour), // the clock may be stepped back
		NotAfter:     now.Add(validity),
	}, nil
}

// write writes a certificate and its key to files that only this user can read.
func write(c tls.Certificate, certPath, keyPath string) error {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	if err := os.WriteFile(certPath, cert, 0o600); err != nil {
		return fmt.Errorf("write a certificate: %w", err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(keyPath, key, 0o600); err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	return nil
}
