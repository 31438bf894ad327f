package kubecli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

func TestClusterCreateCommands(t *testing.T) {
	for args, want := range map[string]string{
		"--with kind": "kind create cluster --name tare --config - --wait 5m <<'END'\nkind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\nEND\n" +
			"# then: tare cluster adopt --context kind-tare\n",
		"--with kind --name n --nodes 2 --version v1.36.1": "kind create cluster --name n --config - --wait 5m --image kindest/node:v1.36.1 <<'END'\nkind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n" +
			"- role: control-plane\n- role: worker\n- role: worker\nEND\n# then: tare cluster adopt --context kind-n\n",
		"--with k3d --nodes 3 --version 1.36.1": "k3d cluster create tare --agents 2 --k3s-arg '--disable=traefik@server:*' --wait --timeout 5m --image rancher/k3s:v1.36.1-k3s1\n" +
			"# then: tare cluster adopt --context k3d-tare\n",
	} {
		out, err := call(t, append([]string{"cluster", "create", "--dry-run"}, strings.Fields(args)...)...)
		if err != nil || out != want {
			t.Errorf("%s: %v, got\n%swant\n%s", args, err, out, want)
		}
	}
	for args, want := range map[string]string{
		"":                            `--with "" is not a provider`,
		"--with gke":                  `--with "gke" is not a provider`,
		"--with kind --context c":     "--context cannot be chosen",
		"--with kind --name=-x":       `--name "-x" is not a name of a cluster`,
		"--with kind --nodes 0":       "--nodes 0 is not a number of nodes",
		"--with kind --version=-1.36": `--version "-1.36" is not a version of Kubernetes`,
	} {
		must.Fail(t, must.Err(call(t, append([]string{"cluster", "create", "--dry-run"}, strings.Fields(args)...)...)), want, args)
	}
}

// A program in kind's place gets the configuration and the kubeconfig. Its cluster is marked with the workloads it has.
func TestClusterIsCreatedAndMarked(t *testing.T) {
	mark := ""
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "front"}}
	k := clustertest.Serve(t, map[string]any{
		"/api/v1/namespaces": corev1.NamespaceList{},
		"/api/v1/pods":       corev1.PodList{Items: []corev1.Pod{pod}},
		"/api/v1/namespaces/kube-system": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			mark = r.Method + " " + string(b)
			clustertest.Answer(t, w, corev1.Namespace{})
		}),
	})
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	create := []string{"cluster", "create", "--with", "kind", "--kubeconfig", kubeconfig}
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, contexts: [{name: kind-tare, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}", k.Config().Host)
	play := func(script string) {
		t.Helper()
		must.OK(t, os.WriteFile(filepath.Join(dir, "kind"), []byte("#!/bin/sh\n"+script), 0o700))
	}

	play("echo \"$@\" >" + dir + "/args; cat >" + dir + "/input; printf '%s' '" + text + "' >$KUBECONFIG")
	out, err := call(t, create...)
	must.OK(t, err)
	must.Contain(t, out, "context kind-tare: the current one, marked as disposable", "tare cluster image load --to kind:tare", "delete it: kind delete cluster --name tare")
	if args := string(must.Get(os.ReadFile(filepath.Join(dir, "args")))(t)); args != "create cluster --name tare --config - --wait 5m\n" {
		t.Errorf("arguments %q", args)
	}
	if input := string(must.Get(os.ReadFile(filepath.Join(dir, "input")))(t)); input != kindConfig(1) {
		t.Errorf("input %q", input)
	}
	if !strings.HasPrefix(mark, "PATCH ") || !strings.Contains(mark, "tare.dev/disposable") || !strings.Contains(mark, "front") {
		t.Errorf("mark: %s", mark)
	}

	mark = ""
	play("echo 'ERROR: node(s) already exist' >&2; exit 1")
	out, err = call(t, create...)
	must.Fail(t, err, "kind create cluster --name tare", "it exists")
	if must.Contain(t, out, "node(s) already exist"); mark != "" {
		t.Errorf("marked after a failure: %s", mark)
	}
	t.Setenv("PATH", t.TempDir())
	if err := must.Err(call(t, create...)); err == nil || err.Error() != "kind is not on PATH" || !strings.Contains(hint.Of(err), "go install") {
		t.Errorf("without kind: %v", err)
	}
}
