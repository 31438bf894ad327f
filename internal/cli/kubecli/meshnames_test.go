package kubecli

import (
	"errors"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Without a cluster no command of a mesh panics, whatever its mesh, and the mesh none is a mistake in all of them.
func TestMeshCommandsWithEveryMesh(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/absent")
	for _, name := range append(mesh.Names(), "absent") {
		for _, args := range [][]string{{"install", name, "--dry-run", "--charts", t.TempDir()}, {"verify", name}, {"uninstall", name}} {
			_, err := call(t, append([]string{"mesh"}, args...)...)
			var usage *hint.UsageError
			if err == nil {
				t.Errorf("mesh %q succeeds without a cluster", args)
			} else if name == "none" && (!errors.As(err, &usage) || !strings.Contains(err.Error(), "mesh none has nothing in a cluster")) {
				t.Errorf("mesh %q: %v", args, err)
			}
		}
	}
}
