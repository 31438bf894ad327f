package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/series"
)

// Kubernetes is everything that needs large libraries: of Kubernetes, for figures in files, for databases. cmd/tare-kube
// passes it in, but cmd/tare has none.
type Kubernetes struct {
	*session.Kubernetes
	// The commands, without their summaries: those are in the table below.
	Cluster, Mesh, Cleanup, Image func(*CommandLine) *cobra.Command

	// DryRun writes the manifests and commands of one trial of each treatment.
	DryRun func(ctx context.Context, s *session.Study, results string, to io.Writer) error
	// Examine checks the cluster of an experiment.
	Examine func(context.Context, *session.Study) []health.Row

	// Draw writes a figure of a page's data in a format: svg, pdf or png.
	Draw func(w io.Writer, data []byte, format string, d page.Drawing) error
	// Push sends time series to a database.
	Push func(ctx context.Context, to *series.Target, all []series.Series) error
}

// kubernetesCommand is a command that tare hands over to tare-kube.
type kubernetesCommand struct {
	name, short string
	build       func(*Kubernetes) func(*CommandLine) *cobra.Command
}

// newCommand is the command itself where the Kubernetes libraries are, and a stub elsewhere.
func (k kubernetesCommand) newCommand(c *CommandLine) *cobra.Command {
	cmd := c.newStub(k.name)
	if c.kubernetes != nil {
		if build := k.build(c.kubernetes); build != nil {
			cmd = build(c)
		}
	}
	cmd.Short = k.short
	return cmd
}

var (
	clusterCommand = kubernetesCommand{"cluster", "Create, inspect and delete a Kubernetes cluster, and mark it as disposable",
		func(k *Kubernetes) func(*CommandLine) *cobra.Command { return k.Cluster }}
	meshCommand = kubernetesCommand{"mesh", "Install, verify and uninstall a mesh in a Kubernetes cluster",
		func(k *Kubernetes) func(*CommandLine) *cobra.Command { return k.Mesh }}
	cleanupCommand = kubernetesCommand{"cleanup", "Remove leftovers of ended runs from a cluster",
		func(k *Kubernetes) func(*CommandLine) *cobra.Command { return k.Cleanup }}
	imageCommand = kubernetesCommand{"image", "Build the image of tare-agent, and load it into a cluster",
		func(k *Kubernetes) func(*CommandLine) *cobra.Command { return k.Image }}
)
