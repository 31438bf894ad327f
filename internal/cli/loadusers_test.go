package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
)

// Expressions are values with --templates and text without, in flags and in files of requests.
func TestLoadTemplates(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{
		"users.csv":    "id,name\n7,Ann\n8,Bo\n",
		"targets.txt":  "POST URL/{{csv \"users.csv\" \"name\"}}\nX-N: {{seq}}\n@body.txt\n\nGET URL/b\n",
		"targets.json": `{"url": "URL/{{csv \"users.csv\" \"name\"}}", "method": "PUT", "body": {"n": "{{seq}}"}}` + "\n",
		"body.txt":     "id={{csv \"users.csv\" \"id\"}}",
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for _, test := range []struct {
		args []string
		want string // requests in order, with |
	}{
		{[]string{"URL/{{seq}}", "--data", `{"id": "{{csv "users.csv" "id"}}"}`, "--templates"}, `POST /1 {"id": "7"}|POST /2 {"id": "8"}`},
		{[]string{"URL/", "--data", `{{seq}}`}, `POST / {{seq}}|POST / {{seq}}`},
		{[]string{"URL/", "--data", "@body.txt", "--templates", "-H", "X-N: {{seq}}"}, `POST / 1 id=7|POST / 2 id=8`},
		{[]string{"--targets", "targets.txt", "--templates"}, `POST /Ann 1 id=7|GET /b `},
		{[]string{"--targets", "targets.json", "--templates"}, `PUT /Ann {"n": "1"}|PUT /Bo {"n": "2"}`},
	} {
		var mu sync.Mutex
		var got []string
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			number := r.Header.Get("X-N")
			if number != "" {
				number += " "
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, r.Method+" "+r.URL.Path+" "+number+string(body))
		}))
		for i := range test.args {
			test.args[i] = strings.ReplaceAll(test.args[i], "URL", s.URL)
		}
		for _, name := range []string{"targets.txt", "targets.json"} {
			content := must.Get(os.ReadFile(name))(t)
			must.OK(t, os.WriteFile(name+".here", []byte(strings.ReplaceAll(string(content), "URL", s.URL)), 0o600))
			for i := range test.args {
				if test.args[i] == name {
					test.args[i] += ".here"
				}
			}
		}
		_, err := runLoadCommand(t, append(test.args, "-n", "2", "-c", "1")...)
		s.Close()
		if err != nil || strings.Join(got, "|") != test.want {
			t.Errorf("%v: %v\n%s\nwant\n%s", test.args, err, strings.Join(got, "|"), test.want)
		}
	}
}

// Users who think do not show the capacity of the server, and the page has their think time.
func TestLoadWithThinkTime(t *testing.T) {
	out, err := runLoadCommand(t, hello(t), "--think", "1ms..5ms", "-n", "20", "-c", "4")
	if err != nil || !strings.Contains(out, "closed loop, think time 1ms to 5ms") || strings.Contains(out, "capacity") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A user is a connection, over HTTP/2 too: the default of streams is 1 then.
func TestStreamsOfUsers(t *testing.T) {
	for _, test := range []struct {
		args []string
		want int // 0: refused
	}{{[]string{"--cookies"}, 1}, {[]string{"--think", "5ms"}, 1}, {nil, load.DefaultStreams}, {[]string{"--cookies", "--streams", "2"}, 0}} {
		p, err := built(t, append(test.args, "--http2")...)
		if (err != nil) != (test.want == 0) || err == nil && p.Streams != test.want {
			t.Errorf("%q: %d streams, %v", test.args, p.Streams, err)
		}
	}
}

// A mistake has its place: in the flag, in the file of requests, in the body's file, in the CSV file.
func TestLoadTemplateErrors(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{
		"users.csv":   "id,name\n7,Ann\n",
		"bad.csv":     "id\n\"7\n",
		"url.txt":     "GET http://127.0.0.1:1/\n\n  GET http://127.0.0.1:1/{{uid}}\n",
		"header.txt":  "GET http://127.0.0.1:1/\nX-N: a\nX-M: {{random 1}}\n",
		"body.txt":    "GET http://127.0.0.1:1/\n@content\n",
		"content":     "a\nb {{seq\n",
		"lines.json":  `{"url": "http://127.0.0.1:1/{{seq}}"}` + "\n" + `{"url": "http://127.0.0.1:1/", "body": "{{csv \"users.csv\" \"nam\"}}"}` + "\n",
		"csv.json":    `{"url": "http://127.0.0.1:1/", "body": "{{csv \"bad.csv\" \"id\"}}"}` + "\n",
		"nothing.txt": "GET http://127.0.0.1:1/\n",
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	const url = "http://127.0.0.1:1/"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{url + "a/{{uuidd}}"}, `URL:1:22: unknown expression "uuidd"`},
		{[]string{url, "-H", "X: {{"}, "--header:1:4: the expression has no }}"},
		{[]string{url, "--data", "a\n{{x}}"}, `--data:2:1: unknown expression "x"`},
		{[]string{url, "--data", "@content"}, "content:2:3: the expression has no }}"},
		{[]string{"--targets", "url.txt"}, `url.txt:3:26: unknown expression "uid"`},
		{[]string{"--targets", "header.txt"}, `header.txt:3:6: "random 1" has other arguments than random`},
		{[]string{"--targets", "body.txt"}, "content:2:3: the expression has no }}"},
		{[]string{"--targets", "lines.json"}, `lines.json:2:41: users.csv has no column "nam"`},
		{[]string{"--targets", "csv.json"}, `bad.csv:2:4: extraneous or missing " in quoted-field`},
		{[]string{"http://{{uuid}}/"}, ""},
		{[]string{url, "--think", "5ms", "--rate", "10"}, "--think needs a closed loop"},
		{[]string{url, "--think", "5"}, "--think: found \"5\", expected a time such as 200ms, or 100ms..500ms"},
		{[]string{"--targets", "nothing.txt", "--think", "1ms", "--speed", "2x"}, "--speed needs requests with instants"},
	} {
		_, err := runLoadCommand(t, append(test.args, "--templates")...)
		must.Fail(t, err, test.want, test.args)
	}
}
