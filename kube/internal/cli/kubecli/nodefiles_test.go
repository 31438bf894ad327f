package kubecli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// nodesMesh is a mesh whose agent would install a plug-in into a directory of the nodes.
const nodesMesh = `name: tare-test-nodes
description: a mesh with files on nodes
kubernetes:
  version: 1.0.0
  namespace: tare-test-nodes
  charts: [{release: nodes, chart: nodes, repository: "https://charts.invalid"}]
  profiles: {dev: {replicas: 1}}
  nodeFiles: [{doc: its plug-in, dir: %q, holding: tare-test-cni}]
tasks: [{plane: control, namespace: tare-test-nodes}]
`

// On a disposable cluster a pod on each node finds files that a mesh's agent left. On other clusters no pod is created,
// and the output states that nodes were not checked.
func TestKubernetesUninstallLooksAtNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("installs charts on a cluster")
	}
	kubeconfig := clustertest.Kubeconfig(t)
	const image = "tare.test/tare-agent:nodes"
	bin := agentInCluster(t, image)
	dir, onNode := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"mesh.yaml":                     fmt.Sprintf(nodesMesh, onNode),
		"charts/nodes/Chart.yaml":       "apiVersion: v2\nname: nodes\nversion: 1.0.0\nappVersion: 1.0.0\n",
		"charts/nodes/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: small}\n",
	} {
		must.File(t, dir, name, text)
	}
	tare := func(args ...string) (string, error) {
		t.Helper()
		out, err := exec.Command(filepath.Join(bin, "tare"), append(args, "--kubeconfig", kubeconfig)...).CombinedOutput()
		t.Logf("tare %s: %v\n%s", strings.Join(args, " "), err, out)
		return string(out), err
	}
	comesAndGoes := func() (string, error) {
		t.Helper()
		must.Get(tare("mesh", "install", "tare-test-nodes", "--mesh", filepath.Join(dir, "mesh.yaml"), "--charts", filepath.Join(dir, "charts"), "--in-use"))(t)
		return tare("mesh", "uninstall", "tare-test-nodes", "--mesh", filepath.Join(dir, "mesh.yaml"), "--image", image)
	}
	left := must.File(t, onNode, "10-net.conflist", `{"plugins": [{"type": "tare-test-cni"}]}`)
	must.Contain(t, must.Get(comesAndGoes())(t), "files on nodes are not checked, the cluster is not marked as disposable: its plug-in")
	must.Get(tare("cluster", "adopt", "--yes"))(t)
	t.Cleanup(func() { _, _ = tare("cluster", "release") })
	if out, err := comesAndGoes(); err == nil || !strings.Contains(out, "files of it are left on nodes: ") || !strings.Contains(out, ":"+left) {
		t.Errorf("with a file that is left: %v\n%s", err, out)
	}
	must.OK(t, os.Remove(left))
	if out, err := comesAndGoes(); err != nil || strings.Contains(out, "are not checked") {
		t.Errorf("with nothing left: %v\n%s", err, out)
	}
	pods, err := exec.Command(os.Getenv("TARE_TEST_KUBECTL"), "--kubeconfig", kubeconfig, "get", "pods", "-n", "default", "-o", "name").CombinedOutput()
	if err != nil || strings.Contains(string(pods), "tare-looks-") {
		t.Errorf("pods that looked are left: %v\n%s", err, pods)
	}
}
