package kubecli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/internal/chart"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
	"github.com/tare-mesh/tare/test/must"
)

// An Istio of revision "stable", installed by Helm, and one of revision "next", applied by kubectl from rendered charts, are measured as
// they are: the first by its name, the second by its revision tag. Their objects are afterwards what they were, and no hint removes them.
func TestKubernetesIstioByOthers(t *testing.T) {
	kubeconfig, charts := clusterWithIstio(t)
	const image = "tare.test/tare-agent:others"
	bin := agentInCluster(t, image)
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: kubeconfig}))(t)
	empty := objectsIn(t, c)
	definition := must.Get(mesh.Load("istio"))(t)
	version := os.Getenv("TARE_TEST_ISTIO_TAG")
	settings := func(name string, tags ...any) mesh.Settings {
		return mesh.Settings{Version: version, Hub: os.Getenv("TARE_TEST_ISTIO_HUB"), Options: map[string]string{"envoy": "stock", "imagePullPolicy": "Never"},
			Values: map[string]map[string]any{"istiod": {"revision": name, "revisionTags": append([]any{}, tags...)}}}
	}
	revision := func(name string, tags ...any) *meshes.Mesh {
		return must.Get(meshes.New(c, definition, settings(name, tags...), meshes.Options{Charts: charts}))(t)
	}
	m := revision("stable")
	owner := &byHand{cluster: c, kubeconfig: kubeconfig}
	defer func() {
		must.OK(t, m.Uninstall(t.Context(), true))
		nothingAdded(t, c, empty)
	}()
	stable := must.Get(definition.Kubernetes.Complete(settings("stable")))(t)
	for _, r := range must.Get(definition.Kubernetes.Releases(stable, definition.Kubernetes.InstallContext(stable)))(t) {
		must.Get(chart.New(c, t.TempDir()).Install(t.Context(), chart.Release{Name: r.Release, Namespace: r.Namespace, Source: chart.Source{Chart: filepath.Join(charts, r.Chart.Chart)}, Values: r.Values}))(t)
	}
	istiod := cluster.Ref{Kind: cluster.KindDeployment, Namespace: "istio-system", Name: "istiod-stable"}
	must.OK(t, c.WaitReady(t.Context(), nil, istiod))
	for _, command := range []string{"install", "uninstall"} {
		out, err := call(t, "mesh", command, "istio", "--charts", charts, "--kubeconfig", kubeconfig, "--in-use")
		if command == "uninstall" {
			out, err = call(t, "mesh", command, "istio", "--kubeconfig", kubeconfig)
		}
		if err == nil || strings.Contains(hint.Of(err), "--force") {
			t.Errorf("mesh %s: %v, hint %q\n%s", command, err, hint.Of(err), out)
		}
	}
	must.Contain(t, must.Get(call(t, "mesh", "verify", "istio", "--kubeconfig", kubeconfig))(t), "runs, not installed by tare", "istiod-stable")
	next := must.Get(revision("next", "canary").Rendered(t.Context()))(t)["istiod"].Manifest
	owner.kubectl(t, next, "apply", "--server-side", "-n", "istio-system", "-f", "-")
	defer owner.kubectl(t, next, "delete", "--ignore-not-found", "-n", "istio-system", "-f", "-")
	istiod.Name = "istiod-next"
	must.OK(t, c.WaitReady(t.Context(), nil, istiod))
	c.Rediscover()
	before, changed := objectsIn(t, c), resourceVersions(t, c)
	text := fmt.Sprintf(istioExperiment, kubeconfig, image, "echo", version, charts, "", "")
	_, records, dir := measured(t, bin, text, "meshes.istio.revision=stable", "meshes.next={from: istio, revision: canary}", "factors.mesh=[none, istio, next]")
	for _, r := range records {
		if !usable(r) {
			t.Errorf("%s: valid %v: %s: %+v", r.ID, r.Valid, r.Error, r.Warnings)
		}
		under := r.Treatment != "none"
		if got := sidecarsOf(r); got != map[bool]int{false: 0, true: 2}[under] {
			t.Errorf("%s: %d sidecars: %+v", r.ID, got, r.Tasks)
		}
		verifiedAs(t, r, under)
		pods := must.Get(os.ReadFile(filepath.Join(dir, result.TrialsDir, r.ID, result.ProvenanceDir, "pods.yaml")))(t)
		if want := map[string]string{"istio": "stable", "next": "next"}[r.Treatment]; under && !strings.Contains(string(pods), "istio.io/rev: "+want+"\n") {
			t.Errorf("%s: no pod is of revision %s", r.ID, want)
		}
	}
	nothingAdded(t, c, before)
	if after := resourceVersions(t, c); !slices.Equal(after, changed) {
		t.Errorf("the mesh was changed: %v, then %v", changed, after)
	}
}

// resourceVersions are those of the objects with which Istio is configured.
func resourceVersions(t *testing.T, c *cluster.Cluster) (all []string) {
	t.Helper()
	webhooks := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}
	for _, ref := range []cluster.Ref{
		{Kind: cluster.KindNamespace, Name: "istio-system"},
		{Kind: cluster.KindSecret, Namespace: "istio-system", Name: "sh.helm.release.v1.istiod.v1"},
		{Kind: cluster.KindDeployment, Namespace: "istio-system", Name: "istiod-stable"},
		{Kind: cluster.KindConfigMap, Namespace: "istio-system", Name: "istio-stable"},
		{Kind: webhooks, Name: "istio-sidecar-injector-stable"},
	} {
		all = append(all, ref.String()+" "+must.Get(c.Get(t.Context(), ref))(t).GetResourceVersion())
	}
	return all
}
