package experiment_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
)

// The body of a file is in the rendered experiment, which needs no other file.
func TestRequestBodies(t *testing.T) {
	e, err := experiment.Read("testdata/good/requests.yaml", shipped())
	if err != nil {
		t.Fatal(err)
	}
	rs := e.Load.Requests
	if got, want := string(rs[2].Body), "\xff\xfe\x00\x80"; got != want || rs[2].BodyFile != "" {
		t.Errorf("body of the file %q, file %q", got, rs[2].BodyFile)
	}
	if string(rs[3].Body) != "base64:" {
		t.Errorf("body %q", rs[3].Body)
	}
	sameAfterRendering(t, e)
}

func TestWithSecrets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TARE_TEST_TOKEN", "s3cret")
	t.Setenv("TARE_TEST_LINES", "a\r\nX-Other: b")
	path := filepath.Join(dir, "key")
	if err := os.WriteFile(path, []byte("k3y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := experiment.WithSecrets("Bearer ${env:TARE_TEST_TOKEN}, ${file:"+path+"}", false)
	if err != nil || got != "Bearer s3cret, k3y" {
		t.Errorf("%q, %v", got, err)
	}
	for value, want := range map[string]string{
		"${env:TARE_TEST_ABSENT}":     "environment variable TARE_TEST_ABSENT is not set",
		"${env:TARE_TEST_LINES}":      "control characters",
		"${file:" + dir + "/nowhere}": "read header",
	} {
		if _, err := experiment.WithSecrets(value, false); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Other") {
			t.Errorf("%s: %v, want %q and no content", value, err, want)
		}
	}
}

// Expressions of requests are read with the file. Paths of CSV files are relative to it, become
// absolute, and no record has their values.
func TestTemplatesOfRequests(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"users.csv": "id,password\n7,s3cret\n", "x.yaml": `apiVersion: tare.dev/v1alpha1
kind: Experiment
metadata: {name: t}
factors: {mesh: [none, envoy], rate: [max]}
load:
  templates: true
  cookies: true
  think: 1ms..5ms
  requests:
    - {path: '/a/{{csv "users.csv" "id"}}?n={{seq}}', body: '{{csv "users.csv" "password" random}}'}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := experiment.Read(filepath.Join(dir, "x.yaml"), shipped())
	if err != nil {
		t.Fatal(err)
	}
	r := e.Load.Requests[0]
	if want := `/a/{{csv "` + dir + `/users.csv" "id"}}?n={{seq}}`; r.Path != want || !strings.Contains(string(r.Body), dir+`/users.csv" "password" random}}`) {
		t.Errorf("%s %s\nwant %s", r.Path, r.Body, want)
	}
	sameAfterRendering(t, e)
	if e.Load.Think != (experiment.Think{Min: experiment.Duration(time.Millisecond), Max: experiment.Duration(5 * time.Millisecond)}) {
		t.Errorf("%v", e.Load.Think)
	}
	data, err := experiment.LoadTemplates(&e.Load)
	if err != nil || data.Tables[0].Columns[1].Values[0] != "s3cret" {
		t.Errorf("%+v, %v", data, err)
	}
	record, err := json.Marshal(e)
	if err != nil || strings.Contains(string(record), "s3cret") {
		t.Errorf("%v: the record has values of the file: %s", err, record)
	}
}
