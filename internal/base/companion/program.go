package companion

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// Program is one of tare's programs.
type Program struct {
	Name    string
	Env     string // variable that overrides where it is searched
	Install string // hint how to get it
}

// Kube is tare with large libraries.
var Kube = New("kube")

// New returns the program tare-name.
func New(name string) Program {
	env := "TARE_" + strings.ToUpper(name)
	return Program{Name: "tare-" + name, Env: env,
		Install: fmt.Sprintf("build it with `make build-kube`, or put it beside tare from the same release, or set %s to its path", env)}
}

// Find looks where the program's variable points, beside this program, and in PATH, and builds it if `go install` built
// this one.
func (p Program) Find() (string, error) {
	if path := os.Getenv(p.Env); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", hint.New(p.Install, "%s: %w", p.Env, err)
		}
		return found, nil
	}
	note := func(line string) { fmt.Fprintln(os.Stderr, "tare: "+line) }
	if err := Install(context.Background(), p.Name, note); err != nil {
		return "", err
	}
	found, err := exec.LookPath(Path(p.Name))
	if err != nil {
		return "", hint.New(p.Install, "this needs %s, which is neither beside tare nor in PATH", p.Name)
	}
	return found, nil
}
