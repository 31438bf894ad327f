package kube

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// The requests of an ambient mesh pass its waypoints. Of the two counters in the definition the one that a waypoint of
// upstream Envoy has is read. A load outside the mesh may bypass waypoints.
func TestWaypointCounts(t *testing.T) {
	ambient, err := mesh.Load("istio-ambient")
	if err != nil {
		t.Fatal(err)
	}
	topology, err := app.Load("chain-2")
	if err != nil {
		t.Fatal(err)
	}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, name := range []string{"waypoint-a", "waypoint-b"} {
		if err := store.Add(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: name, Labels: map[string]string{"gateway.networking.k8s.io/gateway-class-name": "istio-waypoint"}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "istio-proxy"}}},
		}); err != nil {
			t.Fatal(err)
		}
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
		before, err := rc.RequestCounts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		passed += 30
		after, err := rc.RequestCounts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		flows := balance.Changes(before, after)
		i := slices.IndexFunc(flows, func(f balance.Flow) bool {
			return f.Place == balance.Place{Service: balance.WaypointName, Point: balance.Waypoint, Unit: balance.Requests}
		})
		if i < 0 || len(flows) != 1 || inside && (flows[i].Count != 30 || flows[i].Unknown != "") || !inside && flows[i].Unknown != outsideWaypoint {
			t.Errorf("load inside %v: %+v", inside, flows)
		}
	}
}
