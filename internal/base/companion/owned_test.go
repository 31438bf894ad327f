package companion

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/base/regular"
)

// A program in the cache is executed only if no other user could have put it there.
func TestForeignProgram(t *testing.T) {
	buildInfo = func() (*debug.BuildInfo, bool) {
		return &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.0.0", Sum: "h1:x"}}, true
	}
	t.Cleanup(func() { buildInfo = debug.ReadBuildInfo })
	const name = "tare-absent"
	t.Setenv("PATH", t.TempDir())
	cache := filepath.Join(t.TempDir(), "cache")
	t.Setenv("XDG_CACHE_HOME", cache)
	path := filepath.Join(cache, "tare", "programs", "v1.0.0", name)
	install := func() error {
		return Install(t.Context(), name, func(line string) { t.Errorf("built: %s", line) })
	}
	refused := func(what string, want bool) {
		t.Helper()
		err := install()
		if errors.Is(err, regular.ErrForeign) != want || !want && err != nil || want && !strings.Contains(hint.Of(err), "XDG_CACHE_HOME") {
			t.Errorf("%s: %v (%s)", what, err, hint.Of(err))
		}
		if found := Path(name); (found == path) == want {
			t.Errorf("%s: found %s", what, found)
		}
	}
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	refused("own", false)
	for p := path; p != filepath.Dir(cache); p = filepath.Dir(p) {
		for _, mode := range []os.FileMode{0o777, 0o775} {
			must.OK(t, os.Chmod(p, mode))
			refused("writable "+p, true)
		}
		must.OK(t, os.Chmod(p, 0o755))
		if os.Getuid() != 0 {
			continue
		}
		must.OK(t, os.Chown(p, 65534, 65534))
		refused("another's "+p, true)
		must.OK(t, os.Chown(p, 0, 0))
	}
	refused("own again", false)
}

// A program in PATH counts in the version of an installed tare only. A build in a work tree takes any.
func TestOtherVersion(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.0.0", Sum: "h1:x"}}
	buildInfo = func() (*debug.BuildInfo, bool) { return info, true }
	t.Cleanup(func() { buildInfo = debug.ReadBuildInfo })
	const name = "tare-absent"
	bin, cache := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("XDG_CACHE_HOME", cache)
	inPath, built := filepath.Join(bin, name), filepath.Join(cache, "tare", "programs", "v1.0.0", name)
	put := func(path, version string) {
		t.Helper()
		script := "#!/bin/sh\necho " + name + " " + version + "\n"
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(script), 0o755)))
	}
	want := func(what, path string) {
		t.Helper()
		if got := Path(name); got != path {
			t.Errorf("%s: %s, want %s", what, got, path)
		}
	}
	put(inPath, "v0.9.0")
	want("another version in PATH", built)
	must.Fail(t, Install(t.Context(), name, func(string) {}), name+" v1.0.0 is neither beside tare nor in PATH", "not built")
	info.Main.Sum = ""
	want("a build in a work tree", inPath)
	info.Main.Sum = "h1:x"
	put(inPath, "v1.0.0")
	want("the same version in PATH", inPath)
	put(built, "v1.0.0")
	want("the built program", built)
}

// Nothing is built into a directory that another user can write to.
func TestForeignDirectory(t *testing.T) {
	buildInfo = func() (*debug.BuildInfo, bool) {
		return &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.0.0", Sum: "h1:x"}}, true
	}
	t.Cleanup(func() { buildInfo = debug.ReadBuildInfo })
	cache, bin := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("PATH", bin)
	mark := filepath.Join(bin, "called")
	must.OK(t, os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\n: >"+mark+"\n"), 0o755))
	dir := filepath.Join(cache, "tare")
	must.OK(t, errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o777)))
	if err := Install(t.Context(), "tare-absent", func(string) {}); !errors.Is(err, regular.ErrForeign) {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the go command was called")
	}
}
