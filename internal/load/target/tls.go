package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"

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

// NetFailure names an error of package net.
func NetFailure(err error) load.Failure {
	if err == nil {
		return load.FailureNone
	}
	for _, known := range []struct {
		err  error
		kind load.Failure
	}{
		{os.ErrDeadlineExceeded, load.FailureTimeout},
		{context.DeadlineExceeded, load.FailureTimeout},
		{syscall.ECONNREFUSED, load.FailureRefused},
		{syscall.ENOENT, load.FailureRefused},
		{syscall.ECONNRESET, load.FailureReset},
		{syscall.EPIPE, load.FailureReset},
		{syscall.ECONNABORTED, load.FailureReset},
		{syscall.EMFILE, load.FailureNoDescriptors},
		{syscall.ENFILE, load.FailureNoDescriptors},
		{syscall.EADDRNOTAVAIL, load.FailureNoPorts},
		{syscall.ENETUNREACH, load.FailureUnreachable},
		{syscall.EHOSTUNREACH, load.FailureUnreachable},
		{io.EOF, load.FailureClosedEarly},
		{io.ErrUnexpectedEOF, load.FailureHalfResponse},
	} {
		if errors.Is(err, known.err) {
			return known.kind
		}
	}
	// An alert. In TLS 1.3 the refusal of a client's certificate comes after the handshake.
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" {
		return load.FailureTLS
	}
	return load.FailureOther
}

// noProtocol ends the error of an alert no_application_protocol, whose type
// crypto/tls keeps to itself.
const noProtocol = "tls: no application protocol"

// TLSFailure classifies the error of a handshake.
func TLSFailure(err error) load.Failure {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return load.FailureCertificate
	}
	if strings.HasSuffix(err.Error(), noProtocol) {
		return load.FailureALPN
	}
	if k := NetFailure(err); k != load.FailureOther {
		return k
	}
	return load.FailureTLS
}

// identity is a client certificate, which is read again when its files have changed: certificates
// of meshes and of cert-manager are renewed while a load runs. From then on no session is resumed:
// it would have the old certificate, and a ticket does not show which.
type identity struct {
	certFile, keyFile string

	mu       sync.Mutex
	cert     tls.Certificate
	files    [2]os.FileInfo         // as they were read, nil for no regular file, which is read once
	sessions tls.ClientSessionCache // nil: none is resumed
}

// newIdentity reads the certificate.
func newIdentity(certFile, keyFile string) (*identity, error) {
	i := &identity{certFile: certFile, keyFile: keyFile, files: [2]os.FileInfo{fileInfo(certFile), fileInfo(keyFile)}, sessions: tls.NewLRUClientSessionCache(0)}
	var err error
	i.cert, err = keyPair(certFile, keyFile)
	return i, err
}

// certificate returns the client certificate for a new connection, from the files as they are now.
func (i *identity) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refresh()
	cert := i.cert
	return &cert, nil
}

// Get implements [tls.ClientSessionCache].
func (i *identity) Get(key string) (*tls.ClientSessionState, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refresh(); i.sessions == nil {
		return nil, false
	}
	return i.sessions.Get(key)
}

// refresh reads the files again if they have changed. Files that do not fit each other, such as
// halfway through a renewal, are left for the next connection.
func (i *identity) refresh() {
	files := [2]os.FileInfo{fileInfo(i.certFile), fileInfo(i.keyFile)}
	for n := range files {
		if files[n] == nil || i.files[n] == nil {
			return
		}
	}
	if same(files[0], i.files[0]) && same(files[1], i.files[1]) {
		return
	}
	cert, err := keyPair(i.certFile, i.keyFile)
	if err != nil {
		return
	}
	i.cert, i.files, i.sessions = cert, files, nil
}

// fileInfo returns the state of a regular file, nil if path is not one: a pipe has no change to detect.
func fileInfo(path string) os.FileInfo {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return info
	}
	return nil
}

// same reports whether two looks found the same version of a file.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Put implements [tls.ClientSessionCache].
func (i *identity) Put(key string, s *tls.ClientSessionState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sessions != nil {
		i.sessions.Put(key, s)
	}
}
