package kubecli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/kube/cluster/clustertest"
	"github.com/tare-mesh/tare/internal/metric"
)

// Objects of Istio change routes and policies. Each change takes effect on every connection before the next of its kind. Then the
// control plane and a sidecar end and start again, and the trial stays valid. The seed has
// this order: a sidecar that is replaced while the control plane is stopped is learned of late, and requests wait.
func TestKubernetesIstioObjects(t *testing.T) {
	text := must.Get(os.ReadFile("../../../examples/endpoint-removal.yaml"))(t)
	_, charts := clusterWithIstio(t)
	disposable(t, clustertest.Connect(t))
	r := fileOnKubernetes(t, text, append(removals(6), "factors={mesh: [istio], rate: [100], connections: [8], replicas: [2]}", "validity.errorRatio=1",
		"changes={every: 9s, count: 8, kinds: [route-changed, weight-shifted, route-added, policy-denied, policy-allowed, control-restarted, control-stopped, proxy-restarted]}",
		"seed=29", "phases.measure=82s", "platform.meter=node-agent",
		fmt.Sprintf("meshes={istio: {version: %q, charts: %q, options: {envoy: stock}}}", os.Getenv("TARE_TEST_ISTIO_TAG"), charts))...)
	all := r.records(t, console.Done, nil)
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%+v", all)
	}
	kinds, known := map[string]int{}, 0
	for i, c := range all[0].Changes {
		kinds[c.Kind]++
		if described, _ := metric.ChangeKindOf(c.Kind); described.Shown == metric.Outage {
			if c.CPU != nil && c.CPU.NS[metric.Control] != [2]int64{} {
				known++
			}
			if c.AcceptedSeconds-c.SentSeconds < map[string]float64{metric.ControlStopped: 3.5}[c.Kind] {
				t.Errorf("%s of %s: %+v", c.Kind, c.Task, c)
			}
			continue
		}
		if i == 4 && (c.Parts == nil || c.Parts.TakenMS == nil || c.Parts.Proxies != 2) { // an allowing policy, at both replicas
			t.Errorf("change %d (%s) was taken over by no proxy: %+v", i+1, c.Kind, c.Parts)
		}
		if c.LastOld == nil || c.LastOld.BeforeMS == nil || c.Unchanged > 0 {
			t.Errorf("change %d (%s) has not taken effect: %+v", i+1, c.Kind, c)
		}
	}
	if len(kinds) != 8 || known == 0 {
		t.Errorf("%v, want eight kinds; %d restarts have CPU of the control plane", kinds, known)
	}
}

// The application moves to a second revision of Istio, whose control plane is installed beside the first one and removed afterwards.
func TestKubernetesIstioUpgrade(t *testing.T) {
	text := must.Get(os.ReadFile("../../../examples/endpoint-removal.yaml"))(t)
	_, charts := clusterWithIstio(t)
	c := clustertest.Connect(t)
	disposable(t, c)
	before := objectsIn(t, c)
	r := fileOnKubernetes(t, text, append(removals(6), "platform.meter=node-agent", "factors={mesh: [istio], rate: [50], connections: [8], replicas: [2]}",
		"changes={every: 30s, count: 1, kinds: [version-changed]}", "phases.measure=75s",
		fmt.Sprintf("meshes={istio: {version: %q, charts: %q, options: {envoy: stock}}}", os.Getenv("TARE_TEST_ISTIO_TAG"), charts))...)
	all := r.records(t, console.Done, nil)
	if len(all) != 1 || !usable(all[0]) || len(all[0].Changes) != 1 {
		t.Fatalf("%+v", all)
	}
	change, revised := all[0].Changes[0], 0
	switch {
	case change.FirstNew == nil || change.LastOld == nil || change.LastOld.BeforeMS == nil:
		t.Errorf("the application has not moved: %+v", change)
	case change.FirstNew.AfterMS <= 1000*(change.PreparedSeconds-change.SentSeconds):
		t.Errorf("a new pod answered before the control plane was ready: %+v", change)
	}
	for _, task := range all[0].Tasks {
		if task.Plane == metric.Control && strings.HasPrefix(task.ID, "istio-system/istiod-tare-1-") {
			revised++
		}
	}
	if revised != 1 {
		t.Errorf("%d tasks of the second control plane, want 1: %+v", revised, all[0].Tasks)
	}
	nothingAdded(t, c, before)
}
