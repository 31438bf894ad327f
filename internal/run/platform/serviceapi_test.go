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
		if got, err := reverse([]byte(c.patch), []byte(c.before)); err != nil || string(got) != c.want {
			t.Errorf("%s of %s: %s, %v, want %s", c.patch, c.before, got, err, c.want)
		}
	}
}

// FuzzStats: the counts of an application are not negative.
func FuzzStats(f *testing.F) {
	f.Add([]byte(`{"requests":20,"failed":0,"callees":{"echo":{"sent":20,"failed":0,"retries":0}}}`))
	f.Add([]byte(`{"requests":-1}`))
	f.Add([]byte(`{"requests":1e3,"callees":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		stats, err := parseStats(body)
		if err != nil && (stats.Requests != 0 || stats.Callees != nil) {
			t.Errorf("%+v beside %v", stats, err)
		}
		if stats.Requests < 0 || stats.Failed < 0 || stats.Partial < 0 {
			t.Errorf("%+v", stats)
		}
		for name, c := range stats.Callees {
			if c.Sent < 0 || c.Failed < 0 || c.Retries < 0 {
				t.Errorf("%q: %+v", name, c)
			}
		}
	})
}
