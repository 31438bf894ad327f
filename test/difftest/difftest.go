// Package difftest names the values of a test that differ from the wanted ones.
package difftest

import (
	"fmt"
	"reflect"
	"strings"
)

// Of lists the values that differ: of each three arguments the first is a name, the second the value, the third the wanted
// one, which may be a constant without a type. It is "" if none differs.
func Of(triples ...any) string {
	var differ []string
	for ; len(triples) > 0; triples = triples[3:] {
		got, want := triples[1], triples[2]
		if g, w := reflect.ValueOf(got), reflect.ValueOf(want); g.IsValid() && w.IsValid() && w.CanConvert(g.Type()) && (w.Kind() == reflect.String) == (g.Kind() == reflect.String) {
			want = w.Convert(g.Type()).Interface()
		}
		if got != want {
			differ = append(differ, fmt.Sprintf("%s is %v, want %v", triples[0], got, want))
		}
	}
	return strings.Join(differ, "; ")
}

// Wrong lists the conditions that must not hold and do: of each two arguments the first is the condition's text.
func Wrong(pairs ...any) string {
	var hold []string
	for ; len(pairs) > 0; pairs = pairs[2:] {
		if pairs[1].(bool) {
			hold = append(hold, pairs[0].(string))
		}
	}
	return strings.Join(hold, "; ")
}
