// Package kubecli has the commands that need the Kubernetes libraries.
package kubecli

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/show/plot"
	"github.com/tare-mesh/tare/internal/show/push"
	"github.com/tare-mesh/tare/kube/internal/session/kubernetes"
)

// Kubernetes returns the part of the command line that only cmd/tare-kube has.
func Kubernetes() *cli.Kubernetes {
	return &cli.Kubernetes{
		Kubernetes: kubernetes.Program(),
		Commands: map[string]func(*cli.CommandLine) *cobra.Command{
			"cluster": newClusterCommand, "mesh": newMeshCommand,
		},
		DryRun: kubernetes.DryRun, Sidecars: kubernetes.Sidecars,
		Draw: plot.Draw, Push: push.Send,
		Examine: examine,
	}
}
