package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/test/must"
)

// The digest of a program follows its content, also where the path stays, and tare's own files have none.
func TestDigestsOfCommands(t *testing.T) {
	dir := t.TempDir()
	program, own := filepath.Join(dir, "server.py"), filepath.Join(dir, "own")
	must.OK(t, os.WriteFile(program, []byte("old"), 0o700))
	must.OK(t, os.WriteFile(own, nil, 0o600))
	cmd := proc.Command{Path: "sh", Args: []string{"server.py", "8080", own}, Dir: dir}
	digest := func() string {
		for _, d := range digestsOf(cmd, own) {
			switch d.word {
			case "server.py":
				return d.digest
			case own:
				t.Error("a file of tare's own has a digest")
			}
		}
		return ""
	}
	before := digest()
	must.OK(t, os.WriteFile(program, []byte("built again"), 0o700))
	if after := digest(); before == "" || after == "" || before == after {
		t.Errorf("digests %q and %q", before, after)
	}
	if found := digestsOf(cmd); found[0].word != "sh" || strings.TrimLeft(found[0].digest, "0123456789abcdef") != "" {
		t.Errorf("digests of the program: %+v", found)
	}
}
