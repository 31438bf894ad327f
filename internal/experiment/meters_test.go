package experiment_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
)

// The meter fits the platform and the other fields.
func TestMeters(t *testing.T) {
	onCluster := known
	onCluster.Platforms = []string{"local", "kubernetes"}
	onCluster.Meters = []string{"kubelet", "metrics-api"}
	for platform, want := range map[string]string{
		"kind: kubernetes":                                      "",
		"kind: kubernetes, meter: metrics-api":                  "",
		"kind: kubernetes, meter: kublet":                       `unknown meter "kublet"`,
		"kind: kubernetes, meter: prometheus":                   `unknown meter "prometheus"`,
		"kind: kubernetes, prometheus: 'http://localhost:9090'": "prometheus",
		"kind: local, meter: kubelet":                           "the platform is local",
	} {
		text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\nfactors: {mesh: [none, envoy]}\nplatform: {" + platform + "}\n"
		_, err := experiment.Parse("t.yaml", []byte(text), onCluster)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", platform, err, want)
		}
	}
}
