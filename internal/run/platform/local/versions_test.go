package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// A program that the dynamic linker did not start prints names of libraries, which have versions too.
func TestPrintedVersion(t *testing.T) {
	for script, want := range map[string]string{
		"echo HAProxy version 2.6.12-1+deb12u4":                                   "2.6.12-1+deb12u4",
		"echo nginx/1.22.1 >&2; exit 1":                                           "1.22.1",
		"echo error while loading shared libraries: liblua5.3.so.0 >&2; exit 127": "",
		"true": "",
	} {
		path := filepath.Join(t.TempDir(), "proxy")
		must.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		if got := printedVersion(t.Context(), path, mesh.Sidecar{}); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}
