package experiment_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestApplicationsInheritAndOverride(t *testing.T) {
	e := parsed(t, "testdata/good/applications.yaml")
	top := must.Get(e.TopologyOf(experiment.Levels{Application: "new"}))(t)
	own := top.Services[0].Own
	want := map[string]string{"A": "1", "B": "3", "NODE_OPTIONS": "--require ./otel.js", "ENDPOINT": "${collector.url}"}
	if d := difftest.Wrong(`!slices.Equal(own.Command, []string{"node", "new.js"})`, !slices.Equal(own.Command, []string{"node", "new.js"}), `own.Dir != "/srv"`, own.Dir != "/srv", "!reflect.DeepEqual(own.Env, want)", !reflect.DeepEqual(own.Env, want), `!slices.Equal(own.Prefix, []string{"nice"})`, !slices.Equal(own.Prefix, []string{"nice"})); d != "" {
		t.Errorf("%s: got %+v", d, own)
	}
	if len(own.Beside) != 1 || !slices.Equal(own.Beside[0].Command, []string{"other"}) {
		t.Errorf("beside: %+v", own.Beside)
	}
	if plain, _ := e.TopologyOf(experiment.Levels{Application: "plain"}); len(plain.Services[0].Beside) != 0 || plain.Services[0].Env["B"] != "2" {
		t.Errorf("the origin has changed: %+v", plain)
	}
	if echo, _ := e.TopologyOf(experiment.Levels{Application: "echo"}); echo.Name != "echo" {
		t.Errorf("a topology by name: %+v", echo)
	}
	if got := e.ApplicationChanges("new"); got != "otel with command=node new.js, beside.collector=other" {
		t.Errorf("changes %q", got)
	}
}

func TestBaselineOfApplications(t *testing.T) {
	const own = "applications: {a: {command: [x]}, b: {command: [y]}}\n"
	for text, want := range map[string]experiment.Baseline{
		own + "factors: {application: [a, b]}":                             {"application": "a"},
		own + "factors: {application: [a, b], mesh: [none]}":               {"application": "a"},
		own + "factors: {application: [a, b], mesh: [none, envoy]}":        {"mesh": "none"},
		own + "factors: {application: [a]}":                                nil,
		"factors: {application: [echo, faces]}":                            nil,
		own + "factors: {application: [a, b]}\nbaseline: {application: b}": {"application": "b"},
		"factors: {application: [echo, faces], mesh: [none, envoy]}":       {"mesh": "none"},
	} {
		if e := variantsOf(t, text+"\n"); !reflect.DeepEqual(e.Baseline, want) {
			t.Errorf("%s\nhas baseline %v, want %v", text, e.Baseline, want)
		}
	}
}
