// Package kubecli has the commands that need the Kubernetes libraries.
package kubecli

import (
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/session/kubernetes"
)

// Kubernetes returns the part of the command line that only cmd/tare-kube has.
func Kubernetes() *cli.Kubernetes {
	return &cli.Kubernetes{
		Kubernetes: kubernetes.Program(),
		Cluster:    newClusterCommand,
		Mesh:       newMeshCommand,
		Cleanup:    newCleanupCommand,
		Image:      newImageCommand,
		DryRun:     kubernetes.DryRun,
		Examine:    examine,
	}
}
