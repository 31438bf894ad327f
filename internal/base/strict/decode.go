package strict

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decode fills v, a pointer to a struct, from the document by the `yaml` tags of
// its fields. Absent fields keep their value, so that defaults can be set
// before. Mistakes are collected for [Document.Err], and the fields concerned
// keep their value. Lists keep their length, with a zero value for an element
// that cannot be read, so that indices match the file.
func (d *Document) Decode(v any) {
	defer func() {
		if r := recover(); r != nil {
			d.report(Position{File: d.file, Line: 1, Column: 1}, "", fmt.Sprintf("cannot be decoded: %v", r), "")
		}
	}()
	d.value(d.root, nil, reflect.ValueOf(v).Elem(), nil)
}

func (d *Document) value(n, key *yaml.Node, v reflect.Value, at *ref) {
	if n.Kind == yaml.AliasNode || d.full() {
		return // an alias was reported by inspect
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		d.wrong(n, key, at, "the value is missing", "write a value, or remove the field to use its default")
		return
	}
	if s, ok := v.Addr().Interface().(ShortForm); ok && n.Kind != yaml.MappingNode {
		value, use := s.ShortForm()
		before := len(d.problems)
		if d.value(n, key, reflect.ValueOf(value).Elem(), at); len(d.problems) == before {
			use()
		}
		return
	}
	if s, ok := v.Addr().Interface().(Scalar); ok {
		d.hook(n, key, v, s, at)
		return
	}
	if _, ok := v.Addr().Interface().(Table); ok {
		d.structure(n, key, v, at)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		before := len(d.problems)
		d.value(n, key, p.Elem(), at)
		if len(d.problems) == before {
			v.Set(p)
		}
	case reflect.Struct:
		d.structure(n, key, v, at)
	case reflect.Slice:
		d.list(n, key, v, at)
	case reflect.Map:
		d.mapping(n, key, v, at)
	case reflect.Interface:
		if len(d.aliases) > 0 {
			return // reported by inspect; the parser would write them out, again and again
		}
		var x any
		if err := n.Decode(&x); err != nil {
			d.wrong(n, key, at, "cannot be read: "+strings.TrimPrefix(err.Error(), "yaml: "), "")
			return
		}
		v.Set(reflect.ValueOf(x))
	default:
		d.scalar(n, key, v, at)
	}
}

func (d *Document) hook(n, key *yaml.Node, v reflect.Value, s Scalar, at *ref) {
	if n.Kind != yaml.ScalarNode {
		d.wrong(n, key, at, "found "+found(n)+", expected "+expected(v.Type()), "")
		return
	}
	before := reflect.New(v.Type()).Elem()
	before.Set(v)
	if err := s.UnmarshalScalar(n.Value); err != nil {
		v.Set(before)
		d.wrong(n, key, at, err.Error(), "")
	}
}

func (d *Document) structure(n, key *yaml.Node, v reflect.Value, at *ref) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, key, at, "found "+found(n)+", expected "+expected(v.Type()), "")
		return
	}
	target := structFields(v)
	if at == nil {
		d.top = target.names
	}
	done := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, c := n.Content[i], n.Content[i+1]
		if d.full() {
			return
		}
		if k.Kind != yaml.ScalarNode || k.Value == "" || k.ShortTag() == "!!merge" || done[k.Value] {
			continue // reported by inspect
		}
		done[k.Value] = true
		here := &ref{parent: at, key: k.Value}
		into, store, ok := target.field(k.Value)
		if !ok && d.Lenient {
			continue
		}
		if !ok {
			pos := d.position(nil, k)
			if name, over := d.from[c]; over {
				pos = Position{File: name}
			}
			d.report(pos, here.String(), "unknown field", d.unknownHint(k.Value, target.names, at))
			continue
		}
		d.value(c, k, into, here)
		store()
	}
}

// target is a mapping decoded field by field: a struct, or a [Table].
type target struct {
	names []string
	field func(name string) (into reflect.Value, store func(), ok bool)
}

func structFields(v reflect.Value) target {
	if t, ok := v.Addr().Interface().(Table); ok {
		names := t.Fields()
		return target{names, func(name string) (reflect.Value, func(), bool) {
			if !slices.Contains(names, name) {
				return reflect.Value{}, nil, false
			}
			value, store := t.Field(name)
			return reflect.ValueOf(value).Elem(), store, true
		}}
	}
	names, index := fields(v.Type())
	return target{names, func(name string) (reflect.Value, func(), bool) {
		path, ok := index[name]
		if !ok {
			return reflect.Value{}, nil, false
		}
		return v.FieldByIndex(path), func() {}, true
	}}
}

func (d *Document) unknownHint(name string, names []string, at *ref) string {
	if near, ok := Nearest(name, names); ok {
		return "did you mean " + near + "?"
	}
	if at != nil && slices.Contains(d.top, name) {
		return "write " + name + " at the top level of the file"
	}
	return "fields here: " + strings.Join(names, ", ")
}

func structField(t reflect.Type, name string) (f reflect.StructField, ok bool) {
	if t.Kind() != reflect.Struct {
		return f, false
	}
	return t.FieldByName(name)
}

func (d *Document) list(n, key *yaml.Node, v reflect.Value, at *ref) {
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode {
			hint = "write [" + strings.Join(strings.Fields(short(n.Value)), ", ") + "]"
		}
		if _, named := structField(v.Type().Elem(), "Name"); named && n.Kind == yaml.MappingNode && len(n.Content) > 0 && n.Content[0].Value != "name" {
			hint = "write a list with names: [{name: " + short(n.Content[0].Value) + "}, …]"
		}
		d.wrong(n, key, at, "found "+found(n)+", expected a list", hint)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		d.value(c, nil, out.Index(i), &ref{parent: at, index: i})
	}
	v.Set(out)
}

func (d *Document) mapping(n, key *yaml.Node, v reflect.Value, at *ref) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, key, at, "found "+found(n)+", expected a mapping", "")
		return
	}
	out := reflect.MakeMap(v.Type())
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, c := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Value == "" || k.ShortTag() == "!!merge" {
			continue // reported by inspect
		}
		mk := reflect.ValueOf(k.Value).Convert(v.Type().Key())
		if out.MapIndex(mk).IsValid() {
			continue // a second one, reported by inspect
		}
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(c, k, e, &ref{parent: at, key: k.Value})
		out.SetMapIndex(mk, e)
	}
	v.Set(out)
}

var (
	wholeNumber   = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	decimalNumber = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

func (d *Document) scalar(n, key *yaml.Node, v reflect.Value, at *ref) {
	bad := func(hint string) {
		d.wrong(n, key, at, "found "+found(n)+", expected "+expected(v.Type()), hint)
	}
	if n.Kind != yaml.ScalarNode {
		bad("")
		return
	}
	tag := n.ShortTag()
	_, override := d.from[n]
	switch v.Kind() {
	case reflect.String:
		// On a command line quotes are the shell's: there 1 may be text as well.
		if tag != "!!str" && tag != "!!timestamp" && !override {
			bad("put quotes around it: \"" + short(n.Value) + "\"")
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		if tag != "!!bool" {
			bad("")
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
		if tag == "!!str" || !wholeNumber.MatchString(n.Value) || err != nil {
			bad("")
			return
		}
		v.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		i, err := strconv.ParseUint(strings.TrimPrefix(n.Value, "+"), 10, v.Type().Bits())
		if tag == "!!str" || !wholeNumber.MatchString(n.Value) || err != nil {
			bad("")
			return
		}
		v.SetUint(i)
	case reflect.Float32, reflect.Float64:
		f, err := Number(n.Value)
		if tag == "!!str" || err != nil {
			bad("")
			return
		}
		v.SetFloat(f)
	default:
		d.wrong(n, key, at, "a "+v.Kind().String()+" cannot be read from a file", "")
	}
}

func (d *Document) wrong(n, key *yaml.Node, at *ref, message, hint string) {
	path := at.String()
	if slices.Contains(d.bad, path) {
		return // one mistake at one place
	}
	d.report(d.position(key, n), path, message, hint)
}

// Number reads a finite decimal number, such as 12, 0.5 or 1e3.
func Number(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if !decimalNumber.MatchString(text) || err != nil || math.IsInf(f, 0) {
		return 0, fmt.Errorf("found %q, expected a number", short(text))
	}
	return f, nil
}

// found describes a node for a message.
func found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!str":
		return "text \"" + short(n.Value) + "\""
	}
	return short(n.Value)
}

// expected describes the expected value of a type for a message.
func expected(t reflect.Type) string {
	if w, ok := reflect.New(t).Interface().(Wanter); ok {
		return w.Wants()
	}
	if f, ok := reflect.New(t).Interface().(Table); ok {
		return mappingOf(f.Fields())
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number that is not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.Struct:
		names, _ := fields(t)
		return mappingOf(names)
	}
	return "a mapping"
}

// fields lists the fields of a struct by their names in YAML, in order.
func fields(t reflect.Type) (names []string, index map[string][]int) {
	index = map[string][]int{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case strings.Contains(options, "inline"):
			inner, at := fields(f.Type)
			for _, n := range inner {
				names, index[n] = append(names, n), append([]int{i}, at[n]...)
			}
		default:
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			names, index[name] = append(names, name), []int{i}
		}
	}
	return names, index
}

func mappingOf(names []string) string {
	if len(names) > 4 {
		names = append(names[:4:4], "…")
	}
	return "a mapping with the fields " + strings.Join(names, ", ")
}
