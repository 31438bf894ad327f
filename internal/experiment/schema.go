package experiment

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
)

// Schema returns the JSON Schema (draft 2020-12) of the experiment file, for
// completion and checks in editors. It accepts more than [File.Validate]: a schema cannot
// bound the product of the factors, refuse cyclic calls, or compare the baseline
// with the treatments. Mesh names are examples only, since a user can write a
// definition.
func Schema(names Names) ([]byte, error) {
	s := jsonschema.Of(reflect.TypeFor[Experiment](), "yaml", func(t reflect.Type) *jsonschema.Schema {
		switch t {
		case reflect.TypeFor[Factors]():
			return factorsSchema(names, true)
		case reflect.TypeFor[Baseline]():
			return factorsSchema(names, false)
		}
		return unitSchema(t)
	})
	s.Title = "tare experiment"
	for _, d := range fieldRows(names) {
		p := property(s, d.path)
		if p == nil {
			return nil, fmt.Errorf("build schema: there is no field %s", d.path)
		}
		p.Description = d.text
		if d.otherwise != nil {
			p.Default = d.otherwise
		}
		if d.bounds != nil {
			d.bounds.describe(p)
		}
	}
	s.Required = []string{"apiVersion", "kind", "metadata", "factors"}
	property(s, "metadata").Required = []string{"name"}
	for _, path := range []string{"factors", "baseline"} {
		one := uint64(1)
		property(s, path).MinProperties = &one
	}
	property(s, "application.services[]").Required = []string{"name"}
	call := property(s, "application.services[].calls[]")
	call.Type = "" // the name of the service, or a mapping
	call.AnyOf = []*jsonschema.Schema{{Type: "string"}, {Type: "object", Required: []string{"service"}}, {Type: "object", Required: []string{"wait"}}}
	// A topology's name excludes services.
	property(s, "application").Not = &jsonschema.Schema{Required: []string{"topology", "services"}}
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("build schema: %w", err)
	}
	return append(out, '\n'), nil
}

// factorsSchema is a mapping of the factors to lists of levels, or to one level.
func factorsSchema(names Names, lists bool) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range Table {
		p := f.schema(names)
		if lists {
			p = &jsonschema.Schema{Type: "array", Items: p}
			levelList(p)
		}
		s.Properties.Set(f.Name, p)
	}
	return s
}

func scalarSchema(t reflect.Type) *jsonschema.Schema {
	if s := unitSchema(t); s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Int:
		return &jsonschema.Schema{Type: "integer"}
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.Float64:
		return &jsonschema.Schema{Type: "number"}
	}
	return &jsonschema.Schema{Type: "string"}
}

// unitSchema is the form in which the scalar types are written.
func unitSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Duration]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^[+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`},
			{Type: "integer", Enum: []any{0}},
		}}
	case reflect.TypeFor[Size]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "0", Maximum: num(int64(maxBodySize))},
			{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)? ?(B|kB|KB|MB|GB|KiB|MiB|GiB)$`},
		}}
	case reflect.TypeFor[Cores]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "number", ExclusiveMinimum: "0", Maximum: num(maxCPU)},
			{Type: "string", Pattern: coresForm},
		}}
	case reflect.TypeFor[Share]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "number", ExclusiveMinimum: "0", ExclusiveMaximum: "1"},
			{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)? *%$`},
		}}
	case reflect.TypeFor[PerSecond]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "number", Minimum: "0", Maximum: num(float64(maxBackgroundChanges))},
			{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)? */s$`},
		}}
	case reflect.TypeFor[Precision]():
		return &jsonschema.Schema{Type: "string", Pattern: `^[a-z0-9_/.]+ *(±|\+-) *[0-9.]+ *[%a-zA-Zµ/0-9]*$`}
	case reflect.TypeFor[RateLevel]():
		return rateSchema()
	}
	return spreadSchema(t)
}

// property finds a schema by path. "[]" stands for the elements of a list, "*" for the values of a mapping.
func property(s *jsonschema.Schema, path string) *jsonschema.Schema {
	for name := range strings.SplitSeq(path, ".") {
		if name == "*" && s.AdditionalProperties != nil {
			s = s.AdditionalProperties
			continue
		}
		name, list := strings.CutSuffix(name, "[]")
		if s.Properties == nil {
			return nil
		}
		next, ok := s.Properties.Get(name)
		if !ok {
			return nil
		}
		if s = next; list {
			s = s.Items
		}
	}
	return s
}
