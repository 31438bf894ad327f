package experiment

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// bounds are the values that a field may have.
type bounds interface {
	describe(s *jsonschema.Schema)
	// check returns the fault of a value, "" for none, and what to do.
	check(value any) (message, hint string)
}

// bounded is a type that has its bounds as a part of itself, where the file has one value instead of a mapping.
type bounded interface{ bound() any }

// required are the bounds of a field that its mapping must have.
type required struct{ bounds }

func (v validation) check(place string, value any, b bounds) {
	if message, hint := b.check(value); message != "" {
		v.report(place, hint, "%s", message)
	}
}

// number is a type with an order.
type number interface {
	int | uint64 | float64 | Size | Duration | Cores | PerSecond
}

// span bounds a number. Open ends do not belong to it.
type span[T number] struct {
	low, high         T
	openLow, openHigh bool
	hint              string
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

func between[T number](low, high T, hint string) bounds {
	return span[T]{low: low, high: high, hint: hint}
}

func (s span[T]) describe(to *jsonschema.Schema) {
	low, high := any(s.low), any(s.high)
	switch x := low.(type) {
	case Duration, Cores, PerSecond: // patterns
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

// ratio bounds a part of a whole.
var ratio = between(0, 1.0, "it is a ratio: 0.01 is 1 %")

// limits describes the bounds of a number that package app checks.
func limits(low, high int64) form {
	return func(s *jsonschema.Schema) { s.Minimum, s.Maximum = num(low), num(high) }
}

// examples describes names that a user can add to.
func examples(names []string) form { return func(s *jsonschema.Schema) { s.Examples = anys(names) } }

// enum describes the names of a field that a rule checks.
func enum(names ...string) form { return func(s *jsonschema.Schema) { s.Enum = anys(names) } }

func levelList(s *jsonschema.Schema) {
	one := uint64(1)
	s.MinItems, s.UniqueItems = &one, true
}

func anys(names []string) []any {
	var out []any
	for _, n := range names {
		out = append(out, n)
	}
	return out
}

func num[T any](n T) json.Number { return json.Number(fmt.Sprint(n)) }
