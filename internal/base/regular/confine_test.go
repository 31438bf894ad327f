package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestConfine(t *testing.T) {
	base := t.TempDir()
	inside := filepath.Join(base, "runs")
	for _, dir := range []string{filepath.Join(inside, "a"), base + "/runs-too"} {
		must.OK(t, os.MkdirAll(dir, 0o700))
	}
	for _, file := range []string{base + "/secret", inside + "/own", base + "/runs-too/other"} {
		must.OK(t, os.WriteFile(file, []byte("text"), 0o600))
	}
	for link, target := range map[string]string{"out": "../secret", "absolute": base + "/secret", "a/up": "../../secret", "near": "own"} {
		must.OK(t, os.Symlink(target, filepath.Join(inside, link)))
	}
	root := must.Get(os.OpenRoot(inside))(t)
	defer root.Close()
	read := func(path string) bool { _, err := ReadFile(path, 100); return err == nil }
	if !read(inside + "/out") {
		t.Error("without a root, links are followed")
	}
	release := Confine(root)
	for path, want := range map[string]bool{
		"/runs/own": true, "/runs/near": true, "/runs/a/../own": true, "/runs-too/other": true, "/secret": true,
		"/runs/out": false, "/runs/absolute": false, "/runs/a/up": false,
	} {
		if read(base+path) != want {
			t.Errorf("%s: opened %v", path, !want)
		}
	}
	release()
	// A root within a root, which a link of the outer one reaches: the nearest has the path.
	must.OK(t, os.Symlink("../runs-too", inside+"/archive"))
	nested := must.Get(os.OpenRoot(inside + "/archive"))(t)
	defer nested.Close()
	release, releaseNested := Confine(root), Confine(nested)
	if !read(inside+"/archive/other") || read(inside+"/out") {
		t.Error("a root within a root")
	}
	releaseNested()
	release()
	if !read(inside + "/out") {
		t.Error("the root is released")
	}
}

// No link below a directory of NoLinks is followed: in place of a file, of a directory above it, or back into the directory.
func TestNoLinks(t *testing.T) {
	base := t.TempDir()
	dir, named := filepath.Join(base, "run"), filepath.Join(base, "latest")
	must.OK(t, os.MkdirAll(filepath.Join(dir, "trials", "a"), 0o700))
	for _, file := range []string{base + "/secret", dir + "/own", dir + "/trials/a/record"} {
		must.OK(t, os.WriteFile(file, []byte("text"), 0o600))
	}
	for link, target := range map[string]string{"run/out": "../secret", "run/near": "own", "run/trials/b": "a", "run/trials/c": base, "latest": "run"} {
		must.OK(t, os.Symlink(target, filepath.Join(base, link)))
	}
	NoLinks(named)
	for name, want := range map[string]bool{"own": true, "trials/a/record": true, "trials/a/../a/record": true,
		"out": false, "near": false, "trials/b/record": false, "trials/c/secret": false, "trials/c/latest/own": false} {
		path := named + "/" + name
		_, err := ReadFile(path, 100)
		if (err == nil) != want || err != nil && (!errors.Is(err, ErrLink) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ReadFile(filepath.Join(dir, name), 100); err != nil {
			t.Errorf("%s, by a name without the promise: %v", name, err)
		}
	}
	if _, err := ReadFile(named+"/absent", 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	for name, want := range map[string]bool{"trials": true, "trials/a": true, "trials/b": false} {
		if _, err := ReadDir(named + "/" + name); (err == nil) != want {
			t.Errorf("list %s: %v", name, err)
		}
	}
	for name, want := range map[string]bool{"out": true, "trials/b": true, "trials/a/record": true, "trials/b/record": false} {
		if _, err := Lstat(named + "/" + name); (err == nil) != want {
			t.Errorf("properties of %s: %v", name, err)
		}
	}
}
