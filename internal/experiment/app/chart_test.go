package app

import (
	"reflect"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// Values go over one another mapping by mapping: those for several nodes over the others, and the replicas over both.
func TestChartValues(t *testing.T) {
	c := Chart{Values: "face: {errors: 0, replicas: 1}\ngui: x", Spread: "face: {antiaffinity: true}", Replicas: "face.replicas"}
	for spread, want := range map[bool]map[string]any{
		false: {"face": map[string]any{"errors": 0, "replicas": 3}, "gui": "x"},
		true:  {"face": map[string]any{"errors": 0, "replicas": 3, "antiaffinity": true}, "gui": "x"},
	} {
		if got, err := c.ValuesFor(3, spread, ""); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("spread %v: %v, %v", spread, got, err)
		}
	}
	if got, err := (Chart{}).ValuesFor(1, true, ""); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestChartTopology(t *testing.T) {
	const services = "services: [{name: a, calls: [{service: b}]}, {name: b}]\n"
	for text, want := range map[string]string{
		services + "chart: {chart: oci://x/y, replicas: n, values: 'a: 1'}": "",
		services + "chart: {repo: 'https://x'}":                             "no chart is named",
		services + "chart: {chart: ./x, values: '[1, 2]'}":                  "not a YAML mapping",
		services + "chart: {chart: ./x, release: Big}":                      "no name of a release",
		services + "chart: {chart: ./x, port: 70000}":                       "no port",
		"services: [{name: a, replicas: 2}]\nchart: {chart: ./x}":           "the chart's affair",
		"services: [{name: a, errors: {ratio: 0.1}}]\nchart: {chart: ./x}":  "the chart's affair",
	} {
		topology, err := Decode("t.yaml", []byte("name: t\n"+text+"\n"))
		must.Match(t, err, want, text)
		if err == nil && topology.AnswerSize(topology.Services[0], 10) != -1 {
			t.Errorf("%s: the size of an answer is known", text)
		}
	}
}
