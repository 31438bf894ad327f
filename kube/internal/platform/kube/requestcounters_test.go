package kube

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// The requests of an ambient mesh pass its waypoints. Of the two counters in the definition the one that a waypoint of
// upstream Envoy has is read. A load outside the mesh may bypass waypoints.
func TestWaypointCounts(t *testing.T) {
	ambient := must.Get(mesh.Load("istio-ambient"))(t)
	topology := must.Get(app.Load("chain-2"))(t)
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, name := range []string{"waypoint-a", "waypoint-b"} {
		must.OK(t, store.Add(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: name, Labels: map[string]string{"gateway.networking.k8s.io/gateway-class-name": "istio-waypoint"}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "istio-proxy"}}},
		}))
	}
	for _, inside := range []bool{true, false} {
		of := &trial{options: &Options{}, namespace: "trial", spec: platform.Spec{Mesh: ambient, Topology: topology}, enrolment: enrolment{loadInside: inside}}
		passed := 24_090.0 // of a real waypoint
		rc := &requestCounters{trial: of, pods: &trialPods{trial: of, store: &podStore{informer: fixedInformer{store: store}}},
			read: func(_ context.Context, x mesh.Proxy, pod *corev1.Pod) ([]float64, error) {
				values := make([]float64, len(x.Counters))
				for i, c := range x.Counters {
					if c.Metric == "envoy_http_downstream_rq_total" && pod.Name == "waypoint-a" {
						values[i] = passed
					}
				}
				return values, nil
			}}
		before := must.Get(rc.RequestCounts(t.Context()))(t)
		passed += 30
		after := must.Get(rc.RequestCounts(t.Context()))(t)
		flows := balance.Changes(before, after)
		i := slices.IndexFunc(flows, func(f balance.Flow) bool {
			return f.Place == balance.Place{Service: balance.WaypointName, Point: balance.Waypoint, Unit: balance.Requests}
		})
		if i < 0 || len(flows) != 1 {
			t.Errorf("load inside %v: %+v", inside, flows)
		} else if d := difftest.Wrong(`inside && (flows[i].Count != 30 || flows[i].Unknown != "")`, inside && (flows[i].Count != 30 || flows[i].Unknown != ""), "!inside && flows[i].Unknown != outsideWaypoint", !inside && flows[i].Unknown != outsideWaypoint); d != "" {
			t.Errorf("%s: load inside %v: %+v", d, inside, flows)
		}
	}
}

// connection is a series of a ztunnel.
type connection struct{ reporter, source, destination string }

// ztunnel counts connections of a namespace, as a real one does: the source's ztunnel and the destination's each count one.
type ztunnel map[connection]float64

func (z ztunnel) read(c mesh.Counter) (sum float64) {
	for s, n := range z {
		if c.Counts(map[string]string{"reporter": s.reporter, "source_workload": s.source, "source_workload_namespace": "trial",
			"destination_workload": s.destination, "destination_workload_namespace": "trial"}) {
			sum += n
		}
	}
	return sum
}

// podsOf is a store with pods, each written "namespace/name key=value".
func podsOf(t *testing.T, texts ...string) *podStore {
	t.Helper()
	var pods []*corev1.Pod
	for _, text := range texts {
		where, label, _ := strings.Cut(text, " ")
		namespace, name, _ := strings.Cut(where, "/")
		key, value, _ := strings.Cut(label, "=")
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{key: value}},
			Spec:       corev1.PodSpec{NodeName: "node"},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "istio-proxy"}}},
		})
	}
	return storeOf(t, pods...)
}

func storeOf(t *testing.T, pods ...*corev1.Pod) *podStore {
	t.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, pod := range pods {
		must.OK(t, store.Add(pod))
	}
	return &podStore{informer: fixedInformer{store: store}}
}

// Connections through ztunnels come from the load and the services. Another client of a service is found.
func TestNodeProxyCounts(t *testing.T) {
	topology := must.Get(app.Load("chain-2"))(t)
	front, back := topology.Services[0].Name, topology.Services[1].Name
	for _, test := range []struct {
		name, mesh string
		pods       []string
		gateway    bool
		opened     ztunnel // during the load, whose generator opened 16 connections
		want       string  // part of the message
		equations  int
	}{
		{"conserved", "istio-ambient-l4", nil, false, ztunnel{{"source", "load", front}: 16, {"destination", "load", front}: 16, {"source", front, back}: 9, {"destination", front, back}: 9}, "", 3},
		{"a client at the service", "istio-ambient-l4", nil, false, ztunnel{{"source", "load", front}: 16, {"destination", "load", front}: 16, {"destination", "other", front}: 40},
			"40 connections appeared between the node proxy of load and the node proxy of " + front + ": 16 expected, 56 counted", 3},
		{"a bypass", "istio-ambient-l4", nil, false, ztunnel{{"source", "load", front}: 4, {"destination", "load", front}: 4}, "12 connections vanished between load and its node proxy: 16 expected, 4 counted", 3},
		{"a waypoint pools connections", "istio-ambient", []string{"trial/waypoint gateway.networking.k8s.io/gateway-class-name=istio-waypoint"}, false,
			ztunnel{{"source", "load", "waypoint"}: 16, {"destination", "waypoint", front}: 3}, "", 1},
		{"a gateway pools connections", "istio-ambient-l4", nil, true, ztunnel{{"destination", "gateway", front}: 3, {"source", front, back}: 9, {"destination", front, back}: 9}, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			ambient := must.Get(mesh.Load(test.mesh))(t)
			e := enrolment{loadInside: !test.gateway}
			if test.gateway {
				e.gateway = ambient.Kubernetes.Gateway
			}
			of := &trial{options: &Options{}, namespace: "trial", spec: platform.Spec{Mesh: ambient, Topology: topology}, enrolment: e}
			counted := ztunnel{{"source", "load", front}: 5, {"source", front, back}: 5, {"destination", "load", front}: 5, {"destination", front, back}: 5} // by the verification
			rc := &requestCounters{trial: of, pods: &trialPods{trial: of, store: podsOf(t, append(test.pods, "istio-system/ztunnel-a app=ztunnel", "trial/front app=front", "kube-system/x app=ztunnel")...)},
				read: func(_ context.Context, x mesh.Proxy, _ *corev1.Pod) ([]float64, error) {
					var values []float64
					for _, c := range x.Counters {
						values = append(values, counted.read(c))
					}
					return values, nil
				}}
			before := must.Get(rc.RequestCounts(t.Context()))(t)
			for s, n := range test.opened {
				counted[s] += n
			}
			after := must.Get(rc.RequestCounts(t.Context()))(t)
			load := balance.Flow{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: front, Unit: balance.Connections}, Tally: balance.Tally{Count: 16}}
			b := balance.Check(topology, balance.Rules{Measured: 1}, append(balance.Changes(before, after), load))
			if got := b.Message(); test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if len(b.Equations) != test.equations {
				t.Errorf("%+v, unchecked %q", b.Equations, b.Unchecked)
			}
		})
	}
}

// Requests that the ingress gateway receives are compared with the load's requests.
func TestGatewayCounts(t *testing.T) {
	istio := must.Get(mesh.Load("istio"))(t)
	topology := must.Get(app.Load("echo"))(t)
	of := &trial{options: &Options{}, namespace: "trial", spec: platform.Spec{Mesh: istio, Topology: topology}, enrolment: enrolment{gateway: istio.Kubernetes.Gateway}}
	passed := 20.0
	rc := &requestCounters{trial: of, pods: &trialPods{trial: of, store: podsOf(t, "trial/tare-gateway-istio gateway.networking.k8s.io/gateway-name=tare-gateway")},
		read: func(_ context.Context, x mesh.Proxy, _ *corev1.Pod) (values []float64, _ error) {
			for _, c := range x.Counters {
				values = append(values, map[bool]float64{true: passed}[c.Metric == "envoy_http_downstream_rq_total"])
			}
			return values, nil
		}}
	before := must.Get(rc.RequestCounts(t.Context()))(t)
	passed += 1300
	after := must.Get(rc.RequestCounts(t.Context()))(t)
	load := balance.Flow{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: "echo", Unit: balance.Requests}, Tally: balance.Tally{Count: 1000}}
	const want = "300 requests appeared between load and the gateway: 1000 expected, 1300 counted"
	must.Contain(t, balance.Check(topology, balance.Rules{Measured: 1}, append(balance.Changes(before, after), load)).Message(), want)
}

// A sidecar that passes requests from outside the mesh as TCP does not count the requests of a load outside at the entry.
func TestOpaqueRequestsOfLoadOutside(t *testing.T) {
	topology := must.Get(app.Load("chain-2"))(t)
	front, back := topology.Services[0].Name, topology.Services[1].Name
	for _, c := range []struct {
		opaque, inside bool
		entry          bool
	}{{true, false, false}, {true, true, true}, {false, false, true}} {
		rc := &requestCounters{trial: &trial{spec: platform.Spec{Topology: topology}, enrolment: enrolment{loadInside: c.inside}}}
		x := mesh.Proxy{In: mesh.InPod, OpaqueOutside: c.opaque}
		if got := rc.passes(x, front, mesh.WayIn); got != c.entry {
			t.Errorf("opaque %v, load inside %v: requests to the entry are counted: %v", c.opaque, c.inside, got)
		}
		if !rc.passes(x, back, mesh.WayIn) || !rc.passes(x, front, mesh.WayOut) {
			t.Errorf("opaque %v, load inside %v: requests between services are not counted", c.opaque, c.inside)
		}
	}
}
