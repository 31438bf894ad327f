package kubecli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/test/must"
)

// Without a cluster, a dry run writes the manifests of each treatment in the order in which they can be applied.
func TestDryRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: dry}\napplication: {topology: chain-2}\nfactors: {mesh: [none], replicas: [1, 3]}\nblocks: 2\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	out := must.Get(call(t, "run", file, "--set", "platform.kind=kubernetes", "--dry-run"))(t)
	kinds := map[string]int{}
	for i, document := range strings.Split(out, "---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Namespace string }
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if i == 1 && o.Kind != "Namespace" {
			t.Errorf("the first is a %s", o.Kind)
		}
		kinds[o.Kind]++
	}
	for kind, n := range map[string]int{"Namespace": 2, "Deployment": 4, "Service": 4, "ConfigMap": 4, "Secret": 2, "Job": 2} {
		if kinds[kind] != n {
			t.Errorf("%d of kind %s, want %d", kinds[kind], kind, n)
		}
	}
	for _, want := range []string{"-- /tare-agent load", "kubectl delete", "# The load's standard input: {\"targets\":[\"http://front.tare-dry-", "treatment none-rep3"} {
		must.Contain(t, out, want)
	}
	must.Fail(t, must.Err(call(t, "run", file, "--dry-run")), "platform local", "a dry run on this machine")
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(files) != 1 {
		t.Errorf("a dry run left %v", files)
	}
}

// Every shipped experiment on a cluster has a dry run, the interleaved ones with their node agents.
func TestDryRunOfExamples(t *testing.T) {
	files := must.Get(filepath.Glob("../../../../examples/*.yaml"))(t)
	interleaved := 0
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		if !strings.Contains(string(text), "kind: kubernetes") || !strings.Contains(string(text), "order: interleaved") {
			continue
		}
		interleaved++
		out, err := call(t, "run", file, "--dry-run")
		if err != nil || !strings.Contains(out, "kind: DaemonSet") || !strings.Contains(out, "kind: Deployment") {
			t.Errorf("%s: %v\n%.300s", file, err, out)
		}
	}
	if interleaved < 2 {
		t.Errorf("%d interleaved examples", interleaved)
	}
}

// A dry run prints the objects of a mesh that the run would install, before its trials, and their removal at the end.
// Without the charts it prints the reason instead.
func TestDryRunOfAMesh(t *testing.T) {
	dir := t.TempDir()
	file, definition := filepath.Join(dir, "x.yaml"), filepath.Join(dir, "tiny.yaml")
	for path, text := range map[string]string{
		file:       "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: dry}\nfactors: {mesh: [none, tiny]}\nblocks: 1\nplatform: {kind: kubernetes}\n",
		definition: "name: tiny\ndescription: a mesh of the test's own\nkubernetes:\n  version: 1.0.0\n  namespace: tiny-system\n  charts: [{release: tinyd, chart: tinyd, repository: 'https://charts.invalid'}]\n  profiles: {dev: {replicas: 1}}\n  workloads: [{kind: Deployment, name: tinyd, scaled: true}]\n  enrolment: {namespace: {labels: {tiny.test/in: \"yes\"}}, proof: {labels: {tiny.test/in: \"yes\"}}}\n  proxies: [{role: sidecar, in: pod, container: tiny-proxy}]\ntasks:\n- {plane: data, role: sidecar, container: tiny-proxy}\n- {plane: control, namespace: tiny-system}\n",
		filepath.Join(dir, "charts", "tinyd", "Chart.yaml"):               "apiVersion: v2\nname: tinyd\nversion: 1.0.0\n",
		filepath.Join(dir, "charts", "tinyd", "templates", "object.yaml"): "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-tinyd, namespace: {{ .Release.Namespace }}}\n",
	} {
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	inOrder := func(out string, all ...string) {
		t.Helper()
		rest := out
		for _, want := range all {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Fatalf("no %q, or not in its place, in\n%s", want, out)
			}
			rest = after
		}
	}
	out := must.Get(call(t, "run", file, "--dry-run", "--mesh", definition, "--set", "meshes={tiny: {charts: '"+filepath.Join(dir, "charts")+"'}}", "--set", "seed=1"))(t)
	inOrder(out, "$ tare mesh install tiny\n", "name: tiny-system", "# chart tinyd 1.0.0 as tiny-system/tinyd\n", "name: of-tinyd", "tiny.test/in: \"yes\"", "$ tare mesh uninstall tiny --force\n")
	out = must.Get(call(t, "run", file, "--dry-run", "--mesh", definition, "--set", "meshes={tiny: {charts: '"+filepath.Join(dir, "nowhere")+"'}}"))(t)
	inOrder(out, "$ tare mesh install tiny\n", "# The charts of mesh tiny cannot be rendered here: ", "tiny.test/in")
}
