package kubecli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
)

const (
	// readyWithin bounds the wait for the API server of a new cluster.
	readyWithin = 5 * time.Minute
	// endWithin is the time that a provider has to remove what it began after an interrupt.
	endWithin = 30 * time.Second
)

// provider is a program that creates clusters on this machine. It makes the context NAME-CLUSTER the current one.
type provider struct {
	name, install string
	create        func(name string, nodes int) proc.Command
	image         string // option --image for a version of Kubernetes
	remove        string // the command that deletes the cluster of the name that follows it
}

var providers = []provider{
	{
		name: "kind", install: "go install sigs.k8s.io/kind@latest", image: "kindest/node:v%s", remove: "kind delete cluster --name ",
		create: func(name string, nodes int) proc.Command {
			return proc.Command{Path: "kind", Args: []string{"create", "cluster", "--name", name, "--config", "-", "--wait", "5m"}, Stdin: strings.NewReader(kindConfig(nodes))}
		},
	},
	{
		name: "k3d", install: "go install github.com/k3d-io/k3d/v5@latest", image: "rancher/k3s:v%s-k3s1", remove: "k3d cluster delete ",
		create: func(name string, nodes int) proc.Command {
			return proc.Command{Path: "k3d", Args: []string{"cluster", "create", name, "--agents", fmt.Sprint(nodes - 1), "--k3s-arg", "--disable=traefik@server:*", "--wait", "--timeout", "5m"}}
		},
	},
}

// kindConfig has a control plane for one node, or that many workers beside a control plane that runs no pods.
func kindConfig(nodes int) string {
	text := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n"
	if nodes > 1 {
		text += strings.Repeat("- role: worker\n", nodes)
	}
	return text
}

// A name or version never begins with a dash: it cannot become an option.
var (
	clusterName    = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$`)
	clusterVersion = regexp.MustCompile(`^[0-9][0-9.]*$`)
)

func newClusterCreate(c *cli.CommandLine, f *clusterFlags) *cobra.Command {
	var with, name, version string
	var nodes int
	var dryRun bool
	names := lists.Map(providers, func(p provider) string { return p.name })
	cmd := &cobra.Command{
		Use:   "create --with PROVIDER",
		Short: "Create a cluster with kind or k3d, and mark it as disposable",
		Long: `create runs kind or k3d, which adds a context to the kubeconfig and makes it the current
one, and marks the cluster as disposable. The provider's own program deletes it.`,
		Example: `  tare cluster create --with kind
  tare cluster create --with k3d --nodes 3 --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var p provider
			for _, known := range providers {
				if known.name == with {
					p = known
				}
			}
			version = strings.TrimPrefix(version, "v")
			switch {
			case p.name == "":
				return hint.Usage(fmt.Errorf("--with %q is not a provider", with), "providers: "+strings.Join(names, ", "))
			case f.options.Context != "":
				return hint.Usage(errors.New("--context cannot be chosen"), "the provider names it")
			case !clusterName.MatchString(name):
				return hint.Usage(fmt.Errorf("--name %q is not a name of a cluster", name), "write 1 to 32 lower-case letters, digits and dashes, beginning with a letter")
			case nodes < 1:
				return hint.Usage(fmt.Errorf("--nodes %d is not a number of nodes", nodes), "write 1 or more")
			case version != "" && !clusterVersion.MatchString(version):
				return hint.Usage(fmt.Errorf("--version %q is not a version of Kubernetes", version), "for example --version 1.36.1")
			}
			create := p.create(name, nodes)
			if version != "" {
				create.Args = append(create.Args, "--image", fmt.Sprintf(p.image, version))
			}
			if dryRun {
				fmt.Fprint(c.Out, create)
				if p.name == "kind" {
					fmt.Fprintf(c.Out, " <<'END'\n%sEND", kindConfig(nodes))
				}
				fmt.Fprintf(c.Out, "\n# then: tare cluster adopt --context %s-%s\n", p.name, name)
				return nil
			}
			return clusterCreate(cmd.Context(), c, p, name, create, f.options.Kubeconfig)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&with, "with", "", "`provider`: "+strings.Join(names, ", "))
	flags.StringVar(&name, "name", "tare", "name of the cluster")
	flags.IntVar(&nodes, "nodes", 1, "nodes for pods")
	flags.StringVar(&version, "version", "", "`version` of Kubernetes; default: the provider's")
	flags.BoolVar(&dryRun, "dry-run", false, "print the command, and do nothing")
	_ = cmd.RegisterFlagCompletionFunc("with", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// clusterCreate runs the provider's program, which refuses a name in use, and marks the new cluster.
func clusterCreate(ctx context.Context, c *cli.CommandLine, p provider, name string, create proc.Command, kubeconfig string) error {
	if _, err := exec.LookPath(p.name); err != nil {
		return hint.New("install it: "+p.install, "%s is not on PATH", p.name)
	}
	defer c.WhileInterrupted(nil, cli.Undoing)()
	cmd := exec.CommandContext(ctx, create.Path, create.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = create.Stdin, c.Err, c.Err
	if kubeconfig != "" {
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	}
	// Not killed: a program that is interrupted removes what it has begun.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) }
	cmd.WaitDelay = endWithin
	fmt.Fprintf(c.Err, "+ %s\n", create)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w", create, err)
	}
	remove := "delete it: " + p.remove + name
	options := cluster.Options{Kubeconfig: kubeconfig, Context: p.name + "-" + name}
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := markNew(within, options); err != nil {
		return hint.Wrap(fmt.Errorf("the cluster was created, and cannot be marked as disposable: %w", err), remove)
	}
	fmt.Fprintf(c.Out, `%s cluster %s: ready
context %s: the current one, marked as disposable
next: tare cluster image load --to %s:%s
      tare run FILE --set platform.kind=kubernetes
%s
`, p.name, name, options.Context, p.name, name, remove)
	return nil
}

// markNew waits for the API server, and marks the cluster with what runs on it.
func markNew(ctx context.Context, options cluster.Options) error {
	var k *cluster.Cluster
	err := wait.Until(ctx, time.Second, func(ctx context.Context) (err error) {
		k, err = cluster.Connect(ctx, options)
		return err
	})
	if err != nil {
		return err
	}
	foreign, err := guard.New(k).Foreign(ctx)
	if err != nil {
		return err
	}
	_, err = guard.New(k).Adopt(ctx, foreign)
	return err
}
