package kube

import (
	"context"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// countsAtOnce is the number of pods that are read in parallel.
const countsAtOnce = 8

// requestCounters implements [platform.Deployment.RequestCounts], over forwarded ports that bypass the mesh.
type requestCounters struct {
	*trial
	pods *trialPods
	// read reads the counters of a proxy in one pod, in the order of its definition.
	read func(context.Context, mesh.Proxy, *corev1.Pod) ([]float64, error)

	// chosen is the index of the counter that is used, by role and direction. A definition lists
	// alternatives, of which a proxy has some.
	chosen map[direction]int
}

// direction of the requests in the proxies of a role.
type direction struct{ role, way string }

// alternative is one of the counters that a definition lists for a direction.
type alternative struct {
	direction
	index int
	count balance.Count
}

// RequestCounts implements [platform.Deployment.RequestCounts].
func (rc *requestCounters) RequestCounts(ctx context.Context) ([]balance.Count, error) {
	var applications []func(context.Context) []balance.Count
	var sidecars []func(context.Context) []alternative
	for _, s := range rc.spec.Topology.Services {
		for _, pod := range rc.pods.ofService(s.Name) {
			applications = append(applications, func(ctx context.Context) []balance.Count { return rc.application(ctx, s, pod) })
			sidecars = append(sidecars, rc.sidecars(s.Name, pod)...)
		}
	}
	if rc.enrolment.loadInside {
		for _, pod := range rc.pods.ofService(loadService) {
			sidecars = append(sidecars, rc.sidecars(loadService, pod)...)
		}
	}
	sidecars = slices.Concat(sidecars, rc.waypoints(), rc.gateways(), rc.nodeProxies())
	counts, err := platform.ReadEach(ctx, countsAtOnce, applications)
	if err != nil {
		return nil, err
	}
	alternatives, err := platform.ReadEach(ctx, countsAtOnce, sidecars)
	if err != nil {
		return nil, err
	}
	return append(counts, rc.choose(alternatives)...), nil
}

// choose returns the counts of one alternative for each direction: at the first reading, the
// first that the requests of the verification have moved.
func (rc *requestCounters) choose(all []alternative) (counts []balance.Count) {
	if rc.chosen == nil {
		rc.chosen = map[direction]int{}
		for _, a := range all {
			if best, ok := rc.chosen[a.direction]; a.count.Count > 0 && (!ok || a.index < best) {
				rc.chosen[a.direction] = a.index
			}
		}
	}
	for _, a := range all {
		i, ok := rc.chosen[a.direction]
		if !ok && a.count.Unknown == "" {
			a.count.Unknown = "no request counter increased"
		}
		if i == a.index {
			counts = append(counts, a.count)
		}
	}
	return counts
}

func (rc *requestCounters) application(ctx context.Context, s app.Service, pod *corev1.Pod) []balance.Count {
	from := rc.task(pod, appContainer)
	if rc.spec.Topology.Foreign() {
		from = balance.Count{By: rc.pods.name(pod), Unknown: "an application from a chart, manifests or a namespace has no counter that tare reads"}
	}
	api, done := rc.serviceAPI(pod)
	defer done()
	return api.Counts(ctx, from, s, rc.spec.Protocol(s))
}

// points are the counters of a sidecar, by direction of the mesh's definition.
var points = map[string]balance.Point{mesh.WayIn: balance.InReceived, mesh.WayOut: balance.OutSent}

// sidecars read the sidecars of a pod. Services of plain TCP have no requests.
func (rc *requestCounters) sidecars(service string, pod *corev1.Pod) (reads []func(context.Context) []alternative) {
	if rc.spec.Mesh.Kubernetes == nil {
		return nil
	}
	for _, x := range rc.spec.Mesh.Kubernetes.Proxies {
		if x.In != mesh.InPod {
			continue
		}
		x.Counters = slices.DeleteFunc(slices.Clone(x.Counters), func(c mesh.Counter) bool {
			return c.Proves != mesh.ProvesL7 || !rc.passes(x, service, c.Way())
		})
		reads = append(reads, func(ctx context.Context) []alternative {
			return rc.proxy(ctx, pod, x, func(c mesh.Counter) balance.Place {
				return balance.Place{Service: service, Point: points[c.Way()], Unit: balance.Requests}
			})
		})
	}
	return reads
}

// passes reports whether requests of HTTP pass a service's sidecar x in a direction, and are counted.
func (rc *requestCounters) passes(x mesh.Proxy, service, way string) bool {
	http := func(name string) bool {
		s, _ := rc.spec.Topology.Service(name)
		return rc.spec.Protocol(s) != app.TCP
	}
	if way == mesh.WayIn {
		if x.OpaqueOutside && !rc.enrolment.loadInside && rc.enrolment.gateway == nil && service == rc.spec.Entry().Name {
			return false
		}
		return service != loadService && http(service)
	}
	if service == loadService {
		return http(rc.spec.Entry().Name)
	}
	if rc.spec.Topology.CallsUnknown() {
		return true
	}
	s, _ := rc.spec.Topology.Service(service)
	return slices.ContainsFunc(s.Calls, func(c app.Call) bool { return c.Service != "" && http(c.Service) })
}

func (rc *requestCounters) proxy(ctx context.Context, pod *corev1.Pod, x mesh.Proxy, place func(mesh.Counter) balance.Place) (all []alternative) {
	from := rc.task(pod, x.Container)
	var values []float64
	if from.Unknown == "" {
		var err error
		if values, err = rc.read(ctx, x, pod); err != nil {
			from.Unknown = err.Error()
		}
	}
	index := map[string]int{} // by direction
	for i, c := range x.Counters {
		n := from
		n.Place = place(c)
		if n.Unknown == "" {
			n.Count = int64(values[i])
		}
		all = append(all, alternative{direction{x.Role, c.Way()}, index[c.Way()], n})
		index[c.Way()]++
	}
	return all
}

// task is the origin of the counts of a container: its name, and its instance.
func (rc *requestCounters) task(pod *corev1.Pod, container string) balance.Count {
	c := balance.Count{By: rc.pods.name(pod) + "/" + container, Unknown: "it has no status"}
	for _, s := range statuses(pod) {
		if mesh.Match(container, s.Name) {
			c.Instance, c.Unknown = string(pod.UID)+"."+strconv.Itoa(int(s.RestartCount)), ""
		}
	}
	return c
}
