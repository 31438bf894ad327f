package debian

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// Five clusters start at the same time on a new machine. apt-get is a script here that fails beside another one, as the
// real one does, and the package has one file.
func TestInstallBesideOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("apt-get needs root")
	}
	dir := t.TempDir()
	file, calls := filepath.Join(dir, "file"), filepath.Join(dir, "calls")
	script := "#!/bin/sh\nmkdir " + dir + "/held || exit 100\nsleep 0.2\necho \"$@\" >>" + calls + "\n[ \"$1\" != install ] || touch " + file + "\nrmdir " + dir + "/held\n"
	must.OK(t, os.WriteFile(filepath.Join(dir, "apt-get"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	defer func(files []struct{ file, from string }, at string) { needed, packages = files, at }(needed, packages)
	needed, packages = []struct{ file, from string }{{file, "package"}}, t.TempDir()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := Install(t.Context(), t.Output()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(calls)
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(lines) != 2 || !strings.HasPrefix(lines[0], "update ") || !strings.HasPrefix(lines[1], "install -y --no-install-recommends package ") {
		t.Errorf("%v; apt-get was called with\n%s", err, text)
	}
}

// One that waits ends with its context, and names the packages.
func TestInstallEndsWithItsContext(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("apt-get needs root")
	}
	defer func(files []struct{ file, from string }, at string) { needed, packages = files, at }(needed, packages)
	needed, packages = []struct{ file, from string }{{filepath.Join(t.TempDir(), "file"), "package"}}, t.TempDir()
	unlock := must.Get(lock(t.Context(), packages))(t)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Install(ctx, t.Output()); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "install --no-install-recommends package") {
		t.Error(err)
	}
}
