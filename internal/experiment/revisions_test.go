package experiment_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

// Variants of one mesh are interleaved by revision, the mesh itself included. In batches each has the cluster for itself,
// and so has a mesh that is alone.
func TestVariantsAreInterleavedByRevision(t *testing.T) {
	const variants = "platform: {kind: kubernetes}\nbaseline: {mesh: none}\nmeshes:\n  istio-1.29: {from: istio, version: 1.29.2}\n  istio-1.30: {from: istio, version: 1.30.4}\n"
	for text, want := range map[string]map[string]string{
		"order: interleaved\nfactors: {mesh: [none, istio-1.29, istio-1.30]}\n": {"istio-1.29": "istio-system-istio-1-29", "istio-1.30": "istio-system-istio-1-30"},
		"order: interleaved\nfactors: {mesh: [none, istio, istio-1.29]}\n":      {"istio": "istio-system-istio", "istio-1.29": "istio-system-istio-1-29", "istio-1.30": "istio-system"},
		"order: interleaved\nfactors: {mesh: [none, istio-1.29]}\n":             {"istio-1.29": "istio-system"},
		"order: by-mesh\nfactors: {mesh: [none, istio-1.29, istio-1.30]}\n":     {"istio-1.29": "istio-system", "istio-1.30": "istio-system"},
	} {
		e := variantsOf(t, variants+text)
		got := map[string]string{}
		for name := range want {
			d, err := e.Definition(name, withMeshes().Definitions)
			if err != nil {
				t.Fatalf("%s%s: %v", text, name, err)
			}
			got[name] = d.Kubernetes.Namespace
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%sgot %v, want %v", text, got, want)
		}
		if changed := experiment.ChangedMeshes(e); slices.Contains(changed, "istio") != (want["istio"] != "") || !slices.Contains(changed, "istio-1.30") {
			t.Errorf("%schanged: %v", text, changed)
		}
	}
}

// What has no revisions is refused, as before.
func TestNotInterleavedByRevision(t *testing.T) {
	for text, want := range map[string]string{
		"meshes: {x: {from: istio-ambient, options: {telemetry: \"false\"}}}\nfactors: {mesh: [istio-ambient, x]}\n": "meshes istio-ambient and x have their control planes in the same namespace, istio-system",
		"meshes: {x: {from: istio, revision: stable}}\nfactors: {mesh: [istio, x]}\n":                                "measured before or after others of its mesh",
	} {
		_, err := experiment.Parse("x.yaml", []byte(header+"platform: {kind: kubernetes}\norder: interleaved\n"+text), withMeshes())
		must.Fail(t, err, want, text)
	}
}

// The revision of a mesh that tare did not install belongs to clusters, and to meshes with revisions.
func TestRevisionOfOthers(t *testing.T) {
	e := must.Get(experiment.Parse("x.yaml", []byte(header+"platform: {kind: kubernetes}\nmeshes: {old: {from: istio, revision: 1-29}, new: {from: old, revision: canary}}\nfactors: {mesh: [none, old, new]}\n"), withMeshes()))(t)
	if got := []string{e.MeshSettings("old").Settings().Revision, e.MeshSettings("new").Settings().Revision}; !slices.Equal(got, []string{"1-29", "canary"}) {
		t.Errorf("%v", got)
	}
	for text, want := range map[string]string{
		"platform: {kind: kubernetes}\nmeshes: {istio-ambient: {revision: a}}\nfactors: {mesh: [istio-ambient]}\n": "mesh istio-ambient has no revisions",
		"meshes: {envoy: {revision: a}}\nfactors: {mesh: [envoy]}\n":                                               "meshes.envoy.revision",
	} {
		_, err := experiment.Parse("x.yaml", []byte(header+text), withMeshes())
		must.Fail(t, err, want, text)
	}
}
