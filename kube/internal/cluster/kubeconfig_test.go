package cluster_test

import (
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// A $KUBECONFIG that names a missing file is reported with the file.
func TestMissingKubeconfig(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", missing)
	must.Fail(t, must.Err(cluster.Connect(t.Context(), cluster.Options{})), missing+", which does not exist")
}
