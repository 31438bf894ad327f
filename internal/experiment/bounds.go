package experiment

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// fieldRow is a field of the experiment file. Its schema, its line on the reference page and the check of its value come
// from here.
type fieldRow struct {
	path, text string // "[]" stands for the elements of a list, "*" for the values of a mapping
	otherwise  any    // the default
	bounds     bounds // nil for none
}

// bounds are the values that a field may have.
type bounds interface {
	describe(s *jsonschema.Schema)
	// check returns what is wrong with a value, "" for nothing, and what to do.
	check(value any) (message, hint string)
}

// bounded is a type that has its bounds as a part of itself, where the file has one value instead of a mapping.
type bounded interface{ bound() any }

// required are the bounds of a field that its mapping must have.
type required struct{ bounds }

// bounds checks the fields that the file has, each by its row.
func (v validation) bounds() {
	for _, row := range fieldRows(v.names) {
		if row.bounds == nil || strings.HasPrefix(row.path, "baseline.") { // baseline: checked as levels
			continue
		}
		eachValue(reflect.ValueOf(v.e), "", strings.Split(row.path, "."), func(place string, value any) {
			if b, ok := value.(bounded); ok {
				if _, one := v.doc.Text(place); !one {
					return
				}
				value = b.bound()
			}
			if _, always := row.bounds.(required); v.doc.Has(place) || always && v.doc.Has(place[:strings.LastIndex(place, ".")]) {
				v.check(place, value, row.bounds)
			}
		})
	}
}

// check reports a value outside of its bounds.
func (v validation) check(place string, value any, b bounds) {
	if message, hint := b.check(value); message != "" {
		v.report(place, hint, "%s", message)
	}
}

// eachValue calls use with each value below v at the steps of a row's path, and with the value's place.
func eachValue(v reflect.Value, place string, steps []string, use func(place string, value any)) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return
	}
	if len(steps) == 0 {
		use(place, v.Interface())
		return
	}
	below := func(name string) string { return strings.TrimPrefix(place+"."+name, ".") }
	if steps[0] == "*" {
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			eachValue(v.MapIndex(key), below(key.String()), steps[1:], use)
		}
		return
	}
	name, list := strings.CutSuffix(steps[0], "[]")
	v, place = fieldNamed(v, name), below(name)
	if !list || !v.IsValid() {
		eachValue(v, place, steps[1:], use)
		return
	}
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	for i := range v.Len() {
		eachValue(v.Index(i), fmt.Sprintf("%s[%d]", place, i), steps[1:], use)
	}
}

// fieldNamed returns the field of a struct or mapping by its name in the file.
func fieldNamed(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Map {
		return v.MapIndex(reflect.ValueOf(name))
	}
	for f, value := range v.Fields() {
		switch tag, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
		case options == "inline":
			if inner := fieldNamed(value, name); inner.IsValid() {
				return inner
			}
		case tag == name:
			return value
		}
	}
	return reflect.Value{}
}

// number is a type with an order.
type number interface {
	int | uint64 | float64 | Size | Duration | Cores
}

// span bounds a number. Open ends do not belong to it.
type span[T number] struct {
	low, high         T
	openLow, openHigh bool
	hint              string
}

func between[T number](low, high T, hint string) bounds {
	return span[T]{low: low, high: high, hint: hint}
}

func (s span[T]) check(value any) (message, hint string) {
	x, ok := value.(T)
	low, high := "between %v and", " %v"
	switch {
	case s.openLow && s.openHigh:
		low, high = "above %v and", " below %v"
	case s.openLow:
		low, high = "above %v and", " at most %v"
	}
	if !ok || x < s.low || x > s.high || s.openLow && x == s.low || s.openHigh && x == s.high {
		return fmt.Sprintf("%v is not "+low+high, value, s.low, s.high), s.hint
	}
	return "", ""
}

func (s span[T]) describe(to *jsonschema.Schema) {
	low, high := any(s.low), any(s.high)
	switch x := low.(type) {
	case Duration, Cores: // patterns
		return
	case Size:
		to.AnyOf = slices.Clone(to.AnyOf)
		to.AnyOf[0] = &jsonschema.Schema{Type: "integer"}
		to, low, high = to.AnyOf[0], int64(x), int64(high.(Size))
	}
	minimum, maximum := &to.Minimum, &to.Maximum
	if s.openLow {
		minimum = &to.ExclusiveMinimum
	}
	if s.openHigh {
		maximum = &to.ExclusiveMaximum
	}
	*minimum, *maximum = num(low), num(high)
}

// choice bounds a name. Without names it allows all.
type choice struct {
	what  string
	names []string
}

func oneOf(what string, names ...string) bounds { return choice{what, names} }

func (c choice) check(value any) (message, hint string) {
	switch name := fmt.Sprint(value); {
	case name == "":
		return "the name of the " + c.what + " is empty", ""
	case len(c.names) > 0 && !slices.Contains(c.names, name):
		return fmt.Sprintf("unknown %s %q", c.what, clip(name)), strict.DidYouMean(name, c.names)
	}
	return "", ""
}

func (c choice) describe(s *jsonschema.Schema) { s.Enum = anys(c.names) }

// pattern bounds the form of a text.
type pattern struct {
	what, hint string
	form       *regexp.Regexp
}

func (p pattern) check(value any) (message, hint string) {
	if text := fmt.Sprint(value); text != "" && !p.form.MatchString(text) {
		return fmt.Sprintf("%q is not %s", clip(text), p.what), p.hint
	}
	return "", ""
}

func (p pattern) describe(s *jsonschema.Schema) { s.Pattern = p.form.String() }

// label bounds a name that Kubernetes has too.
type label struct{}

func (label) check(value any) (message, hint string) {
	if text := fmt.Sprint(value); text != "" && !app.IsLabel(text) {
		return fmt.Sprintf("%q is not a DNS label", clip(text)), "use lower-case letters, digits and -, at most 63, beginning and ending with a letter or digit"
	}
	return "", ""
}

func (label) describe(s *jsonschema.Schema) { s.Pattern = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$` }

// form describes a value whose bounds a type or a rule checks.
type form func(*jsonschema.Schema)

func (form) check(any) (message, hint string) { return "", "" }

func (f form) describe(s *jsonschema.Schema) { f(s) }
