package generator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// reprBytes and reprDict convert real output to Python's notations.
func reprBytes(b []byte) []byte {
	s := strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\t", `\t`).Replace(string(b))
	return []byte("b'" + s + "'\n")
}

func reprDict(v any) string {
	switch x := v.(type) {
	case map[string]any:
		var parts []string
		for k, e := range x {
			parts = append(parts, reprDict(k)+": "+reprDict(e))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case nil:
		return "None"
	case string:
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(x) + "'"
	}
	return fmt.Sprint(v)
}

func TestOhaAsPythonKeepsIt(t *testing.T) {
	for _, file := range []string{"oha-1.16.0.json", "oha-1.16.0-errors.json", "oha-1.16.0-refused.json"} {
		real := must.Get(os.ReadFile("testdata/" + file))(t)
		want := summary(parseFile(t, "oha", file))
		d := json.NewDecoder(bytes.NewReader(real))
		d.UseNumber()
		var v any
		must.OK(t, d.Decode(&v))
		dict := []byte(reprDict(v))
		for form, text := range map[string][]byte{"bytes": reprBytes(real), "dict": dict, "dict in bytes": reprBytes(dict)} {
			o, err := ParseOha(bytes.NewReader(text), true)
			if err != nil {
				t.Errorf("%s as %s: %v", file, form, err)
			} else if got := summary(o); got != want {
				t.Errorf("%s as %s:\n%s\nwant\n%s", file, form, got, want)
			}
		}
	}
}

func TestFromPython(t *testing.T) {
	for in, want := range map[string]string{
		`{'a': None, 'b': True, 'c': [False, nan, -inf, -1.5e-05]}`: `{"a": null, "b": true, "c": [false, null, null, -1.5e-05]}`,
		`{'it\'s': "don't", "x": 'say "no"'}`:                       `{"it's": "don't", "x": "say \"no\""}`,
		`{'a': 'b\x41\n'}`:                                          `{"a": "bA\n"}`,
		`b"{'a': 1}"`:                                               `{"a": 1}`,
		`{"None": "None"}`:                                          `{"None": "None"}`,
		`{'None': 'True'}`:                                          `{"None": "True"}`,
		`{'open`:                                                    `{'open`,
	} {
		if got := string(fromPython([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}
