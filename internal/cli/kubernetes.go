package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/series"
)

// Kubernetes is everything that needs large libraries: of Kubernetes, for figures in files, for databases. cmd/tare-kube
// passes it in, but cmd/tare has none.
type Kubernetes struct {
	*session.Kubernetes
	// Commands by name, without their summaries, which the list of commands has.
	Commands map[string]func(*CommandLine) *cobra.Command

	// DryRun writes the manifests and commands of one trial of each treatment.
	DryRun func(ctx context.Context, s *session.Study, results string, to io.Writer) error
	// Examine checks the cluster of an experiment.
	Examine func(context.Context, *session.Study) []health.Row

	// Sidecars reads the sidecars that run in a namespace, with requests/s counted for a time; 0: without.
	Sidecars func(ctx context.Context, namespace string, window time.Duration) (predict.Sidecars, error)

	// Draw writes a figure of a page's data as SVG.
	Draw func(w io.Writer, data []byte, d page.Drawing) error
	// Push sends time series to a database.
	Push func(ctx context.Context, to *series.Target, all []series.Series) error
}

// kubernetesCommand returns a command that tare hands over to tare-kube: there the command itself, and elsewhere a stub.
func kubernetesCommand(name, short string) func(*CommandLine) *cobra.Command {
	return func(c *CommandLine) *cobra.Command {
		cmd := c.newStub(name)
		if c.kubernetes != nil && c.kubernetes.Commands[name] != nil {
			cmd = c.kubernetes.Commands[name](c)
		}
		cmd.Short = short
		return cmd
	}
}
