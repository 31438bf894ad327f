package calls

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestOpen(t *testing.T) {
	body := must.File(t, t.TempDir(), "body.json", `{"a":1}`)
	for _, test := range []struct {
		name, text string
		want       []Call
	}{
		{"vegeta's documentation", "GET http://goku:9090/path?item=ball\n\n# a comment\nPOST http://goku:9090/things\nX-Account-ID: 99\nContent-Type: application/json\n@body.json\n\n  HEAD http://goku:9090/x  \n", []Call{
			{URL: "http://goku:9090/path?item=ball", Weight: 1, Call: load.Call{Method: "GET"}},
			{URL: "http://goku:9090/things", Weight: 1, Call: load.Call{Method: "POST", Headers: []string{"X-Account-ID: 99", "Content-Type: application/json"}, Body: []byte(`{"a":1}`)}},
			{URL: "http://goku:9090/x", Weight: 1, Call: load.Call{Method: "HEAD"}},
		}},
		{"no blank lines", "GET http://a/\nGET http://b/\nX: y\nDELETE http://c/", []Call{
			{URL: "http://a/", Weight: 1, Call: load.Call{Method: "GET"}}, {URL: "http://b/", Weight: 1, Call: load.Call{Method: "GET", Headers: []string{"X: y"}}},
			{URL: "http://c/", Weight: 1, Call: load.Call{Method: "DELETE"}},
		}},
		{"vegeta's JSON", `{"method":"POST","url":"http://goku/","body":"UHVuY2gh","header":{"Content-Type":["text/plain"],"A":["b","c"]}}`, []Call{
			{URL: "http://goku/", Weight: 1, Call: load.Call{Method: "POST", Headers: []string{"A: b", "A: c", "Content-Type: text/plain"}, Body: []byte("Punch!")}},
		}},
		{"JSON lines", `{"url":"http://a/","weight":3,"name":"home"}` + "\n" + `{"url":"http://a/items","headers":{"X":"y"},"body":{"n": 1}}` + "\n\n" + `{"method":"PUT","url":"http://a/t","body":"text"}`, []Call{
			{URL: "http://a/", Weight: 3, Call: load.Call{Name: "home"}},
			{URL: "http://a/items", Weight: 1, Call: load.Call{Method: "POST", Headers: []string{"X: y", "Content-Type: application/json"}, Body: []byte(`{"n": 1}`)}},
			{URL: "http://a/t", Weight: 1, Call: load.Call{Method: "PUT", Body: []byte("text")}},
		}},
	} {
		got, err := Open(strings.NewReader(test.text), filepath.Join(filepath.Dir(body), "f"))
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", test.name, err, got, test.want)
		}
	}
}

// The path of a body is relative to the file of targets, wherever tare runs.
func TestBodiesBesideTheTargets(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"order.json": "beside", "sub/order.json": "below"} {
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)))
	}
	got, err := Open(strings.NewReader("POST http://a/\n@order.json\n\nPOST http://b/\n@sub/order.json\n"), filepath.Join(dir, "targets"))
	if err != nil || len(got) != 2 {
		t.Errorf("%v: %+v", err, got)
	} else if d := difftest.Of("string(got[0].Body)", string(got[0].Body), "beside", "string(got[1].Body)", string(got[1].Body), "below"); d != "" {
		t.Errorf("%s: %v: %+v", d, err, got)
	}
	t.Chdir(dir)
	if got, err = Open(strings.NewReader("POST http://a/\n@order.json\n"), "standard input"); err != nil || string(got[0].Body) != "beside" {
		t.Errorf("standard input: %v: %+v", err, got)
	}
}

// Mistakes have file, line and column, and a hint where there is one.
func TestMistakes(t *testing.T) {
	for _, test := range []struct{ text, error, hint string }{
		{"", "f: it has no requests", ""},
		{"# nothing\n", "f: it has no requests", ""},
		{"GET http://a/\n\nftp://b/", `f:3:1: "ftp://b/" is not of the form GET`, "a line begins with method and URL"},
		{"GET ftp://a/", "f:1:1: target \"ftp://a/\" does not begin with http", ""},
		{"POST http://a/\nnonsense", `f:2:1: "nonsense" is not a header`, "a body is @file"},
		{"POST http://a/\n@/nowhere/at/all", "f:2:1: read body", ""},
		{`{"url":"http://a/","wieght":2}`, `f:1:1: unknown field "wieght"`, "did you mean weight?"},
		{`{"url":"http://a/"}` + "\n" + `{"url":"http://a/",}`, "f:2:20: no JSON object of a request", ""},
		{`{"url":"http://a/"} x`, "f:1:1: text after the object", "one object a line"},
		{`{"url":"http://a/","body":"no base64!","header":{}}`, "f:1:1: body", "header is vegeta's"},
		{`{"url":""}`, "f:1:1: target", ""},
		{"GET http://a/\n" + strings.Repeat("x", maxLine+1), "f: line 2", ""},
		{strings.Repeat("GET http://a/\n", maxCalls+1), "more than 10000 requests", ""},
	} {
		_, err := Open(strings.NewReader(test.text), "f")
		if err == nil || !strings.Contains(err.Error(), test.error) || !strings.Contains(hint.Of(err), test.hint) {
			t.Errorf("%.60q: %v, hint %q", test.text, err, hint.Of(err))
		}
		var invalid interface{ InvalidFile() }
		if strings.Contains(test.error, "f:") && strings.Count(test.error, ":") > 2 && !errors.As(err, &invalid) {
			t.Errorf("%.60q is not a mistake in a file", test.text)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("GET http://a/\nX: y\n\n")
	f.Add(`{"url":"http://a/","body":{"n":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "@") {
			t.Skip("names a file")
		}
		calls, err := Open(strings.NewReader(text), "f")
		if err == nil && len(calls) == 0 {
			t.Error("no requests and no error")
		}
	})
}

// Requests of another person send no file that is not below theirs, unless the user permits it.
func TestBodiesOutside(t *testing.T) {
	base := t.TempDir()
	dir, secret := filepath.Join(base, "theirs"), filepath.Join(base, "secret.csv")
	must.OK(t, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(secret, []byte("name\ns3cret\n"), 0o600), os.Symlink(secret, filepath.Join(dir, "link.csv"))))
	for _, path := range []string{secret, "../secret.csv", "link.csv"} {
		if got, err := Open(strings.NewReader("POST http://a/\n@"+path+"\n"), filepath.Join(dir, "targets")); err == nil {
			t.Errorf("%q: %+v", path, got)
		}
	}
}
