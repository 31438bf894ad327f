package cluster_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// A $KUBECONFIG that names a missing file is reported with the file.
func TestMissingKubeconfig(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", missing)
	if _, err := cluster.Connect(t.Context(), cluster.Options{}); err == nil || !strings.Contains(err.Error(), missing+", which does not exist") {
		t.Error(err)
	}
}
