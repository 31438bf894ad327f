package fetch

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// Known lists the programs that tare knows how to come by.
func Known() []Program { return []Program{Envoy(), Consul()} }

// Find finds a program by the name a mesh definition gives it: one of [Known],
// or any other by its name on PATH or its path. Of the others nothing is asked
// but that they can be executed; their Version is empty.
func Find(ctx context.Context, name string, opts Options) (Found, error) {
	for _, p := range Known() {
		if p.Name == name {
			return p.Find(ctx, opts)
		}
	}
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return Found{}, hinted{fmt.Errorf("find %q: %w", name, err), "install it, or give the mesh definition its path"}
	}
	return locate(path, "", "PATH")
}
