package kubecli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// inPlace measures an application where it runs, under the mesh of a real webhook, with only the permissions that are
// printed for it. Tare is killed in the second trial, and `tare cluster cleanup` puts the application back as it was.
func (r *onKubernetes) inPlace(t *testing.T, definition, charts string) {
	ctx := t.Context()
	kubeconfig := clustertest.Kubeconfig(t)
	apply := exec.Command(os.Getenv("TARE_TEST_KUBECTL"), "--kubeconfig", kubeconfig, "apply", "-f", "-") // as its owner does, without marks of a run
	apply.Stdin = strings.NewReader(deskObjects)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	desk := cluster.Ref{Kind: cluster.KindNamespace, Name: "desk"}
	defer func() {
		if err := r.cluster.Delete(ctx, nil, desk); err != nil {
			t.Error(err)
		}
	}()
	workloads := []cluster.Ref{{Kind: cluster.KindDeployment, Namespace: "desk", Name: "front"}, {Kind: cluster.KindStatefulSet, Namespace: "desk", Name: "back"}}
	must.OK(t, r.cluster.WaitReady(ctx, nil, workloads...))
	before := r.desk(t, workloads)

	text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: desk}\napplication: {namespace: desk, entry: front, inPlace: true}\n" +
		"factors: {mesh: [weight], rate: [20], connections: [2]}\nphases: {warmup: 2s, measure: 5s, drain: 1s, idle: {cpu: 100, deadline: 1s}}\n" +
		"validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}\nblocks: 2\n"
	file := must.File(t, t.TempDir(), "desk.yaml", text)
	r.dir = filepath.Join(t.TempDir(), "run")
	options := func(kubeconfig string) []string {
		return []string{"--mesh", definition, "--set", "meshes={weight: {charts: '" + charts + "'}}",
			"--set", "platform={kind: kubernetes, inUse: allow, image: '" + kubernetesImage + "', kubeconfig: " + kubeconfig + "}"}
	}
	account := limitedAccount(t, r.cluster, kubeconfig, r.bin, append(options(kubeconfig), "--for", file)...)
	cmd := r.start(t, append([]string{"run", file, "--plain", "--out", r.dir}, options(account)...)...)
	await(t, "the measure phase of the second trial", func() bool {
		files, _ := filepath.Glob(filepath.Join(r.dir, result.TrialsDir, "*2-weight-*", result.EventsFile))
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), `"phase":"measure"`) {
				return true
			}
		}
		return cmd.ProcessState != nil
	})
	if n := r.injected(t); n != 3 { // the load's is the third
		t.Errorf("%d pods have a sidecar in the second trial, want 3", n)
	}
	second := exec.Command(filepath.Join(r.bin, "tare"), append([]string{"run", file, "--plain", "--out", filepath.Join(t.TempDir(), "second"), "--set", "factors.mesh=[none]"}, options(kubeconfig)...)...)
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), guard.ErrHeld.Error()) || strings.Contains(string(out), "uninstall") {
		t.Errorf("a second run beside one with a mesh: %v\n%s", err, out)
	}
	must.OK(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	all := r.recorded(t)
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%d trials, which must be 1 and valid: %+v", len(all), all)
	}
	for plane, want := range map[metric.Plane]int{metric.App: 2, metric.Data: 3, metric.Load: 1} {
		if _, tasks := usedBy(all[0], plane); tasks != want {
			t.Errorf("plane %s: %d tasks, want %d: %+v", plane, tasks, want, all[0].Tasks)
		}
	}
	if after := r.desk(t, workloads); after == before {
		t.Error("the kill left no change: the test shows nothing")
	}

	r.verifiedByHand(t, definition, kubeconfig)
	out, err := exec.Command(filepath.Join(r.bin, "tare"), "cluster", "cleanup", "--yes", "--kubeconfig", kubeconfig).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "namespace desk is restored") || !strings.Contains(string(out), "removed: nothing of mesh weight is left") {
		t.Fatalf("cleanup: %v\n%s", err, out)
	}
	if after := r.desk(t, workloads); after != before {
		t.Errorf("before\n%s\nafter the clean-up\n%s\n%s", before, after, out)
	}
	if n := r.injected(t); n != 0 {
		t.Errorf("%d pods have a sidecar after the clean-up", n)
	}
}

// verifiedByHand verifies the mesh as one that refuses plaintext, and admits plaintext of nodes. A pod outside the mesh shows
// that it admits all plaintext.
func (r *onKubernetes) verifiedByHand(t *testing.T, definition, kubeconfig string) {
	t.Helper()
	text := must.Get(os.ReadFile(definition))(t)
	strict := must.File(t, t.TempDir(), "strict.yaml", strings.Replace(string(text), "  proxies:\n", "  plaintext: {refused: \"true\", nodeExempt: true}\n  proxies:\n", 1))
	cmd := exec.Command(filepath.Join(r.bin, "tare"), "mesh", "verify", "weight", "--mesh", strict, "--namespace", "desk", "--image", kubernetesImage, "--kubeconfig", kubeconfig, "--timeout", "5s")
	out, err := cmd.CombinedOutput()
	if err == nil || !regexp.MustCompile(`FAILED +plaintext is refused +port 8080 of pod (front|back)\S* answered: status 200`).Match(out) {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

// desk is the namespace and the workloads of the application, as far as a user sets them, and the names of its objects.
func (r *onKubernetes) desk(t *testing.T, workloads []cluster.Ref) string {
	t.Helper()
	ns := must.Get(r.cluster.Get(t.Context(), cluster.Ref{Kind: cluster.KindNamespace, Name: "desk"}))(t)
	state := []any{ns.GetLabels(), ns.GetAnnotations()}
	for _, ref := range workloads {
		o := must.Get(r.cluster.Get(t.Context(), ref))(t)
		state = append(state, o.Object["spec"], o.GetLabels())
	}
	found := must.Get(r.cluster.Contents(t.Context(), "desk", []schema.GroupResource{{Resource: "configmaps"}, {Resource: "secrets"}, {Group: "batch", Resource: "jobs"}}))(t)
	for _, o := range found {
		state = append(state, o.GetKind()+" "+o.GetName())
	}
	b := must.Get(json.MarshalIndent(state, "", " "))(t)
	return string(b)
}

// injected counts the running pods of the application's namespace with a sidecar.
func (r *onKubernetes) injected(t *testing.T) (n int) {
	t.Helper()
	list := must.Get(r.cluster.Typed().CoreV1().Pods("desk").List(t.Context(), metav1.ListOptions{LabelSelector: "weight.test/injected=yes"}))(t)
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}
