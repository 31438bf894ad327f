// Package kubecli has the commands that need the Kubernetes libraries.
package kubecli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/show/plot"
	"github.com/tare-mesh/tare/internal/show/push"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/internal/leftover"
	"github.com/tare-mesh/tare/kube/internal/meshes"
	"github.com/tare-mesh/tare/kube/internal/rbac"
	"github.com/tare-mesh/tare/kube/internal/session/kubernetes"
)

// askCluster bounds the requests of one command to a cluster.
const askCluster = time.Minute

type clusterFlags struct{ options cluster.Options }

func (f *clusterFlags) add(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.options.Kubeconfig, "kubeconfig", "", "kubeconfig to read (default $KUBECONFIG, then ~/.kube/config)")
	cmd.PersistentFlags().StringVar(&f.options.Context, "context", "", "context in it (default the current one)")
}

func (f *clusterFlags) connect(ctx context.Context) (*cluster.Cluster, error) {
	return cluster.Connect(ctx, f.options)
}

func newClusterCommand(c *cli.CommandLine) *cobra.Command {
	f := &clusterFlags{}
	cmd := &cobra.Command{
		Use: "cluster create|status|adopt|release|rbac|image|cleanup",
		Long: `cluster inspects a Kubernetes cluster. tare measures only on a cluster that is
marked as disposable: a run disturbs other workloads, and they distort its figures.`,
		Example: `  tare cluster create --with k3d --nodes 3
  tare cluster status --context k3d-tare
  tare cluster adopt                     # show what runs there, then mark it
  tare cluster rbac --subject user:jo | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	connected := []*cobra.Command{newClusterCreate(c, f), newClusterStatus(c, f), newClusterAdopt(c, f), newClusterRelease(c, f), newClusterRBAC(c, f), newClusterCleanup(c, f)}
	for _, sub := range connected {
		f.add(sub)
	}
	for _, sub := range append(connected, newClusterImage(c)) {
		sub.Args = cli.UsageArgs(sub.Args)
		cmd.AddCommand(sub)
	}
	return cmd
}

func newClusterStatus(c *cli.CommandLine, f *clusterFlags) *cobra.Command {
	namespace := ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print nodes, current run, disposable mark, other workloads, leftovers of runs, and missing RBAC permissions",
		Example: `  tare cluster status
  tare cluster status --context k3d-tare --namespace tare-trials`,
		Args: cobra.NoArgs,
		RunE: onCluster(f, func(ctx context.Context, k *cluster.Cluster) error {
			return clusterStatus(ctx, c, k, namespace)
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "check permissions and leftovers in this `namespace` only (platform.namespace)")
	return cmd
}

// mostSimulated simulated nodes are named.
const mostSimulated = 5

// clusterStatus prints the state of a cluster, with an error in place of each part that cannot be read.
func clusterStatus(ctx context.Context, c *cli.CommandLine, k *cluster.Cluster, namespace string) error {
	version, err := k.Version(ctx)
	if err != nil {
		return err
	}
	var nodes [][]string
	err = k.Retry(ctx, "list nodes", func(ctx context.Context) error {
		list, err := k.Typed().CoreV1().Nodes().List(ctx, cluster.RealNodes())
		if err != nil {
			return err
		}
		nodes = nil
		for _, n := range list.Items {
			nodes = append(nodes, []string{n.Name, n.Status.Allocatable.Cpu().String(), fmt.Sprintf("%.1f GiB", n.Status.Allocatable.Memory().AsApproximateFloat64()/(1<<30)),
				n.Status.NodeInfo.Architecture, n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.KernelVersion})
		}
		return nil
	})
	fmt.Fprintf(c.Out, "%s, Kubernetes %s\n", k.Name(), version)
	if err != nil {
		fmt.Fprintf(c.Out, "nodes: %v\n", err)
	} else if err := c.Table([]string{"NODE", "CPU", "MEMORY", "ARCHITECTURE", "KUBELET", "KERNEL"}, nodes); err != nil {
		return err
	}
	if simulated, err := k.SimulatedNodes(ctx); err != nil {
		fmt.Fprintf(c.Out, "simulated nodes: unknown: %v\n", err)
	} else if len(simulated) > 0 {
		fmt.Fprintf(c.Out, "simulated nodes, in no figure: %s\n", printable.Listed(slices.Sorted(maps.Keys(simulated)), mostSimulated))
	}
	for _, part := range []struct {
		name string
		text func(context.Context, *cluster.Cluster) (string, error)
	}{
		{"held by", holderText}, {"mark", markText},
		{"other workloads", func(ctx context.Context, k *cluster.Cluster) (string, error) {
			all, err := guard.New(k).Foreign(ctx)
			return listed(all, err, "none", workloadLines)
		}},
		{"runs", func(ctx context.Context, k *cluster.Cluster) (string, error) { return leftoverText(ctx, k, namespace) }},
		{"meshes", func(ctx context.Context, k *cluster.Cluster) (string, error) {
			all, err := meshes.Installed(ctx, k)
			return listed(all, err, "none installed by tare", meshLines)
		}},
		{"RBAC permissions", func(ctx context.Context, k *cluster.Cluster) (string, error) {
			missing, err := rbac.Missing(ctx, k, namespace)
			return listed(missing, err, "none missing", permissionLines)
		}},
	} {
		text, err := part.text(ctx, k)
		if ctx.Err() != nil {
			return fmt.Errorf("look at %s: %w", part.name, ctx.Err())
		}
		if err != nil {
			text += "unknown: " + err.Error() + "\n"
		}
		fmt.Fprintf(c.Out, "\n%s: %s", part.name, text)
	}
	return nil
}

// holderText is the run that measures on the cluster now.
func holderText(ctx context.Context, k *cluster.Cluster) (string, error) {
	h, held, err := guard.New(k).Holder(ctx)
	if err != nil {
		return "", err
	}
	if !held {
		return "no run\n", nil
	}
	return fmt.Sprintf("%s\n  renewed at %s\n", h, h.Renewed.UTC().Format(time.RFC3339)), nil
}

func markText(ctx context.Context, k *cluster.Cluster) (string, error) {
	m, marked, err := guard.New(k).Mark(ctx)
	if err != nil {
		return "", err
	}
	if !marked {
		return "none: tare run refuses it (`tare cluster adopt` marks it)\n", nil
	}
	return fmt.Sprintf("disposable, by %s on %s at %s, with %d other workloads\n", m.By, m.Host, m.Time.Format(time.RFC3339), len(m.Workloads)), nil
}

// listed are the lines of a list, or none if it is empty.
func listed[T any](all []T, err error, none string, lines func([]T) string) (string, error) {
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return none + "\n", nil
	}
	return lines(all), nil
}

func leftoverText(ctx context.Context, k *cluster.Cluster, namespace string) (string, error) {
	all, err := leftover.Find(ctx, k, namespace)
	if _, ok := errors.AsType[*cluster.Unlisted](err); ok && len(all) > 0 {
		return leftoverLines(all), err
	}
	return listed(all, err, "none", leftoverLines)
}

// meshLines describes installed meshes, and how to uninstall the meshes of dead runs.
func meshLines(all []meshes.Installation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", len(all))
	for _, i := range all {
		fmt.Fprintf(&b, "  mesh %s %s in namespace %s", i.Mesh, i.Version, i.Namespace)
		if i.Abandoned() {
			remedy := "the next run uninstalls it, or `tare cluster cleanup`"
			if _, err := i.Definition(); err != nil {
				remedy = "`tare mesh uninstall " + i.Mesh + " --mesh FILE` uninstalls it"
			}
			fmt.Fprintf(&b, ", a leftover of %s, which has ended: %s", i.Origin(), remedy)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func permissionLines(missing []rbac.Permission) string {
	var b strings.Builder
	b.WriteString("missing (`tare cluster rbac` prints the manifest that grants them)\n")
	for _, r := range missing {
		fmt.Fprintf(&b, "  %s %s: %s\n", strings.Join(r.Verbs, ", "), strings.Join(r.Resources, ", "), r.Without)
	}
	return b.String()
}

func leftoverLines(all []leftover.Run) string { return strconv.Itoa(len(all)) + "\n" + runLines(all) }

func runLines(all []leftover.Run) string {
	var b strings.Builder
	for _, l := range all {
		fmt.Fprintf(&b, "  %s: %s, %s\n", l.ID, l.State(), l.Owner)
		for _, o := range l.Objects {
			fmt.Fprintf(&b, "    %s\n", o)
		}
		for _, namespace := range l.InPlace() {
			fmt.Fprintf(&b, "    measured in place: namespace %s is restored, and its workloads restart\n", namespace)
		}
	}
	return b.String()
}

func newClusterAdopt(c *cli.CommandLine, f *clusterFlags) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Mark the cluster as disposable, after showing what runs on it",
		Long: `adopt marks the cluster as disposable, with an annotation on its namespace
kube-system. It lists and accepts the workloads that run there now. If others are deployed
later, tare run refuses the cluster.`,
		Example: "  tare cluster adopt --context k3d-tare",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.RunE = onCluster(f, func(ctx context.Context, k *cluster.Cluster) error {
		all, err := guard.New(k).Foreign(ctx)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			fmt.Fprintf(c.Out, "%s: no other workloads run on it\n", k.Name())
		} else {
			fmt.Fprintf(c.Out, "%s: other workloads: %s", k.Name(), workloadLines(all))
		}
		if err := c.Confirm("mark it as disposable", yes); err != nil {
			return err
		}
		if _, err := guard.New(k).Adopt(ctx, all); err != nil {
			return err
		}
		fmt.Fprintln(c.Out, "marked as disposable; `tare cluster release` removes the mark")
		return nil
	})
	return cmd
}

func workloadLines(all []guard.Workload) string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(len(all)) + "\n")
	for _, w := range all {
		fmt.Fprintf(&b, "  %s\n", w)
	}
	return b.String()
}

func newClusterRelease(c *cli.CommandLine, f *clusterFlags) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Remove the mark of a disposable cluster",
		Long:  "release removes the mark. It refuses a cluster on which a run measures now.",
		Example: `  tare cluster release --context k3d-tare
  tare cluster release --yes             # even while a run measures`,
		Args: cobra.NoArgs,
		RunE: onCluster(f, func(ctx context.Context, k *cluster.Cluster) error {
			g := guard.New(k)
			if err := g.Free(ctx); err != nil && !yes {
				return hint.Wrap(err, "wait until it ends; --yes removes the mark now, and the run cannot be resumed")
			}
			if err := g.Release(ctx); err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "%s is not marked as disposable\n", k.Name())
			return nil
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "remove the mark even while a run measures")
	return cmd
}

// onCluster connects, and runs a command with the deadline askCluster.
func onCluster(f *clusterFlags, do func(context.Context, *cluster.Cluster) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), askCluster)
		defer cancel()
		k, err := f.connect(ctx)
		if err != nil {
			return err
		}
		return do(ctx, k)
	}
}

func newClusterRBAC(c *cli.CommandLine, f *clusterFlags) *cobra.Command {
	var namespace, subject, file string
	var o cli.ExperimentOptions
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the manifest of the RBAC permissions that tare needs",
		Long: `rbac prints a ClusterRole and its binding. A comment at each rule has its purpose,
and the feature that fails without it. With --namespace it prints a Role. It needs no cluster.

With --for it prints what one experiment needs, derived from a dry run: the kinds that
it applies, charts and meshes included, and the rules of the roles that they create.
Kubernetes lets an account grant only permissions that it has.`,
		Example: `  tare cluster rbac --subject serviceaccount:ci/tare | kubectl apply -f -
  tare cluster rbac --for experiment.yaml --mesh istio --subject user:jo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := rbac.ParseSubject(subject)
			if err != nil {
				return hint.Usage(err, "for example --subject user:jo")
			}
			switch {
			case file == "" && (len(o.Set) > 0 || len(o.Meshes) > 0):
				return hint.Usage(errors.New("--set and --mesh need --for"), "add --for FILE")
			case file == "":
				return rbac.Write(c.Out, namespace, s)
			case namespace != "":
				return hint.Usage(errors.New("both --for and --namespace"), "platform.namespace of the file has the namespace")
			}
			o.ChooseMeshes()
			for field, value := range map[string]string{"kubeconfig": f.options.Kubeconfig, "context": f.options.Context} {
				if value != "" {
					o.Set = append(o.Set, "platform."+field+"="+strconv.Quote(value))
				}
			}
			study, err := c.Read(cmd.Context(), file, o)
			if err != nil {
				return err
			}
			needed, err := kubernetes.Permissions(cmd.Context(), study)
			if err != nil {
				return err
			}
			return rbac.WriteFor(c.Out, "RBAC permissions of experiment "+study.Experiment.Metadata.Name+". Apply with the permission to grant them: kubectl apply -f -", needed, s)
		},
	}
	o.Register(cmd)
	cmd.Flags().Lookup("mesh").Usage = "with --for: compare this mesh with none, by `name`, or add the file of a definition; may be repeated"
	cmd.Flags().StringVar(&file, "for", "", "print what the experiment in this `file` needs, and no more")
	_ = cmd.MarkFlagFilename("for", "yaml", "yml")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "grant the permissions in this `namespace` only")
	cmd.Flags().StringVar(&subject, "subject", "serviceaccount:default/tare", "`subject` of the binding: user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME")
	return cmd
}

// holding changes the cluster while no run measures there: it holds the cluster's Lease. Without permission for Leases
// it changes the cluster without one, as runs do.
func holding(ctx context.Context, c *cli.CommandLine, k *cluster.Cluster, as string, change func() error) error {
	defer c.WhileInterrupted(nil, cli.Undoing)()
	lease := guard.NewLease(k, as, "")
	if err := lease.Acquire(ctx); err != nil && !cluster.IsForbidden(err) {
		return err
	}
	err := change()
	return errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
}

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
			p, known := lists.First(providers, func(p provider) bool { return p.name == with })
			version = strings.TrimPrefix(version, "v")
			switch {
			case !known:
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
