package importer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// A shell's * names links of another person too, last in a path or in the middle of it. None brings a file of this user into
// the archive.
func TestNamedLinks(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	own, foreign := filepath.Join(dir, "own"), filepath.Join(dir, "foreign")
	must.OK(t, errors.Join(os.Mkdir(own, 0o700), os.Mkdir(foreign, 0o700), os.WriteFile(filepath.Join(own, "secret.json"), []byte("{}"), 0o600),
		os.Symlink(filepath.Join(own, "secret.json"), filepath.Join(foreign, "results.json")), os.Symlink(own, filepath.Join(foreign, "run"))))
	for _, path := range []string{"foreign/results.json", "foreign/run", "foreign/run/", "foreign/run/secret.json", "foreign/run/../own/secret.json"} {
		files, err := (&Study{}).ListFiles([]string{dir + "/" + path})
		if path == "foreign/run/../own/secret.json" { // foreign/own/secret.json, as the shell's cd reads it
			if err == nil {
				t.Errorf("%s: %q", path, files)
			}
			continue
		}
		if _, named := errors.AsType[*FileError](err); !named || !strings.Contains(err.Error(), "is a symbolic link") {
			t.Errorf("%s: %q, %v", path, files, err)
		}
	}
	s := &Study{}
	if files, err := s.ListFiles([]string{foreign, own}); err != nil || len(files) != 1 {
		t.Errorf("the links of a directory are followed: %q, %v", files, err)
	}
	if len(s.Skipped) != 2 || !strings.HasSuffix(s.Skipped[0], "foreign/results.json: it is a symbolic link") {
		t.Errorf("skipped: %q", s.Skipped)
	}
}
