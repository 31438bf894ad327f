package mesh_test

import (
	"crypto/tls"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/base/certificate"
	"github.com/tare-mesh/tare/test/must"
)

// authority is a certificate authority of one test.
type authority struct{ *certificate.Pair }

func newAuthority(t *testing.T) *authority {
	t.Helper()
	return &authority{must.Get(certificate.New(certificate.Authority("test CA"), nil))(t)}
}

func (a *authority) leaf(t *testing.T, identity string) *certificate.Pair {
	t.Helper()
	template := certificate.Leaf("")
	template.URIs = []*url.URL{must.Get(url.Parse(identity))(t)}
	return must.Get(certificate.New(template, a.Pair))(t)
}

// client shows a certificate of this authority and takes any from the server.
func (a *authority) client(t *testing.T, identity string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{a.leaf(t, identity).TLS()}}
}

// files writes a certificate, its key and the authority's certificate as PEM.
func (a *authority) files(t *testing.T, identity string) (cert, key, ca string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must.OK(t, a.leaf(t, identity).Write(cert, key))
	return cert, key, must.File(t, dir, "ca.pem", string(a.PEM()))
}
