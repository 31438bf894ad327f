package kubecli

import (
	"fmt"
	"os"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/cli/console"
)

// Objects of Istio change routes and policies. Each change takes effect on every connection before the next of its kind.
func TestKubernetesIstioObjects(t *testing.T) {
	text := must.Get(os.ReadFile("../../../examples/endpoint-removal.yaml"))(t)
	_, charts := clusterWithIstio(t)
	r := fileOnKubernetes(t, text, append(removals, "factors={mesh: [istio], rate: [100], connections: [8], replicas: [2]}", "validity.errorRatio=1",
		"changes={every: 1s, count: 10, kinds: [route-changed, weight-shifted, route-added, policy-denied, policy-allowed]}",
		fmt.Sprintf("meshes={istio: {version: %q, charts: %q, options: {envoy: stock}}}", os.Getenv("TARE_TEST_ISTIO_TAG"), charts))...)
	all := r.records(t, console.Done, nil)
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%+v", all)
	}
	kinds := map[string]int{}
	for i, c := range all[0].Changes {
		kinds[c.Kind]++
		if c.LastOld == nil || c.LastOld.BeforeMS == nil || c.Unchanged > 0 {
			t.Errorf("change %d (%s) has not taken effect: %+v", i+1, c.Kind, c)
		}
	}
	if len(kinds) != 5 {
		t.Errorf("%v, want five kinds", kinds)
	}
}
