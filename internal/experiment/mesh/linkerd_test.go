package mesh

import (
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// A load outside the mesh has no identity: it is accepted, and refusal of plaintext is not required.
func TestLinkerdEnrolment(t *testing.T) {
	d := must.Get(Load("linkerd"))(t)
	for _, c := range []struct {
		policy  string
		inside  bool
		want    string
		refuses bool
	}{
		{"", true, "", false},
		{"", false, "", false},
		{"all-authenticated", true, "all-authenticated", true},
		{"all-authenticated", false, "all-unauthenticated", false},
		{"cluster-authenticated", false, "all-unauthenticated", false},
		{"cluster-unauthenticated", false, "cluster-unauthenticated", false},
	} {
		s := Settings{Options: map[string]string{"inboundPolicy": c.policy}}
		e := must.Get(d.Kubernetes.Enrol(s, "shop", Way{LoadInside: c.inside}))(t)
		if got := e.Namespace.Annotations["config.linkerd.io/default-inbound-policy"]; got != c.want || e.Namespace.Annotations["linkerd.io/inject"] != "enabled" {
			t.Errorf("%+v: the namespace has %v", c, e.Namespace.Annotations)
		}
		if refuses, err := d.Kubernetes.RefusesPlaintext(s, "shop", Way{LoadInside: c.inside}); err != nil || refuses != c.refuses {
			t.Errorf("%+v: plaintext is refused: %v, %v", c, refuses, err)
		}
	}
}
