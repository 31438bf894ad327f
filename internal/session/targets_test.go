package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
)

// An experiment has the requests of a file, and its record needs no other file and has no credentials.
func TestTargetsOfExperiments(t *testing.T) {
	const har = `{"log": {"entries": [
{"startedDateTime": "2026-03-01T12:00:00Z", "request": {"method": "POST", "url": "https://shop.example/cart/17?a=1", "headers": [{"name": "Cookie", "value": "s3cret"}, {"name": "X-Api-Key", "value": "s3cret"}, {"name": ":path", "value": "/"}, {"name": "Accept", "value": "a"}, {"name": "Accept", "value": "b"}], "postData": {"text": "x=1"}}},
{"startedDateTime": "2026-03-01T12:00:01Z", "request": {"method": "GET", "url": "https://other.example/", "headers": []}}]}}`
	const log = `10.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "GET /items/17?page=2 HTTP/1.1" 200 2326 "-" "curl/8.0"
10.0.0.1 - - [10/Oct/2026:13:55:37 +0200] "GET /items/18 HTTP/1.1" 200 2326 "-" "curl/8.0"
10.0.0.1 - - [10/Oct/2026:13:55:37 +0200] "GET /items/18 HTTP/1.1" 200 2326 "-" "curl/8.0"
10.0.0.1 - - [10/Oct/2026:13:55:37 +0200] "POST /cart HTTP/1.1" 201 10 "-" "-"
`
	for _, test := range []struct {
		name, text, load string
		want             []experiment.Request
		note             string
	}{
		{"HAR", har, "", []experiment.Request{{Name: "POST /cart/{id}", Method: "POST", Path: "/cart/17?a=1", Headers: map[string]string{"Accept": "a, b"}, Body: "x=1", Weight: 1}}, "headers Cookie, X-Api-Key of "},
		{"log", log, "", []experiment.Request{{Name: "GET /items/{id}", Method: "GET", Path: "/items/17?page=2", Weight: 1}, {Name: "GET /items/{id}", Method: "GET", Path: "/items/18", Weight: 2}}, "requests with methods other than GET, HEAD and OPTIONS, whose bodies a log lacks (1)"},
		{"targets", "GET http://a?b=1\nAuthorization: Bearer ${env:TARE_TEST_TOKEN}\n\nDELETE http://a/x#top\nAuthorization: Bearer s3cret\n", "",
			[]experiment.Request{{Method: "GET", Path: "/?b=1", Headers: map[string]string{"Authorization": "Bearer ${env:TARE_TEST_TOKEN}"}, Weight: 1}, {Method: "DELETE", Path: "/x", Weight: 1}}, "headers Authorization of "},
		{"JSON lines with templates", `{"url": "http://a/{{seq}}", "body": {"id": "{{uuid}}"}, "weight": 3}`, ", templates: true",
			[]experiment.Request{{Method: "POST", Path: "/{{seq}}", Headers: map[string]string{"Content-Type": "application/json"}, Body: `{"id": "{{uuid}}"}`, Weight: 3}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			must.OK(t, os.WriteFile(filepath.Join(dir, "requests"), []byte(test.text), 0o600))
			x, notes, err := decodedTargets(dir, "{targets: requests"+test.load+"}")
			must.OK(t, err)
			if !reflect.DeepEqual(x.Load.Requests, test.want) || x.Load.Targets != "" {
				t.Errorf("%+v\nwant %+v", x.Load.Requests, test.want)
			}
			if !strings.Contains(notes, test.note) || strings.Contains(notes, "s3cret") {
				t.Errorf("notes %q", notes)
			}
			record, err := x.YAML()
			if err != nil || strings.Contains(string(record), "s3cret") || strings.Contains(string(record), "targets:") {
				t.Errorf("%v: %s", err, record)
			}
			if again, err := experiment.Parse("again.yaml", record, experiment.Names{}); err != nil || !reflect.DeepEqual(again.Load, x.Load) {
				t.Errorf("%v: %+v", err, again)
			}
		})
	}
}

// With arrivals recorded an experiment has the instants of a log, as many as a record may have.
func TestInstantsOfTargets(t *testing.T) {
	const line = `10.0.0.1 - - [10/Oct/2026:13:55:%02d +0200] "GET /%s HTTP/1.1" 200 2326` + "\n"
	dir := t.TempDir()
	var many strings.Builder
	for i := range experiment.MaxInstants + 1 {
		fmt.Fprintf(&many, line, i/1000, "a")
	}
	fmt.Fprintf(&many, line, 59, "late")
	for file, text := range map[string]string{"log": fmt.Sprintf(line+line+line, 36, "a", 37, "b", 37, "a"), "many": many.String(), "untimed": "GET http://a/\n",
		"long": fmt.Sprintf(line+line+line, 36, "a", 37, "a", 38, "a") + strings.Replace(fmt.Sprintf(line, 0, "a"), "/Oct/", "/Dec/", 1)} {
		must.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	x, _, err := decodedTargets(dir, "{targets: log, arrivals: recorded}")
	must.OK(t, err)
	if want := []experiment.Request{{Name: "GET /a", Method: "GET", Path: "/a", At: experiment.Instants{0, 1500 * time.Millisecond}}, {Name: "GET /b", Method: "GET", Path: "/b", At: experiment.Instants{time.Second}}}; !reflect.DeepEqual(x.Load.Requests, want) {
		t.Errorf("%+v\nwant %+v", x.Load.Requests, want)
	}
	record := must.Get(x.YAML())(t)
	if again, err := experiment.Parse("again.yaml", record, experiment.Names{}); err != nil || !reflect.DeepEqual(again.Load, x.Load) || !reflect.DeepEqual(again.Factors, x.Factors) {
		t.Errorf("%v: %+v\n%s", err, again, record)
	}
	x, notes, err := decodedTargets(dir, "{targets: many, arrivals: recorded}")
	if err != nil || len(x.Load.Requests) != 1 {
		t.Errorf("%v: %.200s", err, notes)
	} else if d := difftest.Wrong("len(x.Load.Requests[0].At) != experiment.MaxInstants", len(x.Load.Requests[0].At) != experiment.MaxInstants, `!strings.Contains(notes, "the first 40000 of 40002 requests")`, !strings.Contains(notes, "the first 40000 of 40002 requests")); d != "" {
		t.Errorf("%s: %v: %.200s", d, err, notes)
	}
	if record, err := x.YAML(); err != nil || len(record) > strict.MaxBytes/2 {
		t.Errorf("%v: the record has %d bytes", err, len(record))
	}
	x, notes, err = decodedTargets(dir, "{targets: long, arrivals: recorded}")
	if err != nil || len(x.Load.Requests[0].At) != 3 || !strings.Contains(notes, "the first 3 of 4 requests") {
		t.Errorf("%v: %s", err, notes)
	}
	if _, _, err := decodedTargets(dir, "{targets: untimed, arrivals: recorded}"); err == nil || !strings.Contains(err.Error(), "the requests have no instants") {
		t.Error(err)
	}
}

// The tables of a file of requests lie beside it, not beside the experiment.
func TestTablesOfTargets(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	must.OK(t, errors.Join(os.Mkdir(there, 0o700), os.WriteFile(filepath.Join(there, "users.csv"), []byte("id\n7\n"), 0o600),
		os.WriteFile(filepath.Join(there, "targets"), []byte("GET http://a/{{csv \"users.csv\" \"id\"}}\n"), 0o600)))
	x, _, err := decodedTargets(dir, "{targets: there/targets, templates: true}")
	must.OK(t, err)
	if want := "/{{csv \"" + filepath.Join(there, "users.csv") + "\" \"id\"}}"; x.Load.Requests[0].Path != want {
		t.Errorf("%s, want %s", x.Load.Requests[0].Path, want)
	}
}

func decodedTargets(dir, load string) (*experiment.Experiment, string, error) {
	text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: targets}\nfactors: {mesh: [none]}\nload: " + load + "\n"
	s, err := NewProgram("", nil).Decode(context.Background(), filepath.Join(dir, "x.yaml"), []byte(text), Options{})
	if err != nil {
		return nil, "", err
	}
	return s.Experiment, strings.Join(s.Notes, "\n"), nil
}

func TestMistakesOfTargets(t *testing.T) {
	dir := t.TempDir()
	var many strings.Builder
	for i := range 201 {
		fmt.Fprintf(&many, "GET http://a/p%d\n", i)
	}
	for file, text := range map[string]string{"two": "GET http://a/\n\nGET http://b/\n", "odd": "GET http://a/\n\nnonsense\n", "many": many.String(),
		"file": "GET http://a/\nX-Note: ${file:/etc/hostname}\n"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	for load, want := range map[string]string{
		"{targets: two}":                        "x.yaml:5:17: load.targets: " + dir + "/two has requests to http://a and http://b",
		"{targets: odd}":                        "odd:3:1: ",
		"{targets: file}":                       "file: header X-Note would send a file of this machine: ${file:/etc/hostname}",
		"{targets: nowhere}":                    "x.yaml:5:17: load.targets: ",
		"{targets: many}":                       "load.requests: figures of 201 different requests, max 200",
		"{targets: two, requests: [{path: /}]}": "x.yaml:5:17: load.targets: the load has requests and a file of them",
	} {
		if _, _, err := decodedTargets(dir, load); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", load, err, want)
		}
	}
}

// Results may come from others: the files that a recorded experiment names are not read.
func TestRecordedExperimentsReadNoFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"secret": "machine shop password s3cret", "users.csv": "id\n7\n"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	read := func(load string, recorded bool) error {
		file := must.File(t, dir, "experiment.yaml", "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nfactors: {mesh: [none]}\nload: "+load+"\n")
		_, err := NewProgram("", nil).Read(t.Context(), file, Options{Recorded: recorded})
		return err
	}
	for _, load := range []string{"{targets: secret}", "{targets: /dev/zero}", "{targets: " + filepath.Join(dir, "secret") + "}"} {
		if err := read(load, true); err == nil || strings.Contains(err.Error(), "machine") || !strings.Contains(err.Error(), "a recorded experiment") {
			t.Errorf("%s: %v", load, err)
		}
	}
	const expression = `{templates: true, requests: [{path: '/{{csv "secret" "id"}}'}]}`
	if err := read(expression, false); err == nil {
		t.Error("a file without the column is accepted")
	}
	if err := read(expression, true); err != nil {
		t.Errorf("a recorded expression is read: %v", err)
	}
}
