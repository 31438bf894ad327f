package importer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A link in a directory of another person, which a shell's * names, does not bring a file of this user into the archive.
func TestNamedLink(t *testing.T) {
	dir := t.TempDir()
	secret, link := filepath.Join(dir, "secret"), filepath.Join(dir, "results.json")
	if err := errors.Join(os.WriteFile(secret, []byte("{}"), 0o600), os.Symlink(secret, link)); err != nil {
		t.Fatal(err)
	}
	files, err := (&Study{}).ListFiles([]string{link})
	if _, named := errors.AsType[*FileError](err); !named || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("%q, %v", files, err)
	}
}
