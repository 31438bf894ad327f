package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// Kubernetes is everything that needs the Kubernetes libraries. cmd/tare-kube passes it in, but cmd/tare has none.
type Kubernetes struct {
	// The commands, without their summaries: those are in the table below.
	Cluster, Mesh, Cleanup, Image func(*CommandLine) *cobra.Command

	// Open opens the platform for a run.
	Open func(context.Context, *CommandLine, Opening) (*Opened, error)
	// DryRun prints the manifests and commands of one trial of each treatment.
	DryRun func(context.Context, *CommandLine, *Study, Opening) error
	// Generators replaces load generators by those in images, for an experiment whose load is sent from the cluster.
	Generators func(*experiment.Experiment, map[string]generator.Generator) (map[string]generator.Generator, error)
	// Copy reads the application that runs in a namespace.
	Copy func(ctx context.Context, p experiment.Platform, namespace string) (*manifest.Set, error)
	// Kustomize renders the kustomization in a directory.
	Kustomize manifest.Render
	// Examine checks the cluster of an experiment.
	Examine func(context.Context, *CommandLine, *Study) []health.Row
}

// kubernetesCommand is a command that tare hands over to tare-kube.
type kubernetesCommand struct {
	name, short string
	of          func(*Kubernetes) func(*CommandLine) *cobra.Command
}

// newCommand is the command itself where the Kubernetes libraries are, and a stub elsewhere.
func (k kubernetesCommand) newCommand(c *CommandLine) *cobra.Command {
	var cmd *cobra.Command
	if c.kubernetes == nil {
		cmd = c.newStub(k.name)
	} else {
		cmd = k.of(c.kubernetes)(c)
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

// needs hands this command over to tare-kube if the experiment runs on a cluster and this program cannot.
// It must come before anything that has an effect.
func (c *CommandLine) needs(x *experiment.Experiment) error {
	if x.Platform.Kind != mesh.OnKubernetes || c.kubernetes != nil {
		return nil
	}
	return c.handOver.to(kubeProgram, c.handOver.args)
}
