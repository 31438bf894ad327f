package effective

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// Two revisions of a mesh differ in their settings, not in the names of revision, control plane and namespace, nor in a
// chart that only the first one installed.
func TestRevisionsDifferInSettingsOnly(t *testing.T) {
	read := func(name, setting string, first bool) Configuration {
		dir, rev := t.TempDir(), strings.ReplaceAll(name, ".", "-")
		files := map[string]string{
			"mesh/installation.json": `{"mesh": "` + name + `", "from": "istio", "version": "1.30", "namespace": "istio-system-` + rev + `", "shared": ["istio-base"], "options": {"accessLog": "` + setting + `"},
				"charts": [{"release": "istiod", "namespace": "istio-system-` + rev + `"}]}`,
			"mesh/chart-istiod.yaml": "kind: ClusterRole\nmetadata: {name: istiod-clusterrole-" + rev + "-istio-system-" + rev + "}\nrules: [{verbs: [get]}]\n---\n" +
				"kind: Deployment\nmetadata: {name: istiod-" + rev + ", namespace: istio-system-" + rev + ", labels: {istio.io/rev: " + rev + " }}\nspec: {args: [--log=" + setting + "]}\n",
			"mesh/proxies/echo-config_dump.json": `{"configs": [{"@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump", "telemetry": {"on": true}, "dynamic_active_clusters": [
				{"cluster": {"name": "outbound|15010||istiod-` + rev + `.istio-system-` + rev + `.svc.cluster.local", "type": "EDS"}}]}]}`,
			"mesh/images.json": `[{"namespace": "istio-system-` + rev + `", "pod": "istiod-` + rev + `-68854f874d-7gxbk", "image": "pilot"}]`,
			"pods.yaml":        "kind: Pod\nmetadata: {name: echo, annotations: {istio.io/rev: \"" + rev + "\"}}\nspec: {env: [{name: CA_ADDR, value: \"istiod-" + rev + ".istio-system-" + rev + ".svc:15012\"}]}\n",
		}
		if first {
			files["mesh/chart-istio-base.yaml"] = "kind: CustomResourceDefinition\nmetadata: {name: sidecars.networking.istio.io}\n"
		}
		for file, text := range files {
			must.File(t, dir, file, text)
		}
		c, err := Read(dir)
		if err != nil || len(c) < 6 {
			t.Fatalf("%d values, %v", len(c), err)
		}
		return c
	}
	for _, names := range [][2]string{{"istio", "istio-1.29"}, {"istio-a", "istio-b"}, {"istio", "telemetry"}} {
		for setting, want := range map[string]int{"false": 0, "true": 2} { // the argument without and with it; the option is in the dump
			differences, known := Compare([]Configuration{read(names[0], "false", true)}, []Configuration{read(names[1], setting, false)})
			if !known || len(differences) != want {
				t.Errorf("%v, %s: %+v", names, setting, differences)
			}
		}
	}
}

// An option without effect is not a difference of treatments whose proxies were dumped. Without dumps only the option is
// known, so it is one.
func TestOptionWithoutEffect(t *testing.T) {
	read := func(option string, dump bool) []Configuration {
		dir := t.TempDir()
		files := map[string]string{"installation.json": `{"mesh": "m-` + option + `", "version": "1", "options": {"hbone": "` + option + `"}}`}
		if dump {
			files["proxies/echo-config_dump.json"] = `{"configs": [{"@type": "x.BootstrapConfigDump", "bootstrap": {"node": {"metadata": {"HBONE": "on"}}}}]}`
		}
		for name, text := range files {
			path := filepath.Join(dir, "mesh", name)
			must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		}
		c := must.Get(Read(dir))(t)
		return []Configuration{c}
	}
	for dump, want := range map[bool]int{true: 0, false: 1} {
		if differences, known := Compare(read("false", dump), read("true", dump)); !known || len(differences) != want {
			t.Errorf("dumps %v: %+v", dump, differences)
		}
	}
	// Dumps of one side alone: both have their options.
	differences, known := Compare(read("false", true), read("true", false))
	if !known || !slices.ContainsFunc(differences, func(d Difference) bool { return d.Path == "options.hbone" && d.A == "false" && d.B == "true" }) {
		t.Errorf("dumps of one side: %+v", differences)
	}
}
