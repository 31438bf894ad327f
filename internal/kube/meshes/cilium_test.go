package meshes

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Cilium's Envoy is expected to count on a node of the application: requests pass the load's node in the kernel.
func TestProxiesOfServers(t *testing.T) {
	d, err := mesh.Load("cilium")
	if err != nil {
		t.Fatal(err)
	}
	x := d.Kubernetes.Proxies[0]
	pods := podsNamed("envoy-1", "envoy-2", "envoy-3")
	for name, c := range map[string]struct {
		after readings
		ok    bool
	}{
		"on the node of the server":   {readings{"envoy-1": {0, 0}, "envoy-2": {20, 2}, "envoy-3": {0, 0}}, true},
		"on the node of the load":     {readings{"envoy-1": {20, 2}, "envoy-2": {0, 0}, "envoy-3": {0, 0}}, false},
		"on a node without any pod":   {readings{"envoy-1": {0, 0}, "envoy-2": {0, 0}, "envoy-3": {20, 2}}, false},
		"nowhere: the policy is away": {readings{"envoy-1": {0, 0}, "envoy-2": {0, 0}, "envoy-3": {0, 0}}, false},
	} {
		e := evidence{proxy: x, pods: pods, before: readings{"envoy-1": {0, 0}, "envoy-2": {0, 0}, "envoy-3": {0, 0}}, after: c.after, probed: true, answered: 20}
		checks := e.checks(Target{LoadInside: true, IsLoad: isLoad}, podGroups{inMesh: podsNamed("load-1", "front-2")}, "")
		if len(checks) != 2 || (len(failing(checks)) == 0) != c.ok {
			t.Errorf("%s: %+v", name, checks)
		}
	}
}

func cilium(t *testing.T) *Mesh {
	t.Helper()
	d, err := mesh.Load("cilium")
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(nil, d, mesh.Settings{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A mesh that works in the kernel is verified with a caution: the place of that CPU, and the reason.
func TestKernelWork(t *testing.T) {
	m := cilium(t)
	c := newVerifier(m.instance, Target{}).kernelWork()
	if !c.OK || c.Hint == "" {
		t.Errorf("%+v", c)
	}
	for _, part := range []string{"mesh cilium", "eBPF programs", "outside of every container", "plane node, task <node>/kernel"} {
		if !strings.Contains(c.Caution, part) {
			t.Errorf("no %q in %q", part, c.Caution)
		}
	}
}

// tare does not install a mesh that is the cluster's network.
func TestNetworkOfCluster(t *testing.T) {
	m := cilium(t)
	if err := m.Uninstall(t.Context(), true); err != nil || m.installable() {
		t.Errorf("installable %v, %v", m.installable(), err)
	}
	if all, err := m.Rendered(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("rendered %v, %v", all, err)
	}
}
