// Package pki makes the keys and certificates of a cluster. They live for as long as the cluster does and are
// trusted by nothing else.
package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/tare-mesh/tare/internal/base/certificate"
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
	*certificate.Pair
	dir string
}

// NewAuthority makes an authority whose certificate and key are dir/file.crt and dir/file.key.
func NewAuthority(dir, file, name string) (*Authority, error) {
	template := certificate.Authority(name)
	template.NotAfter = time.Now().Add(lifetime)
	pair, err := certificate.New(template, nil)
	if err != nil {
		return nil, err
	}
	return &Authority{pair, dir}, pair.Write(filepath.Join(dir, file+".crt"), filepath.Join(dir, file+".key"))
}

// Issue signs a certificate for clients and servers and returns certificate and key as PEM.
func (a *Authority) Issue(c Certificate) (cert, key []byte, err error) {
	template := certificate.Leaf(c.Name)
	if c.Organization != "" {
		template.Subject.Organization = []string{c.Organization}
	}
	template.DNSNames, template.IPAddresses, template.NotAfter = c.Hosts, c.Addresses, time.Now().Add(lifetime)
	pair, err := certificate.New(template, a.Pair)
	if err != nil {
		return nil, nil, err
	}
	if key, err = pair.KeyPEM(); err != nil {
		return nil, nil, err
	}
	return pair.PEM(), key, pair.Write(filepath.Join(a.dir, c.File+".crt"), filepath.Join(a.dir, c.File+".key"))
}

// KeyPair makes a bare key pair, dir/file.key and dir/file.pub, such as service account tokens are signed with.
func KeyPair(dir, file string) error {
	pair, err := certificate.New(certificate.Leaf(file), nil)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&pair.Key.PublicKey)
	if err != nil {
		return fmt.Errorf("encode public key %s: %w", file, err)
	}
	key, err := pair.KeyPEM()
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, file+".key"), key, 0o600),
		os.WriteFile(filepath.Join(dir, file+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600))
}
