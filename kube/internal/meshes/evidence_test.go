package meshes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

func podsNamed(names ...string) (pods []*corev1.Pod) {
	for _, name := range names {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"load": fmt.Sprint(strings.HasPrefix(name, "load"))}},
			Spec: corev1.PodSpec{NodeName: "node-" + name[len(name)-1:]}})
	}
	return pods
}

func isLoad(p *corev1.Pod) bool { return p.Labels["load"] == "true" }

// testProxy has counters of requests received and sent, and of handshakes as server and as client.
func testProxy() mesh.Proxy {
	return mesh.Proxy{Role: "sidecar", In: mesh.InPod, Counters: []mesh.Counter{
		{Proves: mesh.ProvesL7, Metric: "received"}, {Proves: mesh.ProvesL7, Metric: "sent", Direction: mesh.WayOut},
		{Proves: mesh.ProvesMTLS, Metric: "accepted"}, {Proves: mesh.ProvesMTLS, Metric: "initiated", Direction: mesh.WayOut},
	}}
}

// Every proxy must have counted its own traffic. One that did not is named, even if all others counted.
func TestSidecarEvidence(t *testing.T) {
	all := Traffic{true, true, true}
	chain := func(p *corev1.Pod) PodTraffic {
		switch {
		case isLoad(p):
			return PodTraffic{Out: all}
		case strings.HasPrefix(p.Name, "front"):
			return PodTraffic{In: all, Out: all}
		case strings.HasPrefix(p.Name, "back"):
			return PodTraffic{In: all}
		}
		return PodTraffic{} // without traffic
	}
	before := readings{"load-1": {0, 9, 0, 1}, "front-1": {5, 5, 2, 2}, "front-2": {5, 5, 2, 2}, "back-1": {9, 0, 3, 0}, "idle-1": {0, 0, 0, 0}}
	good := readings{"load-1": {0, 29, 0, 1}, "front-1": {15, 15, 2, 2}, "front-2": {15, 15, 2, 2}, "back-1": {29, 0, 3, 0}, "idle-1": {0, 0, 0, 0}}
	with := func(pod string, r reading) readings {
		all := readings{}
		for name, v := range good {
			all[name] = v
		}
		all[types.UID(pod)] = r
		return all
	}
	for name, c := range map[string]struct {
		traffic func(*corev1.Pod) PodTraffic
		after   readings
		want    map[string]string // details of failing checks, by the start of their names
	}{
		"all":                                       {chain, good, nil},
		"a replica that no request reached":         {chain, with("front-2", reading{5, 5, 2, 2}), map[string]string{"requests are understood": "received increased by 30 in 2 of 3 pods, not in: front-2; sent increased by 30 in 2 of 3 pods, not in: front-2; 20 requests"}},
		"a load whose requests bypass its proxy":    {chain, with("load-1", reading{0, 9, 0, 1}), map[string]string{"requests are understood": "sent increased by 20 in 2 of 3 pods, not in: load-1"}},
		"a caller without mutual TLS":               {chain, with("front-1", reading{15, 15, 2, 0}), map[string]string{"mutual TLS": "initiated is 3 in 2 of 3 pods, not in: front-1"}},
		"a restarted proxy":                         {chain, with("back-1", reading{2, 0, 1, 0}), nil},
		"unknown traffic":                           {nil, good, map[string]string{"requests are understood": "not in: idle-1", "mutual TLS": "not in: idle-1"}},
		"unknown traffic, a pod that only receives": {nil, with("idle-1", reading{1, 0, 1, 0}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			pods := podsNamed("load-1", "front-1", "front-2", "back-1", "idle-1")
			target := Target{LoadInside: true, IsLoad: isLoad, Traffic: c.traffic}
			e := evidence{proxy: testProxy(), pods: pods, before: before, after: c.after, probed: true, answered: 20}
			checks := e.checks(target, podGroups{inMesh: pods}, "")
			if len(checks) != 2 {
				t.Fatalf("%+v", checks)
			}
			for _, check := range checks {
				expected := ""
				for start, detail := range c.want {
					if strings.HasPrefix(check.Name, start) {
						expected = detail
					}
				}
				if check.OK != (expected == "") || !strings.Contains(check.Detail, expected) || !check.OK && check.Hint == "" {
					t.Errorf("%+v, want %q", check, expected)
				}
			}
		})
	}
}

// Without a connection between two pods in the mesh, no mutual TLS is expected.
func TestSinglePodInMesh(t *testing.T) {
	pods := podsNamed("echo-1")
	target := Target{IsLoad: isLoad, Traffic: func(*corev1.Pod) PodTraffic { return PodTraffic{In: Traffic{Some: true, HTTP: true}} }}
	e := evidence{proxy: testProxy(), pods: pods, before: readings{"echo-1": {0, 0, 0, 0}}, after: readings{"echo-1": {7, 0, 0, 0}}, probed: true, answered: 7}
	checks := e.checks(target, podGroups{inMesh: pods}, "")
	if len(checks) != 1 || !checks[0].OK || checks[0].Name != "requests are understood by the sidecar" {
		t.Errorf("%+v", checks)
	}
}

// A proxy that passes requests from outside the mesh as TCP is expected to count their connections, and to parse those
// from inside.
func TestOpaqueOutside(t *testing.T) {
	pods := podsNamed("echo-1")
	for inside, want := range map[bool][]string{
		true: {"traffic goes through the sidecar", "requests are understood by the sidecar"}, false: {"traffic goes through the sidecar"},
	} {
		proxy := testProxy()
		proxy.OpaqueOutside = true
		proxy.Counters = append(proxy.Counters, mesh.Counter{Proves: mesh.ProvesPath, Metric: "opened"})
		target := Target{LoadInside: inside, IsLoad: isLoad, Traffic: func(*corev1.Pod) PodTraffic {
			return PodTraffic{In: Traffic{Some: true, Inside: inside, HTTP: true}}
		}}
		e := evidence{proxy: proxy, pods: pods, before: readings{"echo-1": {0, 0, 0, 0, 0}}, after: readings{"echo-1": {0, 0, 1, 0, 2}}, probed: true, answered: 7}
		var names []string
		for _, c := range e.checks(target, podGroups{inMesh: pods}, "") {
			if !strings.HasPrefix(c.Name, "mutual TLS") {
				names = append(names, c.Name)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("load inside %v: %q, want %q", inside, names, want)
		}
	}
}

// Without a counter of the expected direction, the check fails.
func TestNoCounterOfDirection(t *testing.T) {
	pods := podsNamed("load-1")
	proxy := mesh.Proxy{Role: "sidecar", In: mesh.InPod, Counters: []mesh.Counter{{Proves: mesh.ProvesL7, Metric: "received"}}}
	e := evidence{proxy: proxy, pods: pods, before: readings{"load-1": {0}}, after: readings{"load-1": {20}}, probed: true, answered: 20}
	target := Target{LoadInside: true, IsLoad: isLoad, Traffic: func(*corev1.Pod) PodTraffic { return PodTraffic{Out: Traffic{true, true, true}} }}
	checks := e.checks(target, podGroups{inMesh: pods}, "")
	if len(checks) != 1 || checks[0].OK || checks[0].Hint == "" || !strings.Contains(checks[0].Detail, "no counter for outbound traffic") {
		t.Errorf("%+v", checks)
	}
}

// A node's proxy is expected to count on the nodes of the load. Each replica of a waypoint must count.
func TestSharedProxies(t *testing.T) {
	counters := []mesh.Counter{{Proves: mesh.ProvesPath, Metric: "opened"}}
	app := podsNamed("load-1", "front-2")
	for name, c := range map[string]struct {
		in     string
		inside bool
		pods   []string
		after  readings
		ok     bool
	}{
		"on the node of the load":           {mesh.InMesh, true, []string{"zt-1", "zt-2", "zt-3"}, readings{"zt-1": {1}, "zt-2": {0}, "zt-3": {0}}, true},
		"on another node":                   {mesh.InMesh, true, []string{"zt-1", "zt-2", "zt-3"}, readings{"zt-1": {0}, "zt-2": {1}, "zt-3": {0}}, false},
		"load outside, any node":            {mesh.InMesh, false, []string{"zt-1", "zt-2", "zt-3"}, readings{"zt-1": {0}, "zt-2": {1}, "zt-3": {0}}, true},
		"load outside, a node without pods": {mesh.InMesh, false, []string{"zt-1", "zt-2", "zt-3"}, readings{"zt-1": {0}, "zt-2": {0}, "zt-3": {1}}, false},
		"both replicas of a waypoint":       {mesh.InNamespace, true, []string{"wp-1", "wp-2"}, readings{"wp-1": {4}, "wp-2": {5}}, true},
		"one replica of a waypoint":         {mesh.InNamespace, true, []string{"wp-1", "wp-2"}, readings{"wp-1": {4}, "wp-2": {0}}, false},
		"no waypoint":                       {mesh.InNamespace, true, nil, readings{}, false},
		"no node proxy":                     {mesh.InMesh, true, nil, readings{}, false},
	} {
		e := evidence{proxy: mesh.Proxy{Role: "shared", In: c.in, Counters: counters}, pods: podsNamed(c.pods...), after: c.after,
			before: readings{"zt-1": {0}, "zt-2": {0}, "zt-3": {0}, "wp-1": {0}, "wp-2": {0}}, probed: true}
		checks := e.checks(Target{LoadInside: c.inside, IsLoad: isLoad}, podGroups{inMesh: app}, "")
		if len(checks) != 1 || checks[0].OK != c.ok {
			t.Errorf("%s: %+v", name, checks)
		}
	}
}

// Proxies without the mesh's own telemetry are in force, with a caution.
func TestProxiesWithoutTelemetry(t *testing.T) {
	d := must.Get(mesh.Load("istio"))(t)
	for envoy, telemetry := range map[string]bool{"stock": false, "istio": true} {
		m := must.Get(New(nil, d, mesh.Settings{Options: map[string]string{"envoy": envoy}}, Options{}))(t)
		x := d.Kubernetes.Proxies[0]
		r := make(reading, len(x.Counters))
		for i, c := range x.Counters {
			if !strings.HasPrefix(c.Metric, "istio_") || telemetry {
				r[i] = 20
			}
		}
		pods := podsNamed("front-1")
		e := evidence{proxy: x, pods: pods, before: readings{}, after: readings{"front-1": r}, probed: true, answered: 20}
		checks := e.checks(Target{LoadInside: true, IsLoad: isLoad}, podGroups{inMesh: pods}, m.title())
		last := checks[len(checks)-1]
		if failed := failing(checks); len(failed) > 0 || last.Name != "telemetry of the sidecar" || (last.Caution == "") != telemetry {
			t.Errorf("%s: %+v, %q", envoy, last, failed)
		}
		if !telemetry && !strings.Contains(last.Caution, "mesh istio (envoy: stock) counts istio_") {
			t.Errorf("caution %q", last.Caution)
		}
	}
}
