package experiment_test

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

// A chart needs a cluster, names for its services and a value for replicas; the rendered file is read as the same.
func TestChartOfAnApplication(t *testing.T) {
	onCluster := known
	onCluster.Platforms = []string{"local", "kubernetes"}
	const head = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\n"
	const services = "services: [{name: a, calls: [{service: b}]}, {name: b}]"
	for text, want := range map[string]string{
		"platform: {kind: kubernetes}\nfactors: {replicas: [1, 3]}\napplication: {chart: {chart: ./c, replicas: n, values: 'a: 1'}, " + services + "}": "",
		"platform: {kind: kubernetes}\nfactors: {replicas: [1, 3]}\napplication: {chart: {chart: ./c}, " + services + "}":                              "no value for 3 replicas",
		"platform: {kind: kubernetes}\nfactors: {rate: [1]}\napplication: {chart: {chart: ./c}}":                                                       "are missing",
		"factors: {rate: [1]}\napplication: {chart: {chart: ./c}, " + services + "}":                                                                   "the platform is local",
	} {
		e, err := experiment.Parse("sub/x.yaml", []byte(head+text+"\n"), onCluster)
		if want != "" {
			must.Fail(t, err, want, text)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		rendered := must.Get(e.YAML())(t)
		again, err := experiment.Parse("/elsewhere/y.yaml", rendered, onCluster)
		if err != nil || *again.Application.Chart != *e.Application.Chart {
			t.Errorf("%v, %v", again, err)
		}
	}
}
