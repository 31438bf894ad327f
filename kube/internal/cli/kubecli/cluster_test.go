package kubecli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/internal/leftover"
	"github.com/tare-mesh/tare/kube/internal/meshes"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// A mesh that cannot be uninstalled does not keep the others. Only a missing permission hides the list of meshes.
func TestCleanupOfMeshesGoesOn(t *testing.T) {
	err := uninstall(t.Context(), nil, nil, []meshes.Installation{{Mesh: "first", From: "./gone.yaml"}, {Mesh: "second", From: "./gone.yaml"}})
	if err == nil || !strings.Contains(err.Error(), "mesh first") || !strings.Contains(err.Error(), "mesh second") {
		t.Errorf("%v", err)
	}
	for want, namespace := range map[string]any{
		"":                              http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }),
		"read the record of mesh istio": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", Annotations: map[string]string{"mesh.tare.dev/istio": "{"}}},
	} {
		_, err := installedMeshes(t.Context(), clustertest.Serve(t, map[string]any{"/api/v1/namespaces/kube-system": namespace}))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCleanupChoosesWhatIsDead(t *testing.T) {
	owner := func(f func(*cluster.Owner)) cluster.Owner { o := cluster.ThisProcess(); f(&o); return o }
	found := []leftover.Run{
		{ID: "alive", Owner: cluster.ThisProcess()},
		{ID: "dead", Owner: owner(func(o *cluster.Owner) { o.Start-- })},
		{ID: "elsewhere", Owner: owner(func(o *cluster.Owner) { o.Host = "another" })},
		{ID: "unmarked"},
	}
	installed := []meshes.Installation{{Mesh: "by-a-user"}, {Mesh: "a", Run: "alive", Owner: cluster.ThisProcess()},
		{Mesh: "b", Run: "dead", Owner: found[1].Owner}, {Mesh: "c", Run: "elsewhere", Owner: found[2].Owner}, {Mesh: "d", Run: "installer", Owner: cluster.ThisProcess()},
		{Mesh: "e", Incomplete: true, Owner: found[1].Owner}, {Mesh: "f", Incomplete: true, Owner: cluster.ThisProcess()}}
	for name, c := range map[string]struct {
		o    cleanup
		want string
	}{
		"by default":      {cleanup{}, "dead mesh:b mesh:e"},
		"all":             {cleanup{all: true}, "dead elsewhere unmarked mesh:b mesh:c mesh:e"},
		"named":           {cleanup{run: "alive"}, "alive mesh:a"},
		"mesh of another": {cleanup{run: "elsewhere"}, "elsewhere mesh:c"},
		"only a mesh":     {cleanup{run: "installer"}, "mesh:d"},
	} {
		chosen, uninstalled, err := c.o.choose(found, installed)
		var runs []string
		for _, l := range chosen {
			runs = append(runs, l.ID)
		}
		for _, i := range uninstalled {
			runs = append(runs, "mesh:"+i.Mesh)
		}
		if got := strings.Join(runs, " "); err != nil || got != c.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	var usage *hint.UsageError
	if _, _, err := (&cleanup{run: "ded"}).choose(found, installed); !errors.As(err, &usage) || usage.Hint() != "did you mean dead?" {
		t.Errorf("%v", err)
	}
}

func TestClusterCommandsWithoutACluster(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{{"status"}, {"adopt", "--yes"}, {"release"}} {
		_, err := call(t, append(append([]string{"cluster"}, args...), "--kubeconfig", none)...)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: %v", args, err)
		}
	}
	out := must.Get(call(t, "cluster", "rbac", "--subject", "user:jo"))(t)
	must.Contain(t, out, "kind: ClusterRole\n", `name: "jo"`)
	var usage *hint.UsageError
	if _, err := call(t, "cluster", "rbac", "--subject", "jo"); !errors.As(err, &usage) {
		t.Errorf("%v", err)
	}
	if _, err := call(t, "cluster", "rbac", "-n", "not: a name"); err == nil {
		t.Error("a namespace that cannot be was taken")
	}
	// A namespace is read in the cluster of the flags, and an unread one is not a mistake in the file.
	file := filepath.Join(t.TempDir(), "shop.yaml")
	text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: shop}\nplatform: {kind: kubernetes}\napplication: {namespace: shop, entry: web, services: [{name: db, calls: [api]}]}\nfactors: {mesh: [none, istio]}\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	if _, err := call(t, "cluster", "rbac", "--for", file, "--kubeconfig", none); !errors.Is(err, os.ErrNotExist) || errors.As(err, new(interface{ InvalidFile() })) {
		t.Errorf("a file with a namespace, of a cluster without a kubeconfig: %v", err)
	}
	none += ": with a colon" // quoted as YAML
	for _, command := range []string{"run", "plan"} {
		if _, err := call(t, command, file, "--kubeconfig", none, "--context", "a"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), none) {
			t.Errorf("%s with the cluster of its flags: %v", command, err)
		}
	}
	if err := (console.Console{In: strings.NewReader("y\n")}).Confirm("remove it", false); !errors.As(err, &usage) {
		t.Errorf("asked without a terminal: %v", err)
	}
}

// On a real cluster: status describes it. Cleanup refuses a run without objects, removes a run's objects whatever their
// kind, and lists them again.
func TestKubernetesClusterCommands(t *testing.T) {
	path := clustertest.Kubeconfig(t)
	out, err := call(t, "cluster", "status", "--kubeconfig", path)
	for _, want := range []string{"Kubernetes v1.", "NODE ", "held by: no run", "mark: ", "other workloads: ", "RBAC permissions: none missing"} {
		must.OK(t, err)
		must.Contain(t, out, want)
	}
	if out, err := call(t, "cluster", "cleanup", "--kubeconfig", path, "--run", "tare-no-such-run", "--yes"); err == nil {
		t.Errorf("removed a run that does not exist:\n%s", out)
	}
	c := clustertest.Connect(t)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "tare-test-policy"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{"tare.test"}, APIVersions: []string{"v1"}, Resources: []string{"scales"}}}}}},
		Validations: []admissionv1.Validation{{Expression: "true"}}}}
	must.OK(t, c.Apply(clustertest.Within(t, time.Minute), cluster.Stamp{Run: "tare-test-policy", Owner: cluster.Owner{Host: "elsewhere", PID: 7}}, policy))
	out = must.Get(call(t, "cluster", "cleanup", "--kubeconfig", path, "--run", "tare-test-policy", "--yes"))(t)
	must.Contain(t, out, "validatingadmissionpolicy tare-test-policy", "no object of a removed run is left")
	ref, _ := cluster.RefOf(policy)
	if _, err := c.Get(clustertest.Within(t, time.Minute), ref); !cluster.IsNotFound(err) {
		t.Errorf("the policy still exists: %v", err)
	}
	cleansUpMesh(t, c, path)
}

// ownMesh is a definition that does not come with tare.
const ownMesh = `name: own
description: a mesh of one's own
provides: {telemetry: true}
kubernetes:
  version: 1.0.0
  namespace: tare-test-own
  charts: [{release: own, chart: own, repository: "https://charts.invalid"}]
  profiles: {dev: {replicas: 1}, ha: {replicas: 2}}
  workloads: [{kind: Deployment, name: own, scaled: true}]
  proxies: [{role: sidecar, in: pod, container: own-proxy}]
  leftovers: [{kind: ConfigMap, namespace: default, name: tare-test-own-*}]
tasks: [{plane: data, role: sidecar, container: own-proxy}]
`

// cleansUpMesh removes the mesh of a dead run, by the definition in its record. Its namespace is there, and of an interrupted
// removal only a leftover.
func cleansUpMesh(t *testing.T, c *cluster.Cluster, kubeconfig string) {
	dead := cluster.ThisProcess()
	dead.Start-- // another process had this number
	record := must.Get(json.Marshal(meshes.Installation{Mesh: "own", Namespace: "tare-test-own", Run: "r-dead", Incomplete: true, Owner: dead, Text: ownMesh}))(t)
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"mesh.tare.dev/own": %q}}}`, record)
	must.OK(t, c.Patch(clustertest.Within(t, time.Minute), cluster.Ref{Kind: cluster.KindNamespace, Name: cluster.SystemNamespace}, patch))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tare-test-own"}}
	left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tare-test-own-root"}}
	must.OK(t, c.Apply(clustertest.Within(t, time.Minute), cluster.Stamp{Installed: "own", Owner: dead}, ns))
	must.OK(t, c.Apply(clustertest.Within(t, time.Minute), cluster.Stamp{Run: "tare-test-own"}, left))
	out := must.Get(call(t, "cluster", "cleanup", "--kubeconfig", kubeconfig, "--run", "r-dead", "--yes"))(t)
	must.Contain(t, out, "mesh own in namespace tare-test-own")
	for _, o := range []runtime.Object{ns, left} {
		ref, _ := cluster.RefOf(o)
		if _, err := c.Get(clustertest.Within(t, time.Minute), ref); !cluster.IsNotFound(err) {
			t.Errorf("%s still exists: %v", ref, err)
		}
	}
}

func disposable(t *testing.T, k *cluster.Cluster) {
	t.Helper()
	g := guard.New(k)
	before, marked, err := g.Mark(t.Context())
	must.OK(t, err)
	must.Get(g.Adopt(t.Context(), must.Get(g.Foreign(t.Context()))(t)))(t)
	t.Cleanup(func() {
		if !marked {
			must.OK(t, g.Release(context.Background()))
			return
		}
		must.Get(g.Adopt(context.Background(), before.Workloads))(t)
	})
}
