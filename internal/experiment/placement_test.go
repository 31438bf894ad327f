package experiment_test

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

// Placement is a factor of services that tare places itself.
func TestPlacement(t *testing.T) {
	onCluster := known
	onCluster.Platforms = []string{"local", "kubernetes"}
	for text, want := range map[string]string{
		"platform: {kind: kubernetes}\nfactors: {placement: [same-node, other-nodes]}\nbaseline: {placement: same-node}":                                  "",
		"platform: {kind: kubernetes}\nfactors: {placement: [same-rack]}":                                                                                 `unknown placement "same-rack"`,
		"platform: {kind: local}\nfactors: {placement: [same-node]}":                                                                                      "platform local has one node",
		"platform: {kind: kubernetes, affinity: labels}\nfactors: {placement: [same-node]}":                                                               "platform.affinity: labels places the pods already",
		"platform: {kind: kubernetes}\nfactors: {placement: [other-nodes], replicas: [1, 3]}":                                                             "with several replicas a service is on several nodes",
		"platform: {kind: kubernetes}\nfactors: {placement: [same-node]}\napplication: {namespace: shop, entry: web, services: [{name: web}]}":            "tare does not place the pods",
		"platform: {kind: kubernetes}\nfactors: {placement: [other-nodes]}\napplication: {services: [{name: web, calls: [db]}, {name: db, replicas: 2}]}": "with several replicas service db is on several nodes",
		"platform: {kind: kubernetes}\nfactors: {placement: [same-node]}\napplication: {services: [{name: web, calls: [db]}, {name: db, replicas: 2}]}":   "",
	} {
		_, err := experiment.Parse("t.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\n"+text+"\n"), onCluster)
		must.Match(t, err, want, text)
	}
}
