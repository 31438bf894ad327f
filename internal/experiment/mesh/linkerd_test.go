package mesh

import (
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
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

// No command of Linkerd's CLI may read a cluster: it would use the user's own kubeconfig.
func TestLinkerdByItsOwnProgram(t *testing.T) {
	d := must.Get(Load("linkerd"))(t)
	in := d.Kubernetes.InstallContext(Settings{Profile: ProfileHA, Hub: "registry.test/linkerd", Options: map[string]string{"runAsRoot": "true"}})
	in.ValuesFile = "values.yaml"
	commands, _, err := d.Kubernetes.CLI.Commands(in)
	if err != nil || len(commands) != 2 {
		t.Fatalf("%q, %v", commands, err)
	}
	for _, args := range commands {
		if !slices.Contains(args, "--ignore-cluster") {
			t.Errorf("%q asks a cluster", args)
		}
	}
	for _, want := range []string{"--ha", "--registry=registry.test/linkerd", "--set=proxyInit.runAsRoot=true"} {
		if !slices.Contains(commands[1], want) {
			t.Errorf("%q is without %s", commands[1], want)
		}
	}
}
