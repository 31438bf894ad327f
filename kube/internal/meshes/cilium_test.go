package meshes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// Cilium's Envoy must count on each node with a server of the trial: requests pass the load's node in the kernel.
func TestProxiesOfServers(t *testing.T) {
	x := cilium(t).k.Proxies[0]
	// Pods of a trial on two nodes, of another namespace, and Cilium's.
	all := recordedPods(t, "cilium-two-nodes.json")
	var proxies []*corev1.Pod
	var g podGroups
	for _, p := range all {
		switch {
		case x.Selects(p.Labels):
			proxies = append(proxies, p)
		case p.Namespace == "shop":
			g.inMesh = append(g.inMesh, p)
		}
	}
	const one, two = "cilium-envoy-9xw5n", "cilium-envoy-t4k2z"
	if len(proxies) != 3 || len(g.inMesh) != 4 {
		t.Fatalf("%d proxies, %d pods of the trial", len(proxies), len(g.inMesh))
	}
	loadOf := func(p *corev1.Pod) bool { return hasContainer(p, "load") }
	request, connection := Traffic{Some: true, Inside: true, HTTP: true}, Traffic{Some: true, Inside: true}
	traffic := func(back Traffic) func(*corev1.Pod) PodTraffic {
		return func(p *corev1.Pod) PodTraffic {
			switch p.Labels["tare.dev/service"] {
			case "front":
				return PodTraffic{In: request, Out: back}
			case "back":
				return PodTraffic{In: back}
			case "load":
				return PodTraffic{Out: request}
			}
			return PodTraffic{} // no request reaches it
		}
	}
	for name, c := range map[string]struct {
		traffic func(*corev1.Pod) PodTraffic
		counted map[string]reading
		want    []string // failing checks
	}{
		"on both nodes":                   {traffic(request), map[string]reading{one: {20, 2}, two: {20, 2}}, nil},
		"only on one node":                {traffic(request), map[string]reading{one: {20, 2}}, []string{"not in: " + two, "not in: " + two}},
		"only on the other node":          {traffic(request), map[string]reading{two: {20, 2}}, []string{"not in: " + one, "not in: " + one}},
		"no HTTP on the other node":       {traffic(connection), map[string]reading{one: {20, 2}, two: {0, 2}}, nil},
		"no connection on the other node": {traffic(connection), map[string]reading{one: {20, 2}}, []string{"not in: " + two}},
		"unknown traffic, on one node":    {nil, map[string]reading{two: {20, 2}}, nil},
		"on a node without a server":      {nil, map[string]reading{"cilium-envoy-v8c6r": {20, 2}}, []string{"increased by 0", "increased by 0"}},
		"nowhere: the policy is away":     {traffic(request), nil, []string{"increased by 0", "increased by 0"}},
	} {
		before, after := readings{}, readings{}
		for _, p := range proxies {
			before[p.UID], after[p.UID] = reading{0, 0}, reading{0, 0}
			if r, ok := c.counted[p.Name]; ok {
				after[p.UID] = r
			}
		}
		e := evidence{proxy: x, pods: proxies, before: before, after: after, probed: true, answered: 20}
		checks := e.checks(Target{LoadInside: true, IsLoad: loadOf, Traffic: c.traffic}, g, "")
		failed := failing(checks)
		if len(checks) != 2 || len(failed) != len(c.want) {
			t.Errorf("%s: %+v", name, checks)
			continue
		}
		for i, part := range c.want {
			if !strings.Contains(failed[i], part) {
				t.Errorf("%s: no %q in %q", name, part, failed[i])
			}
		}
	}
}

func recordedPods(t *testing.T, file string) (pods []*corev1.Pod) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", file)))(t)
	var list corev1.PodList
	must.OK(t, json.Unmarshal(text, &list))
	for i := range list.Items {
		p := &list.Items[i]
		p.UID = types.UID(p.Name)
		pods = append(pods, p)
	}
	return pods
}

// cilium is a definition of a mesh that is the cluster's network. No shipped one is.
func cilium(t *testing.T) *Mesh {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", "cilium.yaml")))(t)
	d := must.Get(mesh.Decode("cilium.yaml", text))(t)
	return must.Get(New(nil, d, mesh.Settings{}, Options{}))(t)
}

// A mesh that works in the kernel is verified with a caution: the place of that CPU, and the reason.
func TestKernelWork(t *testing.T) {
	m := cilium(t)
	c := newVerifier(m.instance, Target{}).kernelWork()
	if !c.OK || c.Hint == "" {
		t.Errorf("%+v", c)
	}
	must.Contain(t, c.Caution, "mesh cilium", "eBPF programs", "outside of every container", "plane node, task <node>/kernel")
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
