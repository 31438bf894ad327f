// Package jsonschema builds a JSON Schema (draft 2020-12) from Go types.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Schema is the part of JSON Schema that tare uses. The order of the fields is the order in the output.
type Schema struct {
	Version string `json:"$schema,omitempty"`

	AnyOf []*Schema `json:"anyOf,omitempty"`
	Not   *Schema   `json:"not,omitempty"`

	Items                *Schema     `json:"items,omitempty"`
	Properties           *Properties `json:"properties,omitempty"`
	AdditionalProperties *Schema     `json:"additionalProperties,omitempty"`
	PropertyNames        *Schema     `json:"propertyNames,omitempty"`

	Type             string      `json:"type,omitempty"`
	Enum             []any       `json:"enum,omitempty"`
	Maximum          json.Number `json:"maximum,omitempty"`
	ExclusiveMaximum json.Number `json:"exclusiveMaximum,omitempty"`
	Minimum          json.Number `json:"minimum,omitempty"`
	ExclusiveMinimum json.Number `json:"exclusiveMinimum,omitempty"`
	Pattern          string      `json:"pattern,omitempty"`
	MinItems         *uint64     `json:"minItems,omitempty"`
	UniqueItems      bool        `json:"uniqueItems,omitempty"`
	MinProperties    *uint64     `json:"minProperties,omitempty"`
	Required         []string    `json:"required,omitempty"`

	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Default     any    `json:"default,omitempty"`
	Examples    []any  `json:"examples,omitempty"`
}

// FalseSchema accepts nothing.
var FalseSchema = &Schema{Not: &Schema{}}

// MarshalJSON writes FalseSchema as false, and a schema without fields as true.
func (s *Schema) MarshalJSON() ([]byte, error) {
	if s == FalseSchema {
		return []byte("false"), nil
	}
	if reflect.DeepEqual(s, &Schema{}) {
		return []byte("true"), nil
	}
	type plain Schema // without this method
	return json.Marshal((*plain)(s))
}

// Properties are the fields of an object, in order.
type Properties struct {
	names  []string
	byName map[string]*Schema
}

// NewProperties returns no fields.
func NewProperties() *Properties { return &Properties{byName: map[string]*Schema{}} }

// Set adds a field, or replaces it in its place.
func (p *Properties) Set(name string, s *Schema) {
	if _, ok := p.byName[name]; !ok {
		p.names = append(p.names, name)
	}
	p.byName[name] = s
}

// Get finds a field.
func (p *Properties) Get(name string) (*Schema, bool) {
	s, ok := p.byName[name]
	return s, ok
}

// MarshalJSON writes the fields in order.
func (p *Properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, name := range p.names {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(p.byName[name])
		if err != nil {
			return nil, err
		}
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	if len(p.names) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Of returns the schema of a type, with the fields of structs named by their tags yaml or json. Structs refuse other fields.
// known returns the schema of special types, or nil.
func Of(t reflect.Type, tag string, known func(reflect.Type) *Schema) *Schema {
	s := builder{tag, known}.schema(t)
	s.Version = "https://json-schema.org/draft/2020-12/schema"
	return s
}

type builder struct {
	tag   string
	known func(reflect.Type) *Schema
}

// addFields adds the fields of a struct, and the fields of inlined structs in their place.
func (b builder) addFields(to *Properties, t reflect.Type) {
	for f := range t.Fields() {
		switch name, options, _ := strings.Cut(f.Tag.Get(b.tag), ","); {
		case options == "inline":
			b.addFields(to, f.Type)
		case name != "" && name != "-":
			to.Set(name, b.schema(f.Type))
		}
	}
}

func (b builder) schema(t reflect.Type) *Schema {
	if s := b.known(t); s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.schema(t.Elem())
	case reflect.Struct:
		s := &Schema{Type: "object", Properties: NewProperties(), AdditionalProperties: FalseSchema}
		b.addFields(s.Properties, t)
		return s
	case reflect.Slice:
		return &Schema{Type: "array", Items: b.schema(t.Elem())}
	case reflect.Map:
		s := &Schema{Type: "object"}
		if t.Elem().Kind() != reflect.Interface {
			s.AdditionalProperties = b.schema(t.Elem())
		}
		return s
	case reflect.Interface:
		return &Schema{}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return &Schema{Type: "integer"}
	case reflect.Float64:
		return &Schema{Type: "number"}
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.String:
		return &Schema{Type: "string"}
	}
	panic(fmt.Sprintf("jsonschema: unsupported type %v", t)) // a mistake in the code
}
