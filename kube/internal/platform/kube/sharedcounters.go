package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Reasons why a proxy that services share has no equations.
const (
	// The mesh redirects only its own pods to waypoints.
	outsideWaypoint = "the load is outside the mesh, and its requests may bypass the waypoint"
	pooledWaypoint  = "waypoints open connections of their own"
	pooledGateway   = "the gateway opens connections of its own"
)

// waypoints read the proxies that have pods of their own in the namespace.
func (rc *requestCounters) waypoints() (reads []func(context.Context) []alternative) {
	if rc.spec.Mesh.Kubernetes == nil {
		return nil
	}
	place := balance.Place{Service: balance.WaypointName, Point: balance.Waypoint, Unit: balance.Requests}
	unknown := ""
	if !rc.enrolment.loadInside {
		unknown = outsideWaypoint
	}
	for _, x := range rc.spec.Mesh.Kubernetes.Proxies {
		reads = append(reads, rc.receivers(x, place, unknown)...)
	}
	return reads
}

// gateways read the ingress gateway, if the load goes through it.
func (rc *requestCounters) gateways() []func(context.Context) []alternative {
	if rc.enrolment.gateway == nil {
		return nil
	}
	return rc.receivers(*rc.enrolment.gateway.Proxy, balance.Place{Service: balance.LoadName, Point: balance.Gateway, To: rc.spec.Entry().Name, Unit: balance.Requests}, "")
}

// receivers read the requests that a proxy in the namespace receives.
func (rc *requestCounters) receivers(x mesh.Proxy, place balance.Place, unknown string) (reads []func(context.Context) []alternative) {
	x.Counters = slices.DeleteFunc(slices.Clone(x.Counters), func(c mesh.Counter) bool { return !receives(c) })
	for _, pod := range rc.selected(x) {
		reads = append(reads, func(ctx context.Context) []alternative {
			all := rc.proxy(ctx, pod, x, func(mesh.Counter) balance.Place { return place })
			for i := range all {
				if unknown != "" {
					all[i].count.Unknown = unknown
				}
			}
			return all
		})
	}
	return reads
}

// receives reports whether a counter counts requests that a proxy receives.
func receives(c mesh.Counter) bool { return c.Proves == mesh.ProvesL7 && c.Way() == mesh.WayIn }

// nodePoints are the counters of a node's proxy, by direction of the mesh's definition.
var nodePoints = map[string]balance.Point{mesh.WayIn: balance.NodeIn, mesh.WayOut: balance.NodeOut}

// nodeProxies read the proxies that the pods of a node share, on the nodes of the trial's pods.
func (rc *requestCounters) nodeProxies() (reads []func(context.Context) []alternative) {
	k := rc.spec.Mesh.Kubernetes
	if k == nil {
		return nil
	}
	for _, x := range k.Proxies {
		if x.Counters = rc.connections(x); len(x.Counters) == 0 {
			continue
		}
		for _, pod := range rc.pods.inCluster() {
			if pod.Namespace == k.Namespace && x.Selects(pod.Labels) && rc.pods.onNode(pod.Spec.NodeName) {
				reads = append(reads, func(ctx context.Context) []alternative { return rc.nodeProxy(ctx, x, pod) })
			}
		}
	}
	return reads
}

// connections are the counters of a node's proxy, one for each service and direction in which it has connections.
func (rc *requestCounters) connections(x mesh.Proxy) (all []mesh.Counter) {
	for _, c := range x.Connections {
		for _, s := range rc.spec.Topology.Services {
			if c.Way() == mesh.WayIn || slices.ContainsFunc(s.Calls, func(call app.Call) bool { return call.Service != "" }) {
				all = append(all, c.Of(rc.namespace, s.Name))
			}
		}
		if c.Way() == mesh.WayOut && rc.enrolment.loadInside {
			all = append(all, c.Of(rc.namespace, loadService))
		}
	}
	return all
}

// nodeProxy reads one proxy of a node. Each service is a direction of its own: one that the verification's requests did
// not move has no counter.
func (rc *requestCounters) nodeProxy(ctx context.Context, x mesh.Proxy, pod *corev1.Pod) []alternative {
	all := rc.proxy(ctx, pod, x, func(c mesh.Counter) balance.Place {
		return balance.Place{Service: c.Labels[c.Workload], Point: nodePoints[c.Way()], Unit: balance.Connections}
	})
	for i := range all {
		a := &all[i]
		a.index, a.way = 0, a.way+" of "+a.count.Service
		switch {
		case a.count.Point != balance.NodeIn:
		case rc.enrolment.gateway != nil && a.count.Service == rc.spec.Entry().Name:
			a.count.Unknown = pooledGateway
		case slices.ContainsFunc(rc.spec.Mesh.Kubernetes.Proxies, func(p mesh.Proxy) bool { return len(rc.selected(p)) > 0 }):
			a.count.Unknown = pooledWaypoint
		}
	}
	return all
}

// selected are the pods of a proxy in the trial's namespace.
func (rc *requestCounters) selected(x mesh.Proxy) []*corev1.Pod {
	return slices.DeleteFunc(rc.pods.all(), func(pod *corev1.Pod) bool { return x.In != mesh.InNamespace || !x.Selects(pod.Labels) })
}
