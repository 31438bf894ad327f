package kubecli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/image"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/kube/internal/session/kubernetes"
)

type imageOptions struct {
	agents []string // programs, one an architecture
	with   []string // NAME=PATH
	tag    string
	out    outfile.File
	to     string
}

func newClusterImage(c *cli.CommandLine) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build the image of tare-agent, and load it into a cluster",
		Long: `image makes the container image of tare-agent, which runs the services and sends
the load in a cluster, without a container engine: static programs, an
unprivileged user, no shell. The same programs make the same image, byte for byte.`,
		Example: `  tare cluster image load --to kind                              # build, and load into the kind cluster
  tare cluster image build -o tare-agent.tar                     # an archive that containerd, podman and docker import
  tare cluster image load --to registry --tag REGISTRY/tare-agent:v1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, sub := range []*cobra.Command{newImageBuildCommand(c), newImageLoadCommand(c)} {
		sub.Args = cli.UsageArgs(sub.Args)
		cmd.AddCommand(sub)
	}
	return cmd
}

func newImageBuildCommand(c *cli.CommandLine) *cobra.Command {
	o := imageOptions{out: "tare-agent.tar"}
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Write the image as an archive",
		Example: `  tare cluster image build                                       # tare-agent.tar
  tare cluster image build --agent amd64/tare-agent --agent arm64/tare-agent -o both.tar
  tare cluster image build --with vegeta=/usr/local/bin/vegeta   # a load generator beside it`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ref, images, err := o.build()
			if err != nil {
				return err
			}
			if err := saveImage(string(o.out), ref, images); err != nil {
				return err
			}
			for _, img := range images {
				digest, err := img.Digest()
				if err != nil {
					return err
				}
				fmt.Fprintf(c.Out, "%s %s %s\n", ref.Name(), img.Arch, digest)
			}
			fmt.Fprintf(c.Err, "tare: written to %s\n", o.out)
			return nil
		},
	}
	o.register(cmd)
	cmd.Flags().VarP(&o.out, "output", "o", "`file` to write")
	return cmd
}

func newImageLoadCommand(c *cli.CommandLine) *cobra.Command {
	var o imageOptions
	destinations := append(image.Destinations(), "registry")
	cmd := &cobra.Command{
		Use:   "load [ARCHIVE]",
		Short: "Load the image into a cluster, or push it to a registry",
		Long: `load loads an archive into the nodes of a cluster. Without an archive it builds the
image first. It pushes to a registry under the name in --tag, with the credentials of
your docker or podman configuration.`,
		Example: `  tare cluster image load --to k3d:weigh                         # the k3d cluster named weigh
  tare cluster image load --to containerd:/run/containerd/containerd.sock tare-agent.tar
  tare cluster image load --to registry --tag REGISTRY/tare-agent:v1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.to != "registry":
				return loadImage(cmd.Context(), c, o, strings.Join(args, ""))
			case len(args) > 0:
				return hint.Usage(errors.New("an archive cannot be pushed to a registry"), "omit ARCHIVE: tare builds and pushes the image")
			}
			return pushImage(cmd.Context(), c, o)
		},
	}
	o.register(cmd)
	cmd.Flags().StringVar(&o.to, "to", "", "`where`: "+strings.Join(destinations, ", ")+"; k3d:NAME, kind:NAME and containerd:SOCKET name which")
	_ = cmd.MarkFlagRequired("to")
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(destinations, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *imageOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.agents, "agent", nil, "`program` to put in, static; again for another architecture (default: the tare-agent beside tare)")
	f.StringArrayVar(&o.with, "with", nil, "another static program, `NAME=PATH`, e.g. a load generator; may be repeated")
	f.StringVar(&o.tag, "tag", kubernetes.DefaultImage(console.Version()), "`name` of the image (default localhost/tare-agent, tagged with this version)")
	f.Lookup("tag").DefValue = "" // the same help text in every build
	_ = cmd.MarkFlagFilename("agent")
}

func loadImage(ctx context.Context, c *cli.CommandLine, o imageOptions, archive string) error {
	to, err := image.ParseDestination(o.to)
	if err != nil {
		return hint.Usage(err, "or --to registry")
	}
	if archive == "" {
		ref, images, err := o.build()
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "tare-image-")
		if err != nil {
			return fmt.Errorf("write image archive: %w", err)
		}
		defer os.RemoveAll(dir)
		archive = filepath.Join(dir, "tare-agent.tar")
		if err := saveImage(archive, ref, images); err != nil {
			return err
		}
		fmt.Fprintf(c.Err, "tare: built %s for %s\n", ref.Name(), image.Architectures(images))
	} else if _, err := os.Stat(archive); err != nil {
		return fmt.Errorf("load image: %w", err)
	}
	if err := to.Load(ctx, archive); err != nil {
		return err
	}
	fmt.Fprintf(c.Err, "tare: loaded into %s\n", o.to)
	return nil
}

func saveImage(path string, ref name.Tag, images []image.Image) error {
	return outfile.Write(path, 0o644, func(w io.Writer) error { return image.WriteArchive(w, ref, images) })
}

func pushImage(ctx context.Context, c *cli.CommandLine, o imageOptions) error {
	ref, images, err := o.build()
	if err != nil {
		return err
	}
	digest, err := image.Push(ctx, ref, images)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Out, digest)
	return nil
}

// build makes an image of each agent that was named.
func (o imageOptions) build() (name.Tag, []image.Image, error) {
	ref, err := image.Reference(o.tag)
	if err != nil {
		return ref, nil, hint.Usage(err, "write --tag NAME:VERSION")
	}
	if len(o.agents) == 0 {
		o.agents = []string{generator.AgentPath()}
	}
	var others []image.Program
	for _, w := range o.with {
		n, p, ok := strings.Cut(w, "=")
		if !ok {
			return ref, nil, hint.Usage(fmt.Errorf("--with %s: no program", w), "write --with NAME=PATH")
		}
		others = append(others, image.Program{Name: n, Path: p})
	}
	var images []image.Image
	for _, agent := range o.agents {
		img, err := image.Build(append([]image.Program{{Name: "tare-agent", Path: agent}}, others...),
			map[string]string{"org.opencontainers.image.title": "tare-agent", "org.opencontainers.image.version": console.Version()})
		if err != nil {
			return ref, nil, err
		}
		images = append(images, img)
	}
	return ref, images, nil
}
