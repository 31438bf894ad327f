package meshes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// PodTraffic is the expected traffic of a pod of the application, and so of its proxy.
type PodTraffic struct {
	In  Traffic // requests that it receives
	Out Traffic // requests that it sends
}

// Traffic is the traffic in one direction.
type Traffic struct {
	Some   bool // there is any
	Inside bool // the other end is in the mesh, so that mutual TLS applies
	HTTP   bool // a proxy can parse its requests
}

// moves reports whether traffic moves the counters of a proof.
func (t Traffic) moves(proves string) bool {
	switch proves {
	case mesh.ProvesMTLS:
		return t.Some && t.Inside
	case mesh.ProvesL7, mesh.ProvesTelemetry:
		return t.Some && t.HTTP
	}
	return t.Some
}

// expectation requires that in each of its pods, or in any, a counter of one of the directions moves.
type expectation struct {
	pods       []*corev1.Pod
	directions []string
	any        bool
}

var bothDirections = []string{mesh.WayIn, mesh.WayOut}

// expectations of a proxy, if the mesh is in force. pods run the proxy.
func (t Target) expectations(x mesh.Proxy, proves string, pods []*corev1.Pod, g podGroups) []expectation {
	switch x.In {
	case mesh.InPod:
		return t.bySidecar(x, proves, pods)
	case mesh.InMesh:
		return t.byNode(x, proves, pods, g)
	}
	return []expectation{{pods: pods, directions: bothDirections}}
}

// bySidecar expects each pod's own traffic. Without knowledge of it, a load generator sends and does not receive, and
// any other pod needs counts in either direction.
func (t Target) bySidecar(x mesh.Proxy, proves string, pods []*corev1.Pod) []expectation {
	in, out := expectation{directions: []string{mesh.WayIn}}, expectation{directions: []string{mesh.WayOut}}
	either := expectation{directions: bothDirections, any: proves == mesh.ProvesMTLS && !t.LoadInside}
	for _, p := range pods {
		traffic := PodTraffic{}
		switch {
		case t.Traffic != nil:
			traffic = t.Traffic(p)
		case t.IsLoad(p):
			traffic.Out = Traffic{true, true, true}
		default:
			either.pods = append(either.pods, p)
		}
		if x.OpaqueOutside && !traffic.In.Inside {
			traffic.In.HTTP = false
		}
		if traffic.In.moves(proves) {
			in.pods = append(in.pods, p)
		}
		if traffic.Out.moves(proves) {
			out.pods = append(out.pods, p)
		}
	}
	return []expectation{in, out, either}
}

// byNode expects counts of proxies that many pods share: each one on a node of the load has the connections of the
// probes. Connections among other pods may be older than the first reading. Proxies of servers have them on each node
// with a pod that receives requests, or on any node of the application if its traffic is unknown.
func (t Target) byNode(x mesh.Proxy, proves string, pods []*corev1.Pod, g podGroups) []expectation {
	onNodesOf := func(of func(*corev1.Pod) bool) (found []*corev1.Pod) {
		for _, p := range pods {
			if slices.ContainsFunc(g.inMesh, func(a *corev1.Pod) bool { return a.Spec.NodeName == p.Spec.NodeName && of(a) }) {
				found = append(found, p)
			}
		}
		return found
	}
	switch {
	case x.OfServers && t.Traffic != nil:
		return []expectation{{pods: onNodesOf(func(p *corev1.Pod) bool { return t.Traffic(p).In.moves(proves) }), directions: bothDirections}}
	case x.OfServers:
		return []expectation{{pods: onNodesOf(func(p *corev1.Pod) bool { return !t.IsLoad(p) }), directions: bothDirections, any: true}}
	}
	if load := onNodesOf(t.IsLoad); len(load) > 0 && t.LoadInside {
		return []expectation{{pods: load, directions: bothDirections}}
	}
	if all := onNodesOf(func(*corev1.Pod) bool { return true }); len(all) > 0 {
		return []expectation{{pods: all, directions: bothDirections, any: true}}
	}
	return []expectation{{pods: pods, directions: bothDirections, any: true}}
}
