package local

import (
	"fmt"
	"net/url"

	"github.com/tare-mesh/tare/internal/base/certificate"
)

// trustDomain of the identities of a local trial.
const trustDomain = "tare.local"

// identityOf is the SPIFFE ID of a service, in the format of meshes on Kubernetes.
func identityOf(service string) string {
	return "spiffe://" + trustDomain + "/ns/default/sa/" + service
}

// authority is the certificate authority of one deployment. Its key remains in memory.
type authority struct{ *certificate.Pair }

func newAuthority() (*authority, error) {
	t := certificate.Authority("tare trial CA")
	t.URIs = []*url.URL{{Scheme: "spiffe", Host: trustDomain}}
	pair, err := certificate.New(t, nil)
	return &authority{pair}, err
}

// issue makes a certificate for clients and servers of a service: its SPIFFE ID, and for proxies that do not read it the
// service's name as common name and as host name.
func (a *authority) issue(service string) (*certificate.Pair, error) {
	uri, err := url.Parse(identityOf(service))
	if err != nil {
		return nil, fmt.Errorf("issue a certificate to %s: %w", service, err)
	}
	t := certificate.Leaf(service)
	t.URIs, t.DNSNames = []*url.URL{uri}, []string{service}
	return certificate.New(t, a.Pair)
}
