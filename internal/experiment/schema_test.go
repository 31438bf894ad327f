package experiment_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

var known = experiment.Names{
	Meshes:     []string{"none", "envoy", "envoy-plaintext", "envoy-tcp"},
	Generators: []string{"tare", "oha", "vegeta", "fortio"},
	Platforms:  []string{"local", "kubernetes"},
	Protocols:  []string{"http1", "websocket"},
}

// shipped are the names that the examples may use: all there are.
func shipped() experiment.Names {
	k := known
	k.Meshes = mesh.Names()
	return k
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text := must.Get(experiment.Schema(known))(t)
	doc := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	c := jsonschema.NewCompiler()
	must.OK(t, c.AddResource("experiment.json", doc))
	s := must.Get(c.Compile("experiment.json"))(t)
	return s
}

func good(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../examples/*.yaml", "../../examples/findings/*.yaml", "testdata/good/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	files = slices.DeleteFunc(files, func(f string) bool {
		return strings.HasPrefix(filepath.Base(f), "prices") || filepath.Base(f) == "pgbouncer.yaml"
	}) // for tare report --cost; tcp is not known here
	return files
}

func TestSchemaAcceptsWhatLoads(t *testing.T) {
	s := compiled(t)
	for _, file := range good(t) {
		data := must.Get(os.ReadFile(file))(t)
		if err := against(t, s, data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		rendered := must.Get(parsed(t, file).YAML())(t)
		if err := against(t, s, rendered); err != nil {
			t.Errorf("%s, rendered: %v", file, err)
		}
	}
}

// The schema refuses these broken files, so that an editor marks them.
func TestSchemaRefusesWhatItCan(t *testing.T) {
	s := compiled(t)
	for _, b := range broken(t) {
		if !b.schema {
			continue
		}
		if err := against(t, s, b.data); err == nil {
			t.Errorf("%s: the schema accepts it", b.name)
		}
	}
}

// against validates a YAML document as an editor would.
func against(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	var v any
	must.OK(t, yaml.Unmarshal(data, &v))
	asJSON := must.Get(json.Marshal(v))(t)
	doc := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(asJSON)))(t)
	return s.Validate(doc)
}

// Every field has a description.
func TestSchemaDescribesEveryField(t *testing.T) {
	text := must.Get(experiment.Schema(known))(t)
	var root map[string]any
	must.OK(t, json.Unmarshal(text, &root))
	fields := 0
	var walk func(path []string, s map[string]any)
	walk = func(path []string, s map[string]any) {
		if items, ok := s["items"].(map[string]any); ok {
			walk(append(path, "[]"), items)
		}
		properties, _ := s["properties"].(map[string]any)
		if properties != nil && s["additionalProperties"] != false {
			t.Errorf("%s: unknown fields are allowed", strings.Join(path, "."))
		}
		for name, p := range properties {
			fields++
			at := append(slices.Clone(path), name)
			p := p.(map[string]any)
			if d, _ := p["description"].(string); d == "" {
				t.Errorf("%s has no description", strings.Join(at, "."))
			}
			walk(at, p)
		}
	}
	walk(nil, root)
	if fields < 40 {
		t.Errorf("only %d fields seen", fields)
	}
}
