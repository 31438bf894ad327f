package check

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
)

func look(t testing.TB, body string, paths ...string) *jsonScanner {
	t.Helper()
	var parsed []load.JsonPath
	for _, p := range paths {
		path := must.Get(load.ParseJSONPath(p))(t)
		parsed = append(parsed, path)
	}
	j := newJSONScanner(parsed)
	j.feed([]byte(`{"left": ["over`))
	j.reset()
	j.feed([]byte(body))
	return j
}

func TestJSONLook(t *testing.T) {
	for _, test := range []struct {
		body, path string
		has        bool
	}{
		{`{"errors": ["x"]}`, "errors", true},
		{`{"errors": []}`, "errors", false},
		{`{"errors": [ ] }`, "errors", false},
		{`{"errors": {}}`, "errors", false},
		{`{"errors": null}`, "errors", false},
		{`{"errors": [null]}`, "errors", true},
		{`{"errors": {"a": null}}`, "errors", true},
		{`{"errors": ""}`, "errors", true},
		{`{"errors": 0}`, "errors", true},
		{`{"errors": false}`, "errors", true},
		{`{"smiley": "errors", "x": {"errors": 1}, "y": [{"errors": 1}]}`, "errors", false},
		{`{"errors": null, "errors": 1}`, "errors", true},
		{`{"data": {"errors": [1]}}`, "data.errors", true},
		{`{"data": {"more": {"errors": [1]}}}`, "data.errors", false},
		{`{"data": {"a": {}, "errors": [1]}}`, "data.errors", true},
		{`{"data": [{"errors": [1]}]}`, "data.errors", false},
		{`{"data": 1, "errors": [1]}`, "data.errors", false},
		{`{"data": {}, "other": {"errors": [1]}}`, "data.errors", false},
		{`{"a": {"b": {"c": {"x": 1}}}, "a": {"b": {"d": -1.5e+3}}}`, "a.b.d", true},
		{`{"a.b": 1}`, `a\.b`, true},
		{`{"a.b": 1}`, `a.b`, false},
		{`{"a.": {"b": 1}}`, `a\..b`, true},
		{`{"\u0065rr\u006Frs": 1}`, "errors", true},
		{`{"\ud83d\ude00": 1}`, "😀", true},
		{`{"\ud83d": 1}`, "😀", false},
		{`{"tab\t\"quote": 1}`, "tab\t\"quote", true},
		{`{"errorsandmore": 1, "error": 2}`, "errors", false},
		{`["errors", 1]`, "errors", false},
		{`"errors"`, "errors", false},
		{` 17 `, "errors", false},
	} {
		j := look(t, test.body, test.path)
		if !j.whole() || j.has(0) != test.has {
			t.Errorf("%s has %s: whole %v, %v", test.body, test.path, j.whole(), j.has(0))
		}
		body := []byte(test.body)
		if allocs := testing.AllocsPerRun(10, func() { j.reset(); j.feed(body) }); allocs > 0 {
			t.Errorf("%s: %v allocations", test.body, allocs)
		}
	}
	j := look(t, `{"a": {"b": 1}, "c": null}`, "a", "a.b", "c", "a.b.c")
	if j.found != 0b11 {
		t.Errorf("found %b", j.found)
	}
	for _, wrong := range []string{"", ".", "a.", ".a", "a..b", `a\`} {
		if path, err := load.ParseJSONPath(wrong); err == nil {
			t.Errorf("%q is read as %q", wrong, path)
		}
	}
}

// member returns the value at path in doc, or nil.
func member(doc any, path load.JsonPath) (v any) {
	v = doc
	for _, key := range path {
		o, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = o[key]
	}
	return v
}

func present(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// agree compares the scanner with encoding/json on a body cut at two places.
func agree(t *testing.T, body []byte, cut1, cut2 int) {
	t.Helper()
	if bytes.Count(body, []byte("[")) > maxNesting || bytes.Count(body, []byte("{")) > maxNesting {
		return
	}
	paths := []load.JsonPath{{"errors"}, {"data", "errors"}, {"data", "x", "é"}}
	j := newJSONScanner(paths)
	cut1 = min(max(cut1, 0), len(body))
	cut2 = min(max(cut2, cut1), len(body))
	j.feed(body[:cut1])
	j.feed(body[cut1:cut2])
	j.feed(body[cut2:])
	if valid := json.Valid(body); valid != j.whole() {
		t.Fatalf("%q: JSON %v, the scanner %v", body, valid, j.whole())
	}
	if !j.whole() {
		return
	}
	var doc any
	if json.Unmarshal(body, &doc) != nil {
		return // for example a number too large
	}
	if duplicates(body) {
		return
	}
	for i, path := range paths {
		if want := present(member(doc, path)); j.has(i) != want {
			t.Fatalf("%q: has %q %v, the scanner %v", body, path, want, j.has(i))
		}
	}
}

// duplicates reports whether an object has a name twice. encoding/json then keeps
// the last value or merges, but the check accepts any.
func duplicates(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	var names []map[string]bool // nil for an array
	key := true
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		top := len(names) - 1
		inObject := top >= 0 && names[top] != nil
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				names, key = append(names, map[string]bool{}), true
			case '[':
				names = append(names, nil)
			default:
				names, key = names[:top], true
			}
			continue
		case string:
			if inObject && key {
				if names[top][v] {
					return true
				}
				names[top][v], key = true, false
				continue
			}
		}
		key = true
	}
}

// TestJSONLookAgreesWithEncodingJSON checks that the scanner accepts the same
// documents and finds the same fields as encoding/json.
func TestJSONLookAgreesWithEncodingJSON(t *testing.T) {
	seeds := []string{
		`{"errors": ["x"], "data": {"errors": null, "x": {"\u00e9": [1, 2.5e-3, true]}}}`,
		`{"data": {"x": {"é": {}, "z": "\ud83d\ude00\\"}, "errors": [[]]}, "errors": {}}`,
		`[{"errors": 1}, -0, 0.1, 1E+2, false, null, "\"\/\b"]`,
	}
	alphabet := []byte(`{}[]",:\u0123456789eE+-. errorsdatx` + "\t\n\r\x00\xc3\xa9")
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 30_000 {
		body := []byte(seeds[n%len(seeds)])
		for range rng.IntN(4) {
			switch i := rng.IntN(len(body)); rng.IntN(3) {
			case 0:
				body[i] = alphabet[rng.IntN(len(alphabet))]
			case 1:
				body = append(body[:i], body[i+1:]...)
			case 2:
				body = append(body[:i], append([]byte{alphabet[rng.IntN(len(alphabet))]}, body[i:]...)...)
			}
		}
		agree(t, body, rng.IntN(len(body)), rng.IntN(len(body)))
	}
}

func FuzzJSONLook(f *testing.F) {
	f.Add([]byte(`{"errors": [1], "data": {"errors": {"a": "\u0041"}}}`), 3, 9)
	f.Add([]byte(strings.Repeat("[", 20)+strings.Repeat("]", 20)), 1, 2)
	f.Fuzz(func(t *testing.T, body []byte, cut1, cut2 int) { agree(t, body, cut1, cut2) })
}
