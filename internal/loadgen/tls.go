package loadgen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// config reads the files and makes a client configuration for host. A nil t
// means the defaults.
func (t *TLS) config(host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		// Connections opened again resume their session, as clients do.
		ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	if t == nil {
		return c, nil
	}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	c.InsecureSkipVerify = t.Insecure
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read trusted roots: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read trusted roots: no certificate in %s", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// tlsKind tells what kind of failure a handshake's error is.
func tlsKind(err error) kind {
	var verify *tls.CertificateVerificationError
	if errors.As(err, &verify) {
		return kindCertificate
	}
	if k := netKind(err); k != kindOther {
		return k
	}
	return kindTLS
}
