package target

import (
	"crypto/tls"
	"os"
	"sync"
)

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
