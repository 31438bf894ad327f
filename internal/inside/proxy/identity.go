package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/tare-mesh/tare/internal/base/dial"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// identity is the pod's own certificate and its trusted CA.
type identity struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

// newIdentity reads the certificates, and returns nil if the mesh has none.
func newIdentity(c mesh.SidecarContext) (*identity, error) {
	if c.CertPath == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(c.CertPath, c.KeyPath)
	if err != nil {
		return nil, fmt.Errorf("read its certificate: %w", err)
	}
	ca, err := os.ReadFile(c.CAPath)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read the authority's certificate: %s has none", c.CAPath)
	}
	return &identity{cert, roots}, nil
}

// secure makes a server require a certificate of one of the callers.
func (id *identity) secure(s *http.Server, callers []string, n *tlsCounters) {
	c := id.base()
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, id.roots
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if caller := uriOf(state); !slices.Contains(callers, caller) {
			n.wrongName.Add(1)
			return fmt.Errorf("caller %q is not let in", caller)
		}
		n.handshakes.Add(1)
		return nil
	}
	s.TLSConfig = c
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.ErrorLog = log.New(failedConnections{n}, "", 0)
}

// failedConnections counts the log lines of a server: each is a failed
// connection.
type failedConnections struct{ n *tlsCounters }

func (f failedConnections) Write(line []byte) (int, error) {
	f.n.failed.Add(1)
	return os.Stderr.Write(line)
}

// dial returns a dialer that connects to a service and verifies its identity.
func (id *identity) dial(connect dial.Func, out mesh.Outbound, n *tlsCounters) dial.Func {
	c := id.base()
	c.ServerName = out.Service
	// SPIFFE certificates have no host name: chain and identity are verified here.
	c.InsecureSkipVerify = true
	c.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	c.VerifyConnection = func(s tls.ConnectionState) error { return id.verify(s, out.Identity) }
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := secured(ctx, connect, c, network, address)
		switch {
		case err == nil:
			n.handshakes.Add(1)
		case errors.Is(err, errWrongName):
			n.wrongName.Add(1)
		case isTLS(err):
			n.failed.Add(1)
		}
		return conn, err
	}
}

// base returns the common TLS configuration: TLS 1.3, HTTP/1.1, one certificate.
func (id *identity) base() *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"http/1.1"},
		Certificates: []tls.Certificate{id.certificate},
	}
}

// secured connects with TLS and presents the pod's certificate.
func secured(ctx context.Context, connect dial.Func, c *tls.Config, network, address string) (net.Conn, error) {
	plain, err := connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, c)
	if err := conn.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, err
	}
	return conn, nil
}

var errWrongName = errors.New("it shows another identity")

func (id *identity) verify(s tls.ConnectionState, want string) error {
	intermediates := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: id.roots, Intermediates: intermediates,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return err
	}
	if got := uriOf(s); got != want {
		return fmt.Errorf("%w: %q, %q expected", errWrongName, got, want)
	}
	return nil
}

// isTLS reports whether an error is a failed handshake rather than a failed connection.
func isTLS(err error) bool {
	var op *net.OpError
	return !errors.As(err, &op) || op.Op != "dial"
}
