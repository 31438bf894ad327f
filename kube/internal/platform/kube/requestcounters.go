package kube

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/meshes"
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

// callGraph finds the calls between services of an application whose file does not declare them. It reads the sidecars'
// counters after the probes of the verification.
type callGraph struct {
	*trial
	pods *trialPods
}

// seenCall is a call between two services.
type seenCall struct{ caller, service string }

// find lists the calls, by caller. Services of a mesh without sidecars, or whose counters have no destinations, have none.
func (g *callGraph) find(ctx context.Context) (calls []seenCall) {
	if g.spec.Mesh.Kubernetes == nil {
		return nil
	}
	names := lists.Map(g.spec.Topology.Services, func(s app.Service) string { return s.Name })
	for _, s := range g.spec.Topology.Services {
		for _, pod := range g.pods.ofService(s.Name) {
			for _, to := range g.destinations(ctx, pod, names) {
				if c := (seenCall{s.Name, to}); to != s.Name && !slices.Contains(calls, c) {
					calls = append(calls, c)
				}
			}
		}
	}
	return calls
}

// destinations are the Services that a pod's sidecars have counted calls to. Unreadable counters count none.
func (g *callGraph) destinations(ctx context.Context, pod *corev1.Pod, names []string) (all []string) {
	for _, x := range g.spec.Mesh.Kubernetes.Proxies {
		if x.In != mesh.InPod {
			continue
		}
		x.Counters = slices.DeleteFunc(slices.Clone(x.Counters), func(c mesh.Counter) bool { return c.Way() != mesh.WayOut })
		values, err := meshes.LabelValues(ctx, g.cluster, x, pod)
		if err != nil {
			continue
		}
		all = append(all, lists.Where(names, func(name string) bool {
			return slices.ContainsFunc(values, func(v string) bool { return addressed(v, name, g.namespace) })
		})...)
	}
	return all
}

// addressed reports whether a label's value is a Service, or its name in the namespace: "outbound|80||api.shop.svc…".
func addressed(value, service, namespace string) bool {
	before, after, found := strings.Cut(value, service+"."+namespace)
	if !found {
		return value == service
	}
	starts := before == "" || strings.ContainsAny(before[len(before)-1:], "|/:;,")
	return starts && (after == "" || strings.ContainsAny(after[:1], ".|:/;,"))
}

// text is the calls as application.services takes them.
func (g *callGraph) text(calls []seenCall) string {
	var lines []string
	for _, s := range g.spec.Topology.Services {
		made := lists.Where(calls, func(c seenCall) bool { return c.caller == s.Name })
		if to := lists.Map(made, func(c seenCall) string { return c.service }); len(to) > 0 {
			lines = append(lines, fmt.Sprintf("{name: %s, calls: [%s]}", s.Name, strings.Join(to, ", ")))
		}
	}
	return strings.Join(lines, ", ")
}

// callsFound reports the calls, as text has them, and what they are for.
func callsFound(text string) string {
	return "the proxies saw calls between services: add application: {services: [" + text + "]} to the file, and requests are counted along them"
}

// adminTimeout bounds one request to a service's REST interface.
const adminTimeout = 15 * time.Second

// serviceAPI returns the REST interface of a service that tare-agent plays in a pod, through the API server and not through the
// mesh. close ends its connections.
func (t *trial) serviceAPI(pod *corev1.Pod) (api platform.ServiceAPI, close func()) {
	forward := t.cluster.Forward(pod.Namespace, pod.Name, adminPort)
	api = platform.ServiceAPI{Root: "http://" + pod.Name, Token: t.token, Timeout: adminTimeout, Dial: forward.DialContext}
	return api, func() { forward.Close() }
}

// configurer changes the configuration of running services.
type configurer struct{ pods *trialPods }

func (c *configurer) Configure(ctx context.Context, id string, patch []byte) (undo []byte, err error) {
	err = c.with(id, func(api platform.ServiceAPI) error {
		undo, err = api.Configure(ctx, patch)
		return err
	})
	return undo, err
}

func (c *configurer) Configuration(ctx context.Context, id string) (config []byte, err error) {
	err = c.with(id, func(api platform.ServiceAPI) error {
		config, err = api.Configuration(ctx)
		return err
	})
	return config, err
}

// with calls the REST interface of a service by the ID of its task.
func (c *configurer) with(id string, call func(platform.ServiceAPI) error) error {
	pod, err := c.pods.find(id)
	if err != nil {
		return err
	}
	api, done := c.pods.serviceAPI(pod)
	defer done()
	return call(api)
}
