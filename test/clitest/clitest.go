// Package clitest has commands for scripts of testscript, and results directories for tests.
package clitest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tare-mesh/tare/test/must"

	"github.com/rogpeppe/go-internal/testscript"
)

// Exits is the command
//
//	exits CODE COMMAND…       run a command that must exit with CODE
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if err != nil {
		code = -1
		if e, ok := err.(interface{ ExitCode() int }); ok {
			code = e.ExitCode()
		}
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, expected %s (%v)", code, args[0], err)
	}
}

// Unpack unpacks the regular files of an archive (.tar.gz), such as kept results, into a directory.
func Unpack(t testing.TB, archive, dir string) {
	t.Helper()
	f := must.Get(os.Open(archive))(t)
	defer f.Close()
	z := must.Get(gzip.NewReader(f))(t)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must.OK(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(r)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		must.OK(t, errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)))
	}
}
