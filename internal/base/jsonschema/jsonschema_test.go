package jsonschema_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
)

type special string

type inlined struct {
	First int `yaml:"first"`
}

type example struct {
	inlined `yaml:",inline"`
	Name    string         `yaml:"name"`
	Counts  []int          `yaml:"counts,omitempty"`
	Nested  *struct{}      `yaml:"nested"`
	Values  map[string]any `yaml:"values"`
	Special special        `yaml:"special"`
	Hidden  chan int       `yaml:"-"`
}

func TestOf(t *testing.T) {
	s := jsonschema.Of(reflect.TypeFor[example](), "yaml", func(t reflect.Type) *jsonschema.Schema {
		if t == reflect.TypeFor[special]() {
			return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {}}}
		}
		return nil
	})
	got, err := json.Marshal(s)
	const want = `{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{` +
		`"first":{"type":"integer"},"name":{"type":"string"},"counts":{"items":{"type":"integer"},"type":"array"},` +
		`"nested":{"properties":{},"additionalProperties":false,"type":"object"},"values":{"type":"object"},` +
		`"special":{"anyOf":[{"type":"string"},true]}},"additionalProperties":false,"type":"object"}`
	if err != nil || string(got) != want {
		t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
	}
}
