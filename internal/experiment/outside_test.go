package experiment_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

func TestLoadFromOutside(t *testing.T) {
	onCluster := known
	onCluster.Platforms = []string{"local", "kubernetes"}
	const head = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nfactors: {rate: [100]}\n"
	for text, want := range map[string]string{
		"platform: {kind: kubernetes}\nload: {from: outside}":                      "",
		"platform: {kind: kubernetes, expose: portForward}\nload: {from: outside}": "access to the cluster",
		"platform: {kind: kubernetes}\nload: {from: inside}":                       "",
		"platform: {kind: kubernetes, expose: nodePort}":                           "the load runs inside the cluster",
		"platform: {kind: kubernetes, expose: nodeport}\nload: {from: outside}":    "access to the cluster",
		"platform: {kind: kubernetes}\nload: {from: elsewhere}":                    "origin of the load",
		"load: {from: outside}": "the platform is local",
	} {
		e, err := experiment.Parse("x.yaml", []byte(head+text+"\n"), onCluster)
		must.Match(t, err, want, text)
		if err == nil && e.Outside() != strings.Contains(text, "outside") {
			t.Errorf("%s: outside: %v", text, e.Outside())
		}
	}
}
