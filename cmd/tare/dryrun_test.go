package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Without a cluster: the manifests are there, in an order that can be applied, for each treatment.
func TestDryRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	text := "apiVersion: tare.dev/v1alpha1\nkind: Experiment\nmetadata: {name: dry}\napplication: {topology: chain-2}\nfactors: {mesh: [none], replicas: [1, 3]}\nblocks: 2\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := call(t, newRunCommand, file, "--set", "platform.kind=kubernetes", "--dry-run")
	if err != nil {
		t.Fatal(err)
	}
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
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, err := call(t, newRunCommand, file, "--dry-run"); err == nil || !strings.Contains(err.Error(), "platform local") {
		t.Errorf("a dry run on this machine: %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(files) != 1 {
		t.Errorf("a dry run left %v", files)
	}
}
