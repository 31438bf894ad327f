package regular

import (
	"os"
	"path/filepath"
	"testing"
)

func TestConfine(t *testing.T) {
	base := t.TempDir()
	inside := filepath.Join(base, "runs")
	for _, dir := range []string{filepath.Join(inside, "a"), base + "/runs-too"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{base + "/secret", inside + "/own", base + "/runs-too/other"} {
		if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"out": "../secret", "absolute": base + "/secret", "a/up": "../../secret", "near": "own"} {
		if err := os.Symlink(target, filepath.Join(inside, link)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.Symlink("../runs-too", inside+"/archive"); err != nil {
		t.Fatal(err)
	}
	nested, err := os.OpenRoot(inside + "/archive")
	if err != nil {
		t.Fatal(err)
	}
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
