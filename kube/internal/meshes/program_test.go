package meshes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// installerMesh is installed by a program that prints manifests, as linkerd and istioctl do.
const installerMesh = `name: tare-test-cli
description: a deployment that a program prints
kubernetes:
  version: 1.0.0
  namespace: tare-test-cli
  options: {wide: {doc: wide, default: ""}}
  cli:
    program: tare-test-installer
    version: [version]
    render:
    - [crds]
    - [install, --values, "{{.ValuesFile}}", "{{.Options.wide}}"]
    values: "replicas: {{.Replicas}}"
  profiles: {dev: {replicas: 1}}
  workloads: [{kind: Deployment, name: small, scaled: true}]
  leftovers: [{kind: CustomResourceDefinition, group: apiextensions.k8s.io, name: "*.cli.test"}]
tasks:
- {plane: control, namespace: tare-test-cli}
`

// writeProgram writes the program. Its ConfigMap contains the arguments and values of the call.
func writeProgram(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	program := `#!/bin/sh
case "$1" in
version) echo "client version: edge-7.7.7" ;;
crds) cat <<'Y'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.cli.test}
spec:
  group: cli.test
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  scope: Cluster
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
Y
;;
install) shift; cat <<Y
apiVersion: v1
kind: Namespace
metadata: {name: tare-test-cli}
---
apiVersion: cli.test/v1
kind: Gadget
metadata: {name: one}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: called, namespace: tare-test-cli}
data: {arguments: "$#", last: "$3", values: "$(cat "$2")"}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: tare-test-cli}
stringData: {key: very-secret}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: small, namespace: tare-test-cli}
spec:
  selector: {matchLabels: {app: small}}
  template:
    metadata: {labels: {app: small}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: small, image: "` + toolbox + `", imagePullPolicy: Never, command: [sleep, "3600"]}]
Y
;;
*) echo "no such command" >&2; exit 3 ;;
esac
`
	must.OK(t, os.WriteFile(filepath.Join(dir, "tare-test-installer"), []byte(program), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestRealMeshByItsOwnProgram(t *testing.T) {
	c := connect(t)
	writeProgram(t)
	d := must.Get(mesh.Decode("cli.yaml", []byte(installerMesh)))(t)
	before := inventory(t, c)
	archive := kept{}
	m := must.Get(New(c, d, mesh.Settings{}, Options{WithCLI: true, Arguments: []string{"--mine"}, Archive: archive.keep, Report: func(line string) { t.Log(line) }}))(t)
	i := must.Get(m.Install(bounded(t, 2*time.Minute)))(t)
	if i.Version != "edge-7.7.7" || i.Program != "tare-test-installer edge-7.7.7" {
		t.Errorf("installed: %+v", i)
	}
	text := string(archive["tare-test-installer-2.yaml"])
	if !strings.Contains(text, `last: --mine`) || !strings.Contains(text, `arguments: "3"`) || !strings.Contains(text, "replicas: 1") || strings.Contains(text, "very-secret") {
		t.Errorf("it was called with\n%s", text)
	}
	if checks, err := m.Verify(bounded(t, time.Minute), Target{}); err != nil || len(failing(checks)) > 0 {
		t.Errorf("checks %+v, %v", checks, err)
	}
	must.OK(t, m.Uninstall(bounded(t, 2*time.Minute), false))
	sameInventory(t, c, before)
}

func TestOutputOfPrograms(t *testing.T) {
	writeProgram(t)
	must.Fail(t, must.Err(output(t.Context(), "tare-test-installer", []string{"nonsense"})), "no such command", "a program that fails")
	for out, want := range map[string]string{"edge-26.8.3\n": "edge-26.8.3", "client version: 1.30.4\n": "1.30.4", "": "unknown"} {
		if got := lastWord([]byte(out)); got != want {
			t.Errorf("version of %q is %s, want %s", out, got, want)
		}
	}
	all, err := cluster.Parse([]byte("# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n---\n"))
	var names []string
	for _, o := range all {
		names = append(names, o.GetName())
	}
	if err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("objects are %q, %v", names, err)
	}
	if _, err := cluster.Parse([]byte("just: text\n")); err == nil {
		t.Error("a document that is not an object")
	}
	text, err := redacted([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: \"-----BEGIN EC PRIVATE KEY-----\\nMHc\\n-----END EC PRIVATE KEY-----\\n\"}\n"))
	if err != nil || strings.Contains(string(text), "MHc") || !strings.Contains(string(text), "SECRET-key") {
		t.Errorf("redacted to %s, %v", text, err)
	}
}
