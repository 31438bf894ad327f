package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

// An experiment has the requests of a file, and its record needs no other file and has no credentials.
func TestTargetsOfExperiments(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []experiment.Request
		note       string
	}{
		{"targets", "GET http://a?b=1\nAuthorization: Bearer ${env:TARE_TEST_TOKEN}\n\nDELETE http://a/x#top\nAuthorization: Bearer s3cret\n",
			[]experiment.Request{{Method: "GET", Path: "/?b=1", Headers: map[string]string{"Authorization": "Bearer ${env:TARE_TEST_TOKEN}"}, Weight: 1}, {Method: "DELETE", Path: "/x", Weight: 1}}, "headers Authorization of "},
		{"JSON lines", `{"url": "http://a/cart", "headers": {"Accept": "a", "X-Api-Key": "s3cret"}, "body": {"id": 7}, "weight": 3}`,
			[]experiment.Request{{Method: "POST", Path: "/cart", Headers: map[string]string{"Accept": "a", "Content-Type": "application/json"}, Body: `{"id": 7}`, Weight: 3}}, "headers X-Api-Key of "},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			must.OK(t, os.WriteFile(filepath.Join(dir, "requests"), []byte(test.text), 0o600))
			x, notes, err := decodedTargets(dir, "{targets: requests}")
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
	must.OK(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("machine shop password s3cret"), 0o600))
	read := func(load string) error {
		file := must.File(t, dir, "experiment.yaml", "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nfactors: {mesh: [none]}\nload: "+load+"\n")
		_, err := NewProgram("", nil).Read(t.Context(), file, Options{Recorded: true})
		return err
	}
	for _, load := range []string{"{targets: secret}", "{targets: /dev/zero}", "{targets: " + filepath.Join(dir, "secret") + "}"} {
		if err := read(load); err == nil || strings.Contains(err.Error(), "machine") || !strings.Contains(err.Error(), "a recorded experiment") {
			t.Errorf("%s: %v", load, err)
		}
	}
}
