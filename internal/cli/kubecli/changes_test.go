package kubecli

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/cluster/clustertest"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// removals are pairs of changes in one trial of a study, on a busy machine.
func removals(pairs int) []string {
	return []string{fmt.Sprintf("changes={every: 1s, count: %d, kinds: [endpoint-removed, endpoint-added]}", 2*pairs), "blocks=1", "order=random",
		fmt.Sprintf("phases={warmup: 2s, measure: %ds, drain: 1s, idle: {cpu: 100, deadline: 1s}}", 2*pairs+2), "validity={rateShortfall: 0.5, errorRatio: 0.05, lateness: 10s, generatorCPU: 1}"}
}

// A pod that leaves the entry's Service gets no more requests, and gets them again when it is back. Meanwhile the
// endpoints of Services that no request calls change, in a list from outside.
func TestKubernetesEndpointRemoval(t *testing.T) {
	text := must.Get(os.ReadFile("../../../examples/endpoint-removal.yaml"))(t)
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	disposable(t, clustertest.Connect(t))
	r := fileOnKubernetes(t, text, append(removals(3), "factors={mesh: [none], rate: [100], connections: [8], connectionRate: [100], replicas: [2]}",
		"background={services: 20, changes: 2/s}")...)
	all := r.records(t, console.Done, func() { behindChanges(t, r.cluster) })
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%+v", all)
	}
	followed(t, all[0], 3)
	if b := all[0].Background; b == nil || b.Services != 20 || b.Changes != 16 || b.Pushes != nil { // two a second of a measure phase of 8 s
		t.Errorf("background %+v", b)
	}
}

// behindChanges checks that the cluster has 20 background services whose addresses change three times.
func behindChanges(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	seen, last := 0, ""
	err := wait.Within(t.Context(), 20*time.Second, 100*time.Millisecond, func(ctx context.Context) error {
		list, err := c.Typed().DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{LabelSelector: cluster.LabelRun + ",endpointslice.kubernetes.io/managed-by=tare"})
		if err != nil {
			return err
		}
		all := ""
		for _, s := range list.Items {
			all += s.Labels["kubernetes.io/service-name"] + " " + s.Endpoints[0].Addresses[0] + "\n"
		}
		if all != last {
			seen, last = seen+1, all
		}
		if len(list.Items) != 20 || seen < 4 {
			return fmt.Errorf("%d EndpointSlices, in %d states:\n%s", len(list.Items), seen, all)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Under Istio a pod that leaves the Service gets no more requests, and each change has CPU of the control plane.
func TestKubernetesIstioChanges(t *testing.T) {
	text := must.Get(os.ReadFile("../../../examples/endpoint-removal.yaml"))(t)
	_, charts := clusterWithIstio(t)
	disposable(t, clustertest.Connect(t))
	r := fileOnKubernetes(t, text, append(removals(6), "platform.meter=node-agent", "factors={mesh: [istio], rate: [100], connections: [8], connectionRate: [100], replicas: [2]}",
		fmt.Sprintf("meshes={istio: {version: %q, charts: %q, options: {envoy: stock}}}", os.Getenv("TARE_TEST_ISTIO_TAG"), charts))...)
	all := r.records(t, console.Done, nil)
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%+v", all)
	}
	followed(t, all[0], 6)
	known := 0
	for _, c := range all[0].Changes {
		if c.CPU == nil {
			continue
		}
		if _, has := c.CPU.NS[metric.Control]; has {
			known++
		}
	}
	if known == 0 {
		t.Error("no change has the CPU time of the control plane")
	}
}

// followed checks that each of the pairs of changes took effect before the next change.
func followed(t *testing.T, r result.Record, pairs int) {
	t.Helper()
	kinds := map[string]int{}
	for i, c := range r.Changes {
		kinds[c.Kind]++
		span := c.LastOld
		if c.Kind == metric.EndpointAdded {
			span = c.FirstNew
		}
		if span == nil || span.BeforeMS == nil || c.Endpoint == "" {
			t.Errorf("%s: change %d (%s of %q) has not taken effect: %+v", r.ID, i+1, c.Kind, c.Endpoint, c)
		}
	}
	if kinds[metric.EndpointRemoved] != pairs || kinds[metric.EndpointAdded] != pairs {
		t.Errorf("%s: %v, want %d changes of each kind", r.ID, kinds, pairs)
	}
}
