package target

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/load"
)

// Protocols by the names that TLS has for them (ALPN, RFC 7301).
const (
	alpnHTTP1 = "http/1.1"
	AlpnHTTP2 = "h2"
)

// offered are the protocols that a server may choose from. To a server of HTTP/2
// HTTP/1.1 is offered too, so that a server without HTTP/2 chooses that.
var offered = map[string][]string{
	load.ProtocolHTTP1: {alpnHTTP1},
	load.ProtocolHTTP2: {AlpnHTTP2, alpnHTTP1},
	load.ProtocolGRPC:  {AlpnHTTP2},

	load.ProtocolWebSocket: {alpnHTTP1},
}

// maxCertificates bounds a file of certificates, in bytes. A system's roots have 250 KiB.
const maxCertificates = 16 << 20

// config reads the files and makes a client configuration for host, which offers
// the named protocols. A nil t means the defaults.
func tlsConfig(t *load.TLS, host string, protocols []string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, NextProtos: protocols,
		// A request is not made smaller records because the connection is young.
		DynamicRecordSizingDisabled: true}
	c.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	if t == nil {
		return c, nil
	}
	c.InsecureSkipVerify = t.Insecure
	if t.CAFile != "" {
		pem, err := regular.ReadInput(t.CAFile, maxCertificates)
		if err != nil {
			return nil, fmt.Errorf("read trusted roots: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read trusted roots: no certificate in %s", t.CAFile)
		}
	}
	if t.CertFile != "" {
		own, err := newIdentity(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		c.GetClientCertificate = own.certificate
		c.ClientSessionCache = own
	}
	return c, nil
}

// keyPair reads a client certificate and its key.
func keyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := regular.ReadInput(certFile, maxCertificates)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := regular.ReadInput(keyFile, maxCertificates)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
