package meshes

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

func podsNamed(names ...string) (pods []*corev1.Pod) {
	for _, name := range names {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"load": fmt.Sprint(strings.HasPrefix(name, "load"))}},
			Spec: corev1.PodSpec{NodeName: "node-" + name[len(name)-1:]}})
	}
	return pods
}

func isLoad(p *corev1.Pod) bool { return p.Labels["load"] == "true" }

// countersOf have in this order: requests that came, requests that went, handshakes of callers, handshakes with callees.
func countersOf() mesh.Proxy {
	return mesh.Proxy{Role: "sidecar", In: mesh.InPod, Counters: []mesh.Counter{
		{Proves: mesh.ProvesL7, Metric: "came"}, {Proves: mesh.ProvesL7, Metric: "went", Direction: mesh.WayOut},
		{Proves: mesh.ProvesMTLS, Metric: "shook"}, {Proves: mesh.ProvesMTLS, Metric: "offered", Direction: mesh.WayOut},
	}}
}

// Every proxy must have counted its own share: one that did not is named, however much the others counted.
func TestEachProxyIsProven(t *testing.T) {
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
		return PodTraffic{} // nobody calls it
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
		part  func(*corev1.Pod) PodTraffic
		after readings
		want  map[string]string // failing checks, and what they say
	}{
		"all":                                {chain, good, nil},
		"a replica that no request reached":  {chain, with("front-2", reading{5, 5, 2, 2}), map[string]string{"requests are understood": "came moved by 30 in 2 of 3 pods, not in: front-2; went moved by 30 in 2 of 3 pods, not in: front-2; 20 requests"}},
		"a load whose requests go past":      {chain, with("load-1", reading{0, 9, 0, 1}), map[string]string{"requests are understood": "went moved by 20 in 2 of 3 pods, not in: load-1"}},
		"a caller without mutual TLS":        {chain, with("front-1", reading{15, 15, 2, 0}), map[string]string{"mutual TLS": "offered is 3 in 2 of 3 pods, not in: front-1"}},
		"a proxy that was started anew":      {chain, with("back-1", reading{2, 0, 1, 0}), nil},
		"parts that nobody knows":            {nil, good, map[string]string{"requests are understood": "not in: idle-1", "mutual TLS": "not in: idle-1"}},
		"and a pod that has only been asked": {nil, with("idle-1", reading{1, 0, 1, 0}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			pods := podsNamed("load-1", "front-1", "front-2", "back-1", "idle-1")
			target := Target{LoadInside: true, IsLoad: isLoad, Traffic: c.part}
			s := seen{proxy: countersOf(), pods: pods, before: before, after: c.after, probed: true, answered: 20}
			checks := (&Mesh{}).proven(s, target, divided{in: pods})
			if len(checks) != 2 {
				t.Fatalf("%+v", checks)
			}
			for _, check := range checks {
				wanted := ""
				for start, says := range c.want {
					if strings.HasPrefix(check.Name, start) {
						wanted = says
					}
				}
				if check.OK != (wanted == "") || !strings.Contains(check.Detail, wanted) || !check.OK && check.Hint == "" {
					t.Errorf("%+v, want %q", check, wanted)
				}
			}
		})
	}
}

// Where nothing inside of the mesh calls anything inside of it there is no mutual TLS to show.
func TestAloneInTheMesh(t *testing.T) {
	pods := podsNamed("echo-1")
	target := Target{IsLoad: isLoad, Traffic: func(*corev1.Pod) PodTraffic { return PodTraffic{In: Traffic{Some: true, HTTP: true}} }}
	s := seen{proxy: countersOf(), pods: pods, before: readings{"echo-1": {0, 0, 0, 0}}, after: readings{"echo-1": {7, 0, 0, 0}}, probed: true, answered: 7}
	checks := (&Mesh{}).proven(s, target, divided{in: pods})
	if len(checks) != 1 || !checks[0].OK || checks[0].Name != "requests are understood by the sidecar" {
		t.Errorf("%+v", checks)
	}
}

// Where no counter is of the direction that is asked for, nothing was looked at, and nothing is proven.
func TestNothingCountsIt(t *testing.T) {
	pods := podsNamed("load-1")
	proxy := mesh.Proxy{Role: "sidecar", In: mesh.InPod, Counters: []mesh.Counter{{Proves: mesh.ProvesL7, Metric: "came"}}}
	s := seen{proxy: proxy, pods: pods, before: readings{"load-1": {0}}, after: readings{"load-1": {20}}, probed: true, answered: 20}
	target := Target{LoadInside: true, IsLoad: isLoad, Traffic: func(*corev1.Pod) PodTraffic { return PodTraffic{Out: Traffic{true, true, true}} }}
	checks := (&Mesh{}).proven(s, target, divided{in: pods})
	if len(checks) != 1 || checks[0].OK || checks[0].Hint == "" || !strings.Contains(checks[0].Detail, "nothing counts it") {
		t.Errorf("%+v", checks)
	}
}

// Of proxies that pods share, those on the nodes of the load carry connections made for the probes; a waypoint's replicas each get some.
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
		"on the node of the load":          {mesh.InMesh, true, []string{"zt-1", "zt-2", "zt-3"}, readings{"zt-1": {1}, "zt-2": {0}, "zt-3": {0}}, true},
		"not on it":                        {mesh.InMesh, true, []string{"zt-1", "zt-2", "zt-3"}, readings{"zt-1": {0}, "zt-2": {1}, "zt-3": {0}}, false},
		"a load from outside: anywhere":    {mesh.InMesh, false, []string{"zt-1", "zt-2", "zt-3"}, readings{"zt-1": {0}, "zt-2": {1}, "zt-3": {0}}, true},
		"but not where no pod stands":      {mesh.InMesh, false, []string{"zt-1", "zt-2", "zt-3"}, readings{"zt-1": {0}, "zt-2": {0}, "zt-3": {1}}, false},
		"both replicas of a waypoint":      {mesh.InNamespace, true, []string{"wp-1", "wp-2"}, readings{"wp-1": {4}, "wp-2": {5}}, true},
		"one of them":                      {mesh.InNamespace, true, []string{"wp-1", "wp-2"}, readings{"wp-1": {4}, "wp-2": {0}}, false},
		"a waypoint that is not there":     {mesh.InNamespace, true, nil, readings{}, false},
		"a node's proxy that is not there": {mesh.InMesh, true, nil, readings{}, false},
	} {
		s := seen{proxy: mesh.Proxy{Role: "shared", In: c.in, Counters: counters}, pods: podsNamed(c.pods...), after: c.after,
			before: readings{"zt-1": {0}, "zt-2": {0}, "zt-3": {0}, "wp-1": {0}, "wp-2": {0}}, probed: true}
		checks := (&Mesh{}).proven(s, Target{LoadInside: c.inside, IsLoad: isLoad}, divided{in: app})
		if len(checks) != 1 || checks[0].OK != c.ok {
			t.Errorf("%s: %+v", name, checks)
		}
	}
}

// Proxies that do not tell of requests in the mesh's own words are in force, and the figures say what they lack.
func TestProxiesWithoutTelemetry(t *testing.T) {
	d, err := mesh.Load("istio")
	if err != nil {
		t.Fatal(err)
	}
	for envoy, told := range map[string]bool{"stock": false, "istio": true} {
		m, err := New(nil, d, mesh.Settings{Options: map[string]string{"envoy": envoy}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		x := d.Kubernetes.Proxies[0]
		r := make(reading, len(x.Counters))
		for i, c := range x.Counters {
			if !strings.HasPrefix(c.Metric, "istio_") || told {
				r[i] = 20
			}
		}
		pods := podsNamed("front-1")
		s := seen{proxy: x, pods: pods, before: readings{}, after: readings{"front-1": r}, probed: true, answered: 20}
		checks := m.proven(s, Target{LoadInside: true, IsLoad: isLoad}, divided{in: pods})
		last := checks[len(checks)-1]
		if failed := failing(checks); len(failed) > 0 || last.Name != "telemetry of the sidecar" || (last.Caution == "") != told {
			t.Errorf("%s: %+v, %q", envoy, last, failed)
		}
		if !told && !strings.Contains(last.Caution, "mesh istio (envoy: stock) counts istio_") {
			t.Errorf("it says %q", last.Caution)
		}
	}
}
