package meshes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/lists"
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
	onNodesOf := func(of func(*corev1.Pod) bool) []*corev1.Pod {
		return lists.Where(pods, func(p *corev1.Pod) bool {
			return slices.ContainsFunc(g.inMesh, func(a *corev1.Pod) bool { return a.Spec.NodeName == p.Spec.NodeName && of(a) })
		})
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

// trafficCheck verifies by the proxies' counters that traffic goes through each of them. It keeps the readings of one
// verification: a few requests need not reach every replica, so increases since the first round count.
type trafficCheck struct {
	*instance
	target Target
	reader podReader

	first, last map[string]readings // by the proxy's role
	answered    int                 // requests since the first reading
}

// check sends probes between two readings of the counters.
func (k *trafficCheck) check(ctx context.Context, g podGroups) ([]result, error) {
	proxies := k.proxies(k.target.Front != nil)
	pods := make([][]*corev1.Pod, len(proxies))
	for i, x := range proxies {
		var err error
		if pods[i], err = k.reader.podsOf(ctx, x, k.k.Namespace, g); err != nil {
			return nil, err
		}
		if k.target.Probe == nil || len(x.Counters) == 0 {
			continue
		}
		if err := k.readFirst(ctx, x, pods[i]); err != nil {
			return []result{unreadable(x, err)}, nil
		}
	}
	answered := 0
	if k.target.Probe != nil {
		var err error
		answered, err = k.target.Probe(ctx)
		k.answered += answered
		if err != nil {
			return results([]check.Check{{Name: "requests through the application", Detail: err.Error(), Hint: "the application must answer the load generator"}}), nil
		}
	}
	var all []result
	for i, x := range proxies {
		if len(x.Counters) == 0 {
			continue
		}
		after, err := k.reader.counters(ctx, x, pods[i])
		if err != nil {
			return append(all, unreadable(x, err)), nil
		}
		e := evidence{proxy: x, pods: pods[i], before: k.first[x.Role], after: after, probed: k.target.Probe != nil, answered: k.answered}
		all = append(all, results(e.checks(k.target, g, k.title()))...)
		if k.target.Probe != nil && k.isGateway(x) {
			all = append(all, result{Check: allThroughGateway(x, totals(x, k.last[x.Role]), totals(x, after), answered)})
		}
		k.last[x.Role] = after
	}
	return all, nil
}

// readFirst reads the counters of pods without a first reading.
func (k *trafficCheck) readFirst(ctx context.Context, x mesh.Proxy, pods []*corev1.Pod) error {
	known := k.first[x.Role]
	if known == nil {
		known = readings{}
		k.first[x.Role] = known
	}
	first, err := k.reader.counters(ctx, x, slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return known[p.UID] != nil }))
	maps.Copy(known, first)
	if k.last[x.Role] == nil {
		k.last[x.Role] = maps.Clone(known)
	}
	return err
}

// totals sums each counter of a proxy over its pods.
func totals(x mesh.Proxy, of readings) []float64 {
	sums := make([]float64, len(x.Counters))
	for _, r := range of {
		for i, n := range r {
			sums[i] += n
		}
	}
	return sums
}

// allThroughGateway checks that the gateway has counted every answered request. The others bypassed it.
func allThroughGateway(x mesh.Proxy, before, after []float64, answered int) check.Check {
	best := 0.0
	for i, c := range x.Counters {
		if c.Proves == mesh.ProvesL7 {
			best = max(best, after[i]-before[i])
		}
	}
	c := check.Check{Name: "every request comes through the " + x.Role, OK: answered > 0 && best >= float64(answered),
		Detail: fmt.Sprintf("%.0f requests came through it, %d were answered", best, answered)}
	if !c.OK {
		c.Hint = "the load is not sent to the gateway's address"
	}
	return c
}

// unreadable is the check of counters that could not be read.
func unreadable(x mesh.Proxy, err error) result {
	return result{impossible: true, Check: check.Check{Name: "counters of the " + x.Role, Detail: err.Error(),
		Hint: "tare reads them from the proxy's own port by a port-forward: the proxy must answer there"}}
}
