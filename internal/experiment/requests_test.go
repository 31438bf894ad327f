package experiment_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	got, err := experiment.WithSecrets("Bearer ${env:TARE_TEST_TOKEN}, ${file:" + path + "}")
	if err != nil || got != "Bearer s3cret, k3y" {
		t.Errorf("%q, %v", got, err)
	}
	for value, want := range map[string]string{
		"${env:TARE_TEST_ABSENT}":     "environment variable TARE_TEST_ABSENT is not set",
		"${env:TARE_TEST_LINES}":      "control characters",
		"${file:" + dir + "/nowhere}": "read header",
	} {
		if _, err := experiment.WithSecrets(value); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Other") {
			t.Errorf("%s: %v, want %q and no content", value, err, want)
		}
	}
}
