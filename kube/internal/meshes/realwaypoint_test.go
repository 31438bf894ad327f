package meshes

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// The tests have no ztunnel and no CNI agent. A waypoint of upstream Envoy becomes ready only if it accepts the whole
// configuration from Istio's control plane.
func TestRealWaypointOfUpstreamEnvoy(t *testing.T) {
	c := connect(t)
	charts, hub, tag := istioCharts(t), os.Getenv("TARE_TEST_ISTIO_HUB"), os.Getenv("TARE_TEST_ISTIO_TAG")
	d, err := mesh.Load("../../../internal/experiment/mesh/definitions/istio-ambient.yaml") // not the shared one
	must.OK(t, err)
	absent := []string{"istio-cni", "ztunnel", "istio-cni-node"}
	k := d.Kubernetes
	k.Charts = slices.DeleteFunc(k.Charts, func(c mesh.Chart) bool { return slices.Contains(absent, c.Release) })
	k.Workloads = slices.DeleteFunc(k.Workloads, func(w mesh.Workload) bool { return slices.Contains(absent, w.Name) })
	for _, p := range k.Profiles {
		delete(p.Values, "ztunnel")
	}
	m := must.Get(New(c, d, mesh.Settings{Hub: hub, Version: tag,
		Options: map[string]string{"envoy": "stock", "imagePullPolicy": "Never", "waypointImage": hub + "/proxyv2:" + tag},
		Values:  map[string]map[string]any{"istiod": {"image": hub + "/pilot:" + tag}}}, // the ambient profile sets another tag
		Options{Charts: charts, Report: func(line string) { t.Log(line) }}))(t)
	installed(t, c, m)
	namespace := "tare-test-waypoint-" + fmt.Sprint(os.Getpid())
	e := must.Get(m.Enrol(namespace, mesh.Way{LoadInside: true}))(t)
	put(t, c, namespace, e.Namespace)
	must.OK(t, m.Enter(bounded(t, 2*time.Minute), cluster.Stamp{Run: namespace}, namespace, e))
	ready := func(c check.Check) bool { return c.Name == "deployment "+namespace+"/waypoint" && c.OK }
	checks, err := verified(t, m, Target{Namespace: namespace, LoadInside: true}, func(checks []check.Check) bool { return slices.ContainsFunc(checks, ready) })
	if err != nil || !slices.ContainsFunc(checks, ready) {
		t.Errorf("the waypoint is not ready: %+v, %v", checks, err)
	}
	deleteNamespace(t, c, namespace)
}
