package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wheelFile is the name of the Python wheel of a machine as Python names it.
func wheelFile(machine string) string {
	return "tare_mesh-0.0.9-py3-none-manylinux_2_17_" + machine + ".musllinux_1_1_" + machine + ".whl"
}

// pip installs the wheel without an index into an empty environment, where both programs have the release's version, and
// removes every file again.
func TestWheel(t *testing.T) {
	r := built(t)
	if !slices.Contains(targets, "linux/amd64") {
		t.Skip("TARGETS has no linux/amd64")
	}
	dir := filepath.Join(t.TempDir(), "environment")
	run(t, exec.Command("python3", "-m", "venv", dir))
	pip := filepath.Join(dir, "bin", "pip")
	run(t, exec.Command(pip, "install", "--no-index", filepath.Join(r.dir, wheelFile("x86_64"))))
	for _, name := range wheelPrograms {
		if got := run(t, exec.Command(filepath.Join(dir, "bin", name), "--version")); !strings.Contains(got, version) {
			t.Errorf("%s --version prints %q, want %s", name, got, version)
		}
	}
	run(t, exec.Command(pip, "uninstall", "--yes", "tare-mesh"))
	for _, name := range wheelPrograms {
		if _, err := os.Stat(filepath.Join(dir, "bin", name)); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", name, err)
		}
	}
}

var wheelPrograms = []string{"tare", "tare-agent"}
