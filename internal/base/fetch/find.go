package fetch

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// Known lists the programs with a pinned source.
func Known() []Program { return []Program{Envoy(), Consul()} }

// Find finds a program by its name in a mesh definition: one of [Known], or any
// other by its path or its name on PATH. The others need only be executable,
// and their Version is empty.
func Find(ctx context.Context, name string, opts Options) (Found, error) {
	for _, p := range Known() {
		if p.Name == name {
			return p.Find(ctx, opts)
		}
	}
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return Found{}, hint.Wrap(fmt.Errorf("find %q: %w", name, err), "install it, or write its path in the mesh definition")
	}
	return locate(path, "", "PATH")
}

// At finds a program at a path or by a name on PATH, in place of the one that [Find] would choose. One of [Known] must
// print its version.
func At(ctx context.Context, name, path string) (Found, error) {
	at, err := exec.LookPath(path)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return Found{}, hint.Wrap(err, "build it, or correct the path")
	}
	for _, p := range Known() {
		if p.Name == name {
			f, err := p.try(ctx, at, "path")
			if err != nil {
				err = hint.Wrap(err, startHint("correct the path, or the program"))
			}
			return f, err
		}
	}
	return locate(at, "", "path")
}
