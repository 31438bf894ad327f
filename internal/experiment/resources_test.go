package experiment_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Requests and limits have the units of Kubernetes, and mistakes have positions.
func TestResourcesAndNamespace(t *testing.T) {
	onCluster := withMeshes()
	onCluster.Meshes = nil
	const head = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nfactors: {rate: [100]}\n"
	for text, want := range map[string]string{
		"platform: {kind: kubernetes, resources: {app: {requests: {cpu: 250m, memory: 64MiB}, limits: {cpu: 1.5}}, load: {requests: {cpu: 1}}}}": "",
		"platform: {kind: kubernetes, resources: {}}":                                                                                         "",
		"platform: {kind: kubernetes, resources: {app: {requests: {cpu: 0.25.1}}}}":                                                           "a number of CPUs such as 0.25 or 250m",
		"platform: {kind: kubernetes, resources: {app: {requests: {cpu: 2.5m}}}}":                                                             "a number of CPUs",
		"platform: {kind: kubernetes, resources: {app: {requests: {cpu: -1}}}}":                                                               "is not between",
		"platform: {kind: kubernetes, resources: {app: {requests: {memory: 1KiB}}}}":                                                          "is not between",
		"platform: {kind: kubernetes, resources: {data: {requests: {cpu: 1}}}}":                                                               "set the resources of a mesh's containers",
		"platform: {kind: kubernetes, resources: {app: {requests: {cpu: 2}, limits: {cpu: 1500m}}}}":                                          "2 is more than the limit, 1.5",
		"platform: {kind: kubernetes, resources: {app: {requests: {memory: 1GiB}, limits: {memory: 64MiB}}}}":                                 "1GiB is more than the limit, 64MiB",
		"platform: {kind: kubernetes, resources: {load: {requests: {cpu: 1}}}}\nload: {from: outside}":                                        "runs outside the cluster",
		"platform: {resources: {app: {requests: {cpu: 1}}}}":                                                                                  "the platform is local",
		"platform: {kind: kubernetes, namespace: bench}":                                                                                      "",
		"platform: {kind: kubernetes, namespace: Bench}":                                                                                      "is not a DNS label",
		"platform: {namespace: bench}":                                                                                                        "the platform is local",
		"platform: {kind: kubernetes, namespace: bench}\nfactors: {mesh: [none, istio]}":                                                      "labels its namespaces",
		"platform: {kind: kubernetes, namespace: b}\napplication: {services: [{name: a}], chart: {chart: oci://r/c}}":                         "a run that is killed leaves",
		"platform: {kind: kubernetes, resources: {app: {limits: {cpu: 1}}}}\napplication: {services: [{name: a}], chart: {chart: oci://r/c}}": "the application's objects set",
		"platform: {kind: kubernetes, digests: {'ghcr.io/a/b:1.2': 'sha256:" + strings.Repeat("0a", 32) + "'}}":                               "",
		"platform: {kind: kubernetes, digests: {'ghcr.io/a/b:1.2': 'sha256:0a'}}":                                                             "is not a digest",
	} {
		if strings.Contains(text, "factors:") {
			text = strings.Replace(head, "factors: {rate: [100]}\n", "", 1) + text
		} else {
			text = head + text
		}
		e, err := experiment.Parse("x.yaml", []byte(text+"\n"), onCluster)
		must.Match(t, err, want, text)
		if err == nil && strings.Contains(text, "250m") {
			if r := e.Platform.Resources; r["app"].Requests.CPU != 0.25 {
				t.Errorf("%+v", r)
			} else if d := difftest.Of(`r["app"].Requests.Memory`, r["app"].Requests.Memory, 64<<20, `r["app"].Limits.CPU`, r["app"].Limits.CPU, 1.5, `r["load"].Requests.CPU`, r["load"].Requests.CPU, 1); d != "" {
				t.Errorf("%s: %+v", d, r)
			}
		}
	}
}
