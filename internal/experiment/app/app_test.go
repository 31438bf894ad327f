package app_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

func TestEveryBuiltinLoads(t *testing.T) {
	files, err := filepath.Glob("topologies/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d topologies, %v", len(files), err)
	}
	for _, file := range files {
		top, err := app.Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if top.Name+".yaml" != filepath.Base(file) || top.Description == "" || top.Entry == "" {
			t.Errorf("%s: %+v", file, top)
		}
	}
	if n := len(app.Builtin()); n != len(files) {
		t.Errorf("%d built in, %d files", n, len(files))
	}
}

func TestEdges(t *testing.T) {
	for name, want := range map[string]int{"echo": 1, "chain-2": 2, "chain-3": 3} {
		top, err := app.Load(name)
		if err != nil || top.Edges() != want {
			t.Errorf("%s: %d edges, %v, want %d", name, top.Edges(), err, want)
		}
	}
}

func TestBrokenTopologies(t *testing.T) {
	for text, want := range map[string]string{
		"services: [{name: a}]":          "t.yaml:1:1: name: no name is given",
		"name: A\nservices: [{name: a}]": `t.yaml:1:7: name: "A" is not a DNS label`,
		"name: t":                        "t.yaml:1:1: services: the list is empty",
		"name: t\nservices: []":          "t.yaml:2:11: services: the list is empty",
		"name: t\nservice: [{name: a}]":  "t.yaml:1:1: services: the list is empty\nt.yaml:2:1: service: unknown field",
		"name: t\nservices: [{name: a, calls: [{service: b}]}]":                                        `t.yaml:2:40: services[0].calls[0].service: there is no service "b"`,
		"name: t\nentry: b\nservices: [{name: a}]":                                                     `t.yaml:2:8: entry: there is no service "b"`,
		"name: t\nservices: [{name: a}, {name: a}]":                                                    `t.yaml:2:30: services[1].name: "a" is already the name of services[0]`,
		"name: t\nservices: [{name: a, replicas: 1001}]":                                               "t.yaml:2:32: services[0].replicas: 1001 is not from 0 to 1000",
		"name: t\nservices:\n- {name: a, calls: [{service: b}]}\n- {name: b, calls: [{service: a}]}\n": "t.yaml:4:31: services[1].calls[0].service: the calls form a cycle: a -> b -> a",
	} {
		_, err := app.Decode("t.yaml", []byte(text))
		if err == nil || err.Error() != want {
			t.Errorf("%q: got\n%v\nwant\n%s", text, err, want)
		}
	}
}

func TestUnknownTopology(t *testing.T) {
	for _, name := range []string{"nowhere", "", "..", "echo/", "./nowhere.yaml", "\x00"} {
		if top, err := app.Load(name); err == nil {
			t.Errorf("%q is %+v", name, top)
		}
	}
}

// A long chain is deep, not cyclic, and must be walked all the same.
func TestLongChain(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: long\nservices:\n")
	names := make([]string, 500)
	for i := range names {
		names[i] = "s" + strings.Repeat("x", i%50) + string(rune('a'+i/50)) // distinct labels
	}
	for i, n := range names {
		b.WriteString("- name: " + n + "\n")
		if i+1 < len(names) {
			b.WriteString("  calls: [{service: " + names[i+1] + "}]\n")
		}
	}
	top, err := app.Decode("long.yaml", []byte(b.String()))
	if err != nil || top.Edges() != 500 {
		t.Errorf("%d edges, %v", top.Edges(), err)
	}
}
