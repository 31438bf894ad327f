package meshes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// PodTraffic is what a pod of the application has to do with the others, and so what its proxy must have seen.
type PodTraffic struct {
	In  Traffic // requests that come to it
	Out Traffic // requests that it sends
}

// Traffic is what goes one way.
type Traffic struct {
	Some   bool // there is any
	Inside bool // at its other end are pods of the mesh, so that it is under mutual TLS
	HTTP   bool // it consists of requests that a proxy can understand
}

// shows says whether traffic moves the counters that prove something.
func (t Traffic) shows(proves string) bool {
	switch proves {
	case mesh.ProvesMTLS:
		return t.Some && t.Inside
	case mesh.ProvesL7, mesh.ProvesTelemetry:
		return t.Some && t.HTTP
	}
	return t.Some
}

// demand is what must show: in each of these pods a counter of one of these directions, or in one of them.
type demand struct {
	pods       []*corev1.Pod
	directions []string
	together   bool
}

var eitherWay = []string{mesh.WayIn, mesh.WayOut}

// demands are what must show at a proxy for the mesh to be in force. pods are those that the proxy stands in.
func (t Target) demands(x mesh.Proxy, proves string, pods []*corev1.Pod, d divided) []demand {
	switch x.In {
	case mesh.InPod:
		return t.ofParts(proves, pods)
	case mesh.InMesh:
		return nearby(pods, d, t)
	}
	return []demand{{pods: pods, directions: eitherWay}}
}

// ofParts asks of each pod what its part is. Where nobody knows, a load generator asks and is not asked, and any other
// pod is proven by either.
func (t Target) ofParts(proves string, pods []*corev1.Pod) []demand {
	in, out := demand{directions: []string{mesh.WayIn}}, demand{directions: []string{mesh.WayOut}}
	either := demand{directions: eitherWay, together: proves == mesh.ProvesMTLS && !t.LoadInside}
	for _, p := range pods {
		part := PodTraffic{}
		switch {
		case t.Traffic != nil:
			part = t.Traffic(p)
		case t.IsLoad(p):
			part.Out = Traffic{true, true, true}
		default:
			either.pods = append(either.pods, p)
		}
		if part.In.shows(proves) {
			in.pods = append(in.pods, p)
		}
		if part.Out.shows(proves) {
			out.pods = append(out.pods, p)
		}
	}
	return []demand{in, out, either}
}

// nearby is what must show at proxies that many pods share: on the nodes of the load each one carries connections that
// are made for the probes. What pods have of connections among themselves may be older than the first look.
func nearby(pods []*corev1.Pod, d divided, t Target) []demand {
	on := func(of func(*corev1.Pod) bool) (near []*corev1.Pod) {
		for _, p := range pods {
			if slices.ContainsFunc(d.in, func(a *corev1.Pod) bool { return a.Spec.NodeName == p.Spec.NodeName && of(a) }) {
				near = append(near, p)
			}
		}
		return near
	}
	if load := on(t.IsLoad); len(load) > 0 && t.LoadInside {
		return []demand{{pods: load, directions: eitherWay}}
	}
	if all := on(func(*corev1.Pod) bool { return true }); len(all) > 0 {
		return []demand{{pods: all, directions: eitherWay, together: true}}
	}
	return []demand{{pods: pods, directions: eitherWay, together: true}}
}
