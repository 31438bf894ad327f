package regular

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
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
