// Package companion finds tare's other programs: beside this one, or in PATH.
package companion

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// Path returns the path of a program beside this one, else in PATH. Without any it is the name.
func Path(name string) string {
	path, _ := Locate(name)
	return path
}

// Locate is [Path], and whether the program is beside this one: both are then of one build.
func Locate(name string) (path string, beside bool) {
	if self, err := os.Executable(); err == nil {
		// kubectl's plugins and Homebrew's programs are links to a directory with all programs.
		if to, err := filepath.EvalSymlinks(self); err == nil {
			self = to
		}
		if path := filepath.Join(filepath.Dir(self), name); executable(path) {
			return path, true
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, false
	}
	return name, false
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Program is one of tare's programs.
type Program struct {
	Name    string
	Env     string // variable that overrides where it is searched
	Install string // hint how to get it
}

// Kube is tare with large libraries.
var Kube = Program{Name: "tare-kube", Env: "TARE_KUBE",
	Install: "build it with `make build-kube`, or put it beside tare from the same release, or set TARE_KUBE to its path"}

// Find looks where the program's variable points, beside this program, and in PATH.
func (p Program) Find() (string, error) {
	if path := os.Getenv(p.Env); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", hint.New(p.Install, "%s: %w", p.Env, err)
		}
		return found, nil
	}
	found, err := exec.LookPath(Path(p.Name))
	if err != nil {
		return "", hint.New(p.Install, "this needs %s, which is neither beside tare nor in PATH", p.Name)
	}
	return found, nil
}
