package kubecli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// Objects of Istio change routes and policies. Each change takes effect on every connection before the next of its kind. Then the
// control plane and a sidecar end and start again, and the trial stays valid. The seed has
// this order: a sidecar that is replaced while the control plane is stopped is learned of late, and requests wait.
func TestKubernetesIstioObjects(t *testing.T) {
	text := must.Get(os.ReadFile("../../../../examples/endpoint-removal.yaml"))(t)
	_, charts := clusterWithIstio(t)
	disposable(t, clustertest.Connect(t))
	r := fileOnKubernetes(t, text, append(removals(6, time.Second), "factors={mesh: [istio], rate: [100], connections: [8], replicas: [2]}", "validity.errorRatio=1",
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

// The application moves to another version of Istio, whose control plane is installed beside the first one and removed afterwards.
// Both versions are one build: the tags of the images differ.
func TestKubernetesIstioUpgrade(t *testing.T) {
	text := must.Get(os.ReadFile("../../../../examples/endpoint-removal.yaml"))(t)
	_, charts := clusterWithIstio(t)
	tag, hub := os.Getenv("TARE_TEST_ISTIO_TAG"), os.Getenv("TARE_TEST_ISTIO_HUB")
	next, nextCharts := retagged(t, charts)
	c := clustertest.Connect(t)
	disposable(t, c)
	before := objectsIn(t, c)
	r := fileOnKubernetes(t, text, append(removals(6, time.Second), "platform.meter=node-agent", "factors={mesh: [istio], rate: [50], connections: [8], replicas: [2]}",
		"changes={every: 30s, count: 1, kinds: [version-changed], to: istio-next}", "phases.measure=75s",
		fmt.Sprintf("meshes={istio: {version: %q, charts: %q, options: {envoy: stock}}, istio-next: {from: istio, version: %q, charts: %q}}", tag, charts, next, nextCharts))...)
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
	want := &mesh.Moved{Proxies: 2,
		From: mesh.RevisionImages{Version: tag, Control: []string{hub + "/pilot:" + tag}, Proxies: []string{hub + "/proxyv2:" + tag}},
		To:   mesh.RevisionImages{Version: next, Control: []string{hub + "/pilot:" + next}, Proxies: []string{hub + "/proxyv2:" + next}}}
	if !reflect.DeepEqual(change.Moved, want) {
		t.Errorf("moved %+v, want %+v", change.Moved, want)
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

// retagged gives the images of Istio a second tag in the cluster, and copies its charts with that tag.
func retagged(t *testing.T, charts string) (tag, dir string) {
	t.Helper()
	old := os.Getenv("TARE_TEST_ISTIO_TAG")
	tag, dir = old+"-next", filepath.Join(t.TempDir(), "charts")
	for _, name := range []string{"pilot", "proxyv2"} {
		image := os.Getenv("TARE_TEST_ISTIO_HUB") + "/" + name + ":"
		out, err := exec.Command("ctr", "-a", os.Getenv("TARE_TEST_CONTAINERD"), "-n", "k8s.io", "images", "tag", "--force", image+old, image+tag).CombinedOutput()
		if err != nil {
			t.Fatalf("tag %s: %v\n%s", image+tag, err, out)
		}
	}
	must.OK(t, os.CopyFS(dir, os.DirFS(charts)))
	for _, name := range []string{"base/Chart.yaml", "istiod/Chart.yaml", "istiod/values.yaml"} {
		path := filepath.Join(dir, name)
		text := must.Get(os.ReadFile(path))(t)
		must.OK(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte(old), []byte(tag)), 0o600))
	}
	return tag, dir
}
