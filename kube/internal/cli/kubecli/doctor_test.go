package kubecli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// examinedBy returns the output of doctor for an experiment.
func examinedBy(t *testing.T, text string) (string, error) {
	t.Helper()
	file := must.File(t, t.TempDir(), "x.yaml", "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nblocks: 1\nfactors: {rate: [100]}\n"+text)
	var out bytes.Buffer
	c := cli.New(console.Console{Out: &out, Err: &out}, Kubernetes())
	s, err := c.Read(t.Context(), file, cli.ExperimentOptions{})
	must.OK(t, err)
	err = c.Examine(t.Context(), s, true)
	return out.String(), err
}

// For an experiment on a cluster doctor checks only the parts of this machine that it uses, and reports an unreachable cluster.
func TestDoctorLooksAtTheCluster(t *testing.T) {
	none := filepath.Join(t.TempDir(), "kubeconfig")
	out, err := examinedBy(t, "platform: {kind: kubernetes, kubeconfig: "+none+"}\n")
	if err == nil || !strings.Contains(out, "FAIL  cluster") || !strings.Contains(out, "hint: ") {
		t.Errorf("%v in\n%s", err, out)
	}
	for _, local := range []string{"tare-agent", "addresses", "meters", "processors", "timer lateness", "envoy", "generator " + generator.Others("")[0].Name()} {
		if strings.Contains(out, "  "+local+"  ") {
			t.Errorf("it looks at %s of this machine in\n%s", local, out)
		}
	}
	out, _ = examinedBy(t, "platform: {kind: kubernetes, kubeconfig: "+none+"}\nload: {from: outside}\n")
	for what, looked := range map[string]bool{"tare-agent": true, "timer lateness": true, "generator " + generator.Others("")[0].Name(): true, "addresses": false, "envoy": false} {
		if strings.Contains(out, "  "+what+"  ") != looked {
			t.Errorf("%s: want %v in\n%s", what, looked, out)
		}
	}
}

// The flags of the cluster are in place of the file's fields, as those of run.
func TestDoctorOfAnotherCluster(t *testing.T) {
	file := must.File(t, t.TempDir(), "x.yaml", "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nblocks: 1\nfactors: {rate: [100]}\nplatform: {kind: kubernetes, kubeconfig: /nowhere/else}\n")
	none := filepath.Join(t.TempDir(), "elsewhere")
	var out bytes.Buffer
	code := cli.New(console.Console{Out: &out, Err: &out}, Kubernetes()).Run(t.Context(), []string{"doctor", file, "--kubeconfig", none, "--all"})
	must.Contain(t, out.String(), "FAIL  cluster", "elsewhere")
	if code == console.Done || strings.Contains(out.String(), "/nowhere/else") {
		t.Errorf("exit code %d\n%s", code, out.String())
	}
	_, err := call(t, "doctor", "--kubeconfig", none)
	must.Fail(t, err, "--kubeconfig needs an experiment file")
}

// A real cluster passes for an administrator. A user without permissions gets the list of the missing ones.
func TestKubernetesDoctor(t *testing.T) {
	path := clustertest.Kubeconfig(t)
	at := func(kubeconfig, more string) string {
		return "platform: {kind: kubernetes, inUse: allow, image: 'localhost/no-such:1', kubeconfig: " + kubeconfig + more + "}\n"
	}
	out, err := examinedBy(t, at(path, ""))
	if err != nil {
		t.Errorf("%v in\n%s", err, out)
	}
	must.Contain(t, out, "that this experiment needs is missing", " for pods)", "platform.affinity: auto", "kubelet answers", "warn  image", "localhost/no-such:1 is not on ", "`tare cluster image load`", "ok    cluster")
	out, err = examinedBy(t, at(path, ", affinity: labels"))
	if err == nil || !strings.Contains(out, "FAIL  placement") || !strings.Contains(out, "kubectl label node") {
		t.Errorf("%v in\n%s", err, out)
	}
	config := must.Get(clientcmd.LoadFromFile(path))(t)
	for _, user := range config.AuthInfos {
		user.Impersonate = "tare-test-nobody"
	}
	nobody := filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, clientcmd.WriteToFile(*config, nobody))
	out, err = examinedBy(t, at(nobody, ", namespace: default"))
	if err == nil {
		t.Errorf("%v in\n%s", err, out)
	} else if d := difftest.Wrong(`!strings.Contains(out, "FAIL  RBAC permissions")`, !strings.Contains(out, "FAIL  RBAC permissions"), `!strings.Contains(out, "create")`, !strings.Contains(out, "create"), `!strings.Contains(out, "tare cluster rbac")`, !strings.Contains(out, "tare cluster rbac"), `strings.Contains(out, "nodes/proxy (")`, strings.Contains(out, "nodes/proxy (")); d != "" {
		t.Errorf("%s: %v in\n%s", d, err, out)
	}
}
