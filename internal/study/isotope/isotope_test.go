package isotope_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/study/isotope"
)

// isotopeGraph has every field that isotope's code reads.
const isotopeGraph = `
apiVersion: isotope.alpha.istio.io/v1alpha1
kind: MockServiceGraph
defaults:
  type: http
  requestSize: 1 KB
  responseSize: 16k
  numReplicas: 2
  numRbacPolicies: 3
services:
- name: entry
  isEntrypoint: true
  numReplicas: 1
  script:
  - call: a
  - [{call: a}, {call: {service: b, size: 128, probability: 50, extra-header: {x-a: "1"}}}, {sleep: 10ms}]
  - sleep: 5ms
- name: a
  errorRate: 5%
  namespace: other
- name: b
  type: grpc
  responseSize: 128
  errorRate: 0.5
  script: []
`

func TestConvert(t *testing.T) {
	top, notes, err := isotope.Convert("dir/canonical.yaml", []byte(isotopeGraph))
	must.OK(t, err)
	if len(top.Services) != 3 || len(notes) != 2 {
		t.Errorf("%+v, notes %v", top, notes)
	} else if d := difftest.Of("top.Name", top.Name, "canonical", "top.Entry", top.Entry, "entry"); d != "" {
		t.Errorf("%s: %+v, notes %v", d, top, notes)
	}
	entry, a, b := top.Services[0], top.Services[1], top.Services[2]
	if entry.Replicas != 1 || entry.FailedCallStatus != 500 || len(entry.Calls) != 5 {
		t.Fatalf("%+v", entry)
	}
	var alongside []bool
	for _, c := range entry.Calls {
		alongside = append(alongside, c.Alongside)
	}
	if want := []bool{false, false, true, true, false}; !reflect.DeepEqual(alongside, want) {
		t.Errorf("alongside %v, want %v", alongside, want)
	}
	if c := entry.Calls[0]; c.Service != "a" || c.RequestSize.Draw() != 1024 {
		t.Errorf("%+v", c)
	}
	if c := entry.Calls[2]; c.Probability == nil {
		t.Errorf("%+v", c)
	} else if d := difftest.Of("c.RequestSize.Draw()", c.RequestSize.Draw(), 128, "*c.Probability", *c.Probability, 0.5, `c.Headers["x-a"]`, c.Headers["x-a"], "1"); d != "" {
		t.Errorf("%s: %+v", d, c)
	}
	if c := entry.Calls[4]; c.Service != "" || c.Wait.String() != "5ms" {
		t.Errorf("%+v", c)
	}
	if a.Errors == nil {
		t.Errorf("%+v", a)
	} else if d := difftest.Of("a.Replicas", a.Replicas, 2, "a.Errors.Ratio", a.Errors.Ratio, 0.05, "a.ResponseSize.Draw()", a.ResponseSize.Draw(), 16384, "a.Protocol", a.Protocol, app.HTTP1); d != "" {
		t.Errorf("%s: %+v", d, a)
	}
	if b.Protocol != app.GRPC || b.ResponseSize.Draw() != 128 || b.Errors.Ratio != 0.5 {
		t.Errorf("%+v", b)
	}
	text := must.Get(top.YAML())(t)
	again, err := app.Decode("again.yaml", text)
	if err != nil || !reflect.DeepEqual(again, top) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"services: [{name: a, script: [{call: b}]}]":                            "there is no service \"b\"",
		"services: [{name: a, script: [{call: a}]}]":                            "the calls form a cycle",
		"services: [{name: a, script: [[[{sleep: 1ms}]]]}]":                     "concurrent already",
		"services: [{name: a, script: [{slep: 1ms}]}]":                          "unknown command",
		"services: [{name: a, script: [{sleep: 1}]}]":                           "expected a duration",
		"services: [{name: a, script: [{call: {service: a, payloadSize: 1}}]}]": "unknown field",
		"services: [{name: a, type: tcp}]":                                      "unknown type",
		"services: [{name: a, errorRate: 120%}]":                                "expected a share",
		"default: {type: http}\nservices: [{name: a}]":                          "unknown field",
	} {
		_, _, err := isotope.Convert("g.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "g.yaml:") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A small file that describes a huge graph is refused before the graph is built.
func TestBombs(t *testing.T) {
	services := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "- {name: s%d}\n", i)
		}
		return b.String()
	}
	aliases := "a: &a [" + strings.Repeat("{sleep: 1ms}, ", 3000) + "]\nservices:\n- {name: a, script: [" + strings.Repeat("[*a], ", 20_000) + "]}\n"
	for _, c := range []struct{ name, text, want string }{
		{"many services", "services:\n" + services(5000), "5000 services, max 1000"},
		{"the default script many times", "defaults: {script: [" + strings.Repeat("{sleep: 1ms},", 2000) + "]}\nservices:\n" + services(1000), "more than 20000 commands in total"},
		{"a step of many", "services: [{name: a, script: [[" + strings.Repeat("{sleep: 1ms},", 20_001) + "]]}]", "more than 20000 commands in total"},
		{"more than can be read again", "defaults: {script: [" + strings.Repeat("{call: {service: z, extra-header: {x: "+strings.Repeat("v", 1000)+"}}},", 2) +
			"]}\nservices:\n- {name: z, script: []}\n" + services(900), "max 1048576"},
		{"aliases", aliases, "the alias *a is not allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := isotope.Convert("g.yaml", []byte(c.text))
			must.Fail(t, err, c.want)
		})
	}
}

func FuzzIsotope(f *testing.F) {
	f.Add([]byte(isotopeGraph))
	f.Add([]byte("services: [{name: a, script: [[{call: {service: b}}]]}, {name: b}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		top, _, err := isotope.Convert("fuzz.yaml", data)
		if err != nil {
			return
		}
		text := must.Get(top.YAML())(t)
		if _, err := app.Decode("again.yaml", text); err != nil {
			t.Fatalf("%s\nbecomes\n%s\nwhich is refused: %v", data, text, err)
		}
	})
}
