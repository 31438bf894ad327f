package check

import (
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

func TestFields(t *testing.T) {
	for _, test := range []struct {
		body, path string
		has        bool
	}{
		{`{"errors": ["x"]}`, "errors", true},
		{`{"errors": []}`, "errors", false},
		{`{"errors": [ ] }`, "errors", false},
		{`{"errors": {}}`, "errors", false},
		{`{"errors":  null }`, "errors", false},
		{`{"errors": [null]}`, "errors", true},
		{`{"errors": {"a": null}}`, "errors", true},
		{`{"errors": ""}`, "errors", true},
		{`{"errors": 0}`, "errors", true},
		{`{"errors": false}`, "errors", true},
		{`{"errors": 1e999}`, "errors", true},
		{`{"smiley": "errors", "x": {"errors": 1}, "y": [{"errors": 1}]}`, "errors", false},
		{`{"Errors": 1}`, "errors", false},
		{`{"data": {"errors": [1]}}`, "data.errors", true},
		{`{"data": {"more": {"errors": [1]}}}`, "data.errors", false},
		{`{"data": {"a": {}, "errors": [1]}}`, "data.errors", true},
		{`{"data": [{"errors": [1]}]}`, "data.errors", false},
		{`{"data": 1, "errors": [1]}`, "data.errors", false},
		{`{"data": null}`, "data.errors", false},
		{`{"data": {}, "other": {"errors": [1]}}`, "data.errors", false},
		{`{"a.b": 1}`, `a\.b`, true},
		{`{"a.b": 1}`, `a.b`, false},
		{`{"a.": {"b": 1}}`, `a\..b`, true},
		{`{"\u0065rr\u006Frs": 1}`, "errors", true},
		{`{"errorsandmore": 1, "error": 2}`, "errors", false},
		{`["errors", 1]`, "errors", false},
		{`"errors"`, "errors", false},
		{` 17 `, "errors", false},
	} {
		if got := hasField([]byte(test.body), must.Get(load.ParseJSONPath(test.path))(t)); got != test.has {
			t.Errorf("%s has %s: %v", test.body, test.path, got)
		}
	}
	for _, wrong := range []string{"", ".", "a.", ".a", "a..b", `a\`} {
		if path, err := load.ParseJSONPath(wrong); err == nil {
			t.Errorf("%q is read as %q", wrong, path)
		}
	}
}

// A body is checked as a whole, however it arrives, and the one before it counts no more.
func TestFieldsOfParts(t *testing.T) {
	for body, want := range map[string]load.Failure{
		`{"data": {"id": 7}}`:                  load.FailureNone,
		`{"data": {"id": 7}, "errors": ["x"]}`: load.FailureWrongJSON,
		`{"data": {}}`:                         load.FailureWrongJSON,
		`{"data": {"id": 7}`:                   load.FailureNotJSON,
		"":                                     load.FailureNotJSON,
	} {
		e := New(&load.Profile{ExpectSize: -1, JSONHas: []string{"data.id"}, JSONLacks: []string{"errors"}})
		c := e.NewContent()
		c.Add([]byte(`{"left": ["over`))
		c.Reset()
		for i := range len(body) {
			c.Add([]byte{body[i]})
		}
		if got := e.Check(200, int64(len(body)), &c); got != want {
			t.Errorf("%q: %v, want %v", body, got, want)
		}
	}
}
