package mesh_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
)

// authority is a certificate authority of one test.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	a.cert = a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return key
}

func (a *authority) sign(t *testing.T, c *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key))(t)
	cert := must.Get(x509.ParseCertificate(der))(t)
	return cert
}

func (a *authority) leaf(t *testing.T, identity string) tls.Certificate {
	t.Helper()
	uri := must.Get(url.Parse(identity))(t)
	key := newKey(t)
	cert := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), URIs: []*url.URL{uri}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// client shows a certificate of this authority and takes any from the server.
func (a *authority) client(t *testing.T, identity string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{a.leaf(t, identity)}}
}

// files writes a certificate, its key and the authority's certificate as PEM.
func (a *authority) files(t *testing.T, identity string) (cert, key, ca string) {
	t.Helper()
	dir, leaf := t.TempDir(), a.leaf(t, identity)
	der := must.Get(x509.MarshalPKCS8PrivateKey(leaf.PrivateKey))(t)
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", leaf.Certificate[0]), write("key.pem", "PRIVATE KEY", der), write("ca.pem", "CERTIFICATE", a.cert.Raw)
}
