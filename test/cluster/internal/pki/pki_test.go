package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestIssuedCertificateIsTrustedAndPrivate(t *testing.T) {
	dir := t.TempDir()
	authority := must.Get(NewAuthority(dir, "ca", "test-ca"))(t)
	cert, key, err := authority.Issue(Certificate{File: "leaf", Name: "someone", Organization: "group",
		Hosts: []string{"host.example"}, Addresses: []net.IP{net.IPv4(10, 0, 0, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	pair := must.Get(tls.X509KeyPair(cert, key))(t)
	leaf := must.Get(x509.ParseCertificate(pair.Certificate[0]))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM())
	for _, host := range []string{"host.example", "10.0.0.1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "another.example"}); err == nil {
		t.Error("trusted for a name it was not issued for")
	}
	if leaf.Subject.CommonName != "someone" || leaf.Subject.Organization[0] != "group" {
		t.Errorf("subject %s", leaf.Subject)
	}
	for _, file := range []string{"ca.key", "leaf.key"} {
		if info, err := os.Stat(dir + "/" + file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
}
