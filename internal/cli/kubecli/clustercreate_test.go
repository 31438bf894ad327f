package kubecli

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/kube/cluster/clustertest"
	"github.com/tare-mesh/tare/internal/kube/provider"
)

// A record of a failed creation does not prove that the cluster of its name is the one that tare began.
func TestDeleteWithoutIdentity(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	records := must.Get(provider.OpenRecords())(t)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	for _, context := range []string{"", "kind-tare"} {
		r := provider.Record{Provider: "kind", Settings: provider.Settings{Name: "tare", Nodes: 1, Kubeconfig: kubeconfig}, Context: context}
		must.OK(t, records.Save(r))
		_, err := call(t, "cluster", "delete", "tare", "--yes")
		if err == nil || !strings.Contains(err.Error(), "the record has no identity") || !strings.Contains(hint.Of(err), "--unreachable") {
			t.Errorf("context %q: %v (%s)", context, err, hint.Of(err))
		}
		if _, err := call(t, "cluster", "delete", "tare", "--yes", "--unreachable"); err == nil || err.Error() != "kind is not on PATH" {
			t.Errorf("context %q, on the record alone: %v", context, err)
		}
	}
}

// For a cloud the commands are printed, and nothing is created.
func TestCloudsAreNotCreated(t *testing.T) {
	create := []string{"cluster", "create", "--with", "aks", "--zone", "westeurope", "--kubeconfig", "/home/jo/config"}
	if _, err := call(t, create...); err == nil || !strings.Contains(hint.Of(err), "--dry-run prints, then: tare cluster adopt") {
		t.Errorf("%v (%s)", err, hint.Of(err))
	}
	out, err := call(t, append(create, "--dry-run")...)
	if want := "az aks get-credentials --resource-group tare-tare --name tare --file /home/jo/config\n# then: tare cluster adopt --kubeconfig /home/jo/config\n"; err != nil || !strings.HasSuffix(out, want) {
		t.Errorf("%v, got\n%s", err, out)
	}
}

// The UID identifies the cluster of a record, not by the name of its context.
func TestStatusOfCreatedCluster(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	records := must.Get(provider.OpenRecords())(t)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	for uid, want := range map[string]string{"mine": "yes, with kind on ", "another": "no", "": "unknown: "} {
		answers := map[string]any{"/api/v1/namespaces/kube-system": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })}
		if uid != "" {
			answers["/api/v1/namespaces/kube-system"] = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)}}
		}
		k := clustertest.Serve(t, answers)
		r := provider.Record{Provider: "kind", Settings: provider.Settings{Name: "tare", Kubeconfig: kubeconfig}, Context: k.Context(), UID: "mine"}
		must.OK(t, records.Save(r))
		if got := createdText(t.Context(), k); !strings.HasPrefix(got, want) {
			t.Errorf("UID %q: %s, want %s", uid, got, want)
		}
		if r.UID = ""; uid != "" { // its creation was interrupted before the mark
			must.OK(t, records.Save(r))
			if got := createdText(t.Context(), k); !strings.HasPrefix(got, "probably, with kind: it was not marked") {
				t.Errorf("without a UID: %s", got)
			}
		}
	}
	for text, args := range map[string][]string{
		kubeconfig:                                {"tare"}, // the record's kubeconfig, which does not exist
		"cluster other: tare did not create it":   {"other"},
		"NAME has the kubeconfig and the context": {"tare", "--context", "c"},
	} {
		must.Fail(t, must.Err(call(t, append([]string{"cluster", "status"}, args...)...)), text, args)
	}
}

// The test cluster is a provider: it is created, marked, listed, guarded and deleted, for real.
func TestKubernetesCreateAndDelete(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" || os.Getuid() != 0 {
		t.Skip("it brings up a cluster, as root: make e2e-all runs it")
	}
	bin, state := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-C", "../../../test/cluster", "-trimpath", "-o", bin+"/", "./cmd/tare-cluster")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	kubeconfig := filepath.Join(state, "kubeconfig")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("KUBECONFIG", kubeconfig)
	create := []string{"cluster", "create", "--with", "tare-cluster", "--name", "created", "--nodes", "2"}
	t.Cleanup(func() { // whatever fails below
		_ = exec.Command(filepath.Join(bin, "tare-cluster"), "down", "--name", "created").Run()
	})
	want := func(text string, args ...string) {
		t.Helper()
		out, err := call(t, args...)
		if err != nil || !strings.Contains(out, text) {
			t.Fatalf("%v: %v, want %q in\n%s", args, err, text, out)
		}
	}
	refused := func(text, advice string, args ...string) {
		t.Helper()
		if _, err := call(t, args...); err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(hint.Of(err), advice) {
			t.Fatalf("%v: %v (%s), want %q (%s)", args, err, hint.Of(err), text, advice)
		}
	}
	want("context tare-cluster-created in "+kubeconfig+": the current one, marked as disposable", create...)
	want("created by tare: yes, with tare-cluster on ", "cluster", "status")
	want("mark: disposable", "cluster", "status")
	want("tare-node-2 ", "cluster", "status")
	want("tare-cluster-created", "cluster", "list")
	refused("exists", "tare cluster delete created", create...)

	// Another cluster of the name, and one without a record.
	record := filepath.Join(state, "tare", "clusters", "tare-cluster-created.json")
	text := must.Get(os.ReadFile(record))(t)
	replace := func(b []byte) {
		t.Helper()
		must.OK(t, os.WriteFile(record, b, 0o600))
	}
	replace([]byte(strings.Replace(string(text), `"uid": "`, `"uid": "0`, 1)))
	refused("is not the cluster that tare created", "program of its provider", "cluster", "delete", "created", "--yes")
	must.OK(t, os.Remove(record))
	refused("tare did not create it", "created by tare: none", "cluster", "delete", "created", "--yes")
	refused("exists, and tare did not create it", "another --name", create...)

	replace(text)
	want("deleted", "cluster", "delete", "created", "--yes")
	refused("no context", "--kubeconfig", "cluster", "status")
	refused("tare did not create it", "none", "cluster", "delete", "created", "--yes")
}
