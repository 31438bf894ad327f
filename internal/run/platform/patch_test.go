package platform

import "testing"

// The reverse patch reverts every field, also inside objects.
func TestReverse(t *testing.T) {
	for _, c := range []struct{ patch, before, want string }{
		{`{"delay":"5ms"}`, `{"name":"a"}`, `{"delay":null}`},
		{`{"delay":"5ms"}`, `{"delay":"1ms","memory":68719476736}`, `{"delay":"1ms"}`},
		{`{"memory":1024}`, `{"memory":68719476736}`, `{"memory":68719476736}`},
		{`{"errors":{"ratio":0.5,"status":503}}`, `{}`, `{"errors":null}`},
		{`{"errors":{"ratio":0.5,"status":503}}`, `{"errors":{"ratio":0.1}}`, `{"errors":{"ratio":0.1,"status":null}}`},
		{`{"errors":null}`, `{"errors":{"ratio":0.1}}`, `{"errors":{"ratio":0.1}}`},
	} {
		if got, err := Reverse([]byte(c.patch), []byte(c.before)); err != nil || string(got) != c.want {
			t.Errorf("%s of %s: %s, %v, want %s", c.patch, c.before, got, err, c.want)
		}
	}
}
