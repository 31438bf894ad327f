package experiment_test

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

// The meter fits the platform and the other fields.
func TestMeters(t *testing.T) {
	onCluster := known
	onCluster.Platforms = []string{"local", "kubernetes"}
	onCluster.Meters = []string{"kubelet", "node-agent"}
	for platform, want := range map[string]string{
		"kind: kubernetes":                                      "",
		"kind: kubernetes, meter: node-agent":                   "",
		"kind: kubernetes, meter: kublet":                       `unknown meter "kublet"`,
		"kind: kubernetes, meter: prometheus":                   `unknown meter "prometheus"`,
		"kind: kubernetes, prometheus: 'http://localhost:9090'": "prometheus",
		"kind: local, meter: kubelet":                           "the platform is local",
	} {
		text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\nfactors: {mesh: [none, envoy]}\nplatform: {" + platform + "}\n"
		must.Match(t, must.Err(experiment.Parse("t.yaml", []byte(text), onCluster)), want, platform)
	}
}
