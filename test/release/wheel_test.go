package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/programtest"
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

// npmFile is the name of the package of npm of an architecture as Node names it.
func npmFile(arch string) string { return "tare-mesh-linux-" + arch + "-0.0.9.tgz" }

// npm installs the package without a registry into an empty directory, with both programs, and removes them again.
func TestNpm(t *testing.T) {
	r := built(t)
	if !slices.Contains(targets, "linux/amd64") {
		t.Skip("TARGETS has no linux/amd64")
	}
	npm, dir := programtest.Installed(t, "npm", programtest.PageScript), t.TempDir()
	in := func(args ...string) {
		run(t, exec.Command(npm, append(args, "--offline", "--no-audit", "--no-fund", "--prefix", dir)...))
	}
	in("install", filepath.Join(r.dir, npmFile("x64")))
	for _, name := range wheelPrograms {
		if got := run(t, exec.Command(filepath.Join(dir, "node_modules", ".bin", name), "--version")); !strings.Contains(got, version) {
			t.Errorf("%s --version prints %q, want %s", name, got, version)
		}
	}
	in("uninstall", "tare-mesh-linux-x64")
	if left, err := filepath.Glob(filepath.Join(dir, "node_modules", "*", "bin", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
