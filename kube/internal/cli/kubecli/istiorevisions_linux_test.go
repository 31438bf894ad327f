package kubecli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// Two variants of Istio side by side, each with a control plane of its own revision, and none. The load moves between
// them. Each trial has its own sidecars and control plane only.
func TestKubernetesIstioRevisions(t *testing.T) {
	kubeconfig, charts := clusterWithIstio(t)
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("two control planes take minutes: make e2e-all")
	}
	const image = "tare.test/tare-agent:revisions"
	bin := agentInCluster(t, image)
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: kubeconfig}))(t)
	disposable(t, c)
	before := objectsIn(t, c)
	_, records, dir := measured(t, bin, fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: revisions}
platform: {kind: kubernetes, kubeconfig: %q, image: %q}
application: {topology: echo}
meshes:
  istio: {version: %q, charts: %q, options: {envoy: stock}}
  istio-log: {from: istio, options: {accessLog: "true"}}
factors: {mesh: [none, istio, istio-log], rate: [60], connections: [4]}
baseline: {mesh: none}
order: interleaved
slices: {length: 250ms, guard: 50ms}
phases: {warmup: 1s, measure: 5s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`, kubeconfig, image, os.Getenv("TARE_TEST_ISTIO_TAG"), charts))
	for _, r := range records {
		if !usable(r) {
			t.Errorf("%s: valid %v: %s: %+v", r.ID, r.Valid, r.Error, r.Warnings)
			continue
		}
		under := r.Treatment != "none"
		verifiedAs(t, r, under)
		sidecars, control := 0, []string{}
		for _, task := range r.Tasks {
			switch task.Plane {
			case metric.Data:
				sidecars++
			case metric.Control:
				control = append(control, task.ID)
			}
		}
		if sidecars != map[bool]int{false: 0, true: 2}[under] || len(control) != sidecars/2 ||
			under && !strings.HasPrefix(control[0], "istio-system-"+r.Treatment+"/istiod-"+r.Treatment+"-") {
			t.Errorf("%s: %d sidecars, control plane %q", r.ID, sidecars, control)
		}
		if sent := slicesOf(t, dir, r); sent == 0 || sent != r.Load.Sent {
			t.Errorf("%s: %d requests in its slices, %d sent", r.ID, sent, r.Load.Sent)
		}
		for _, plane := range []metric.Plane{metric.App, metric.Data, metric.Control} {
			used, _ := usedBy(r, plane)
			t.Logf("%s: %s %v", r.ID, plane, used)
		}
	}
	if a, b := measureStart(records[0]), measureStart(records[len(records)-1]); a.Sub(b).Abs() > 1e9 {
		t.Errorf("the measure phases are not at the same time: %v, %v", a, b)
	}
	c.Rediscover()
	for _, ref := range objectsIn(t, c) {
		if !slices.Contains(before, ref) {
			t.Errorf("left in the cluster: %s", ref)
		}
	}
}
