package kubecli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/guard"
	"github.com/tare-mesh/tare/internal/kube/provider"
)

// readyWithin bounds the wait for the API server of a new cluster.
const readyWithin = 5 * time.Minute

func newClusterCreate(c *cli.CommandLine, f *clusterFlags) *cobra.Command {
	var s provider.Settings
	var with string
	var dryRun bool
	var doc strings.Builder
	for _, p := range provider.Providers() {
		fmt.Fprintf(&doc, "  %-14s%s\n", p.Name, p.Doc)
	}
	cmd := &cobra.Command{
		Use:   "create --with PROVIDER",
		Short: "Create a cluster with the program of its provider, and mark it as disposable",
		Long: `create runs the command-line program of a provider, which must be installed. The program
adds a context to the kubeconfig and makes it the current one. The cluster is marked as
disposable. For a cloud, --dry-run prints the commands: run them, then tare cluster adopt.

Providers:
` + doc.String(),
		Example: `  tare cluster create --with kind
  tare cluster create --with k3d --nodes 3 --dry-run
  tare cluster create --with gke --project mine --zone europe-west1-b --machine e2-standard-8 --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if with == "" {
				return hint.Usage(errors.New("--with is missing"), "providers: "+providerNames())
			}
			p, err := provider.Find(with)
			if err == nil {
				s, err = complete(p, s, f)
			}
			if err != nil {
				return hint.Usage(err, hint.Of(err))
			}
			if dryRun {
				return clusterDryRun(c, p, s)
			}
			if p.Cloud {
				return hint.New("run the commands that --dry-run prints, then: tare cluster adopt", "tare does not create clusters of %s itself", p.Name)
			}
			return clusterCreate(cmd.Context(), c, p, s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&with, "with", "", "`provider`: "+providerNames())
	flags.StringVar(&s.Name, "name", "tare", "name of the cluster")
	flags.IntVar(&s.Nodes, "nodes", 0, "nodes for pods (default 1, in a cloud 3)")
	flags.StringVar(&s.Machine, "machine", "", "machine `type` of the nodes, in a cloud: e2-standard-8")
	flags.StringVar(&s.Zone, "zone", "", "`zone`, location or region, in a cloud")
	flags.StringVar(&s.Version, "version", "", "`version` of Kubernetes; default: the provider's")
	flags.StringVar(&s.Project, "project", "", "project of the cluster (gke)")
	flags.BoolVar(&dryRun, "dry-run", false, "print the commands, and do nothing")
	_ = cmd.RegisterFlagCompletionFunc("with", cobra.FixedCompletions(strings.Split(providerNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func providerNames() string {
	return strings.Join(printable.Texts(provider.Providers(), func(p provider.Provider) string { return p.Name }), ", ")
}

func complete(p provider.Provider, s provider.Settings, f *clusterFlags) (provider.Settings, error) {
	if f.options.Context != "" {
		return s, errors.New("--context cannot be chosen: the provider names it")
	}
	s, err := p.Complete(s)
	if err != nil {
		return s, err
	}
	if f.options.Kubeconfig == "" {
		s.Kubeconfig, err = provider.DefaultKubeconfig()
	} else {
		s.Kubeconfig, err = filepath.Abs(f.options.Kubeconfig) // the record is read in other directories
	}
	return s, err
}

func clusterDryRun(c *cli.CommandLine, p provider.Provider, s provider.Settings) error {
	text, err := p.Commands(s, p.Creation())
	if err != nil {
		return err
	}
	after := "the mark of `tare cluster adopt`"
	if p.Cloud {
		after = "tare cluster adopt --kubeconfig " + s.Kubeconfig
	}
	fmt.Fprint(c.Out, text, "# then: ", after, "\n")
	return nil
}

func clusterCreate(ctx context.Context, c *cli.CommandLine, p provider.Provider, s provider.Settings) error {
	all, err := created(c)
	if err != nil {
		return err
	}
	defer c.WhileInterrupted(nil, cli.Undoing)()
	record, err := all.Create(ctx, p, s)
	if err != nil {
		return err
	}
	remove := "delete it: tare cluster delete " + s.Name
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if record.UID, err = markNew(within, record); err != nil {
		return hint.Wrap(fmt.Errorf("the cluster was created, and cannot be marked as disposable: %w", err), remove+" --unreachable")
	}
	if err := all.Records.Save(record); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, `%s cluster %s: %s, ready
context %s in %s: the current one, marked as disposable
next: %s
%s
`, p.Name, s.Name, printable.Counted(s.Nodes, "node"), record.Context, s.Kubeconfig, strings.Join(nextCommands(p, s), "\n      "), remove)
	return nil
}

// nextCommands load tare's image into a new cluster, and run an experiment with it.
func nextCommands(p provider.Provider, s provider.Settings) []string {
	const run = "tare run FILE --set platform.kind=kubernetes"
	switch {
	case p.Name == "kind" || p.Name == "k3d":
		return []string{"tare image load --to " + p.Name + ":" + s.Name, run}
	case p.Name == "k3s":
		return []string{"tare image load --to k3s", run}
	}
	return []string{"tare image build -o image.tar && tare-cluster load-image image.tar --name " + s.Name, run}
}

// markNew waits for the API server, marks the cluster, and returns its identity.
func markNew(ctx context.Context, r provider.Record) (string, error) {
	var k *cluster.Cluster
	err := wait.Until(ctx, time.Second, func(ctx context.Context) (err error) {
		k, err = cluster.Connect(ctx, cluster.Options{Kubeconfig: r.Settings.Kubeconfig, Context: r.Context})
		return err
	})
	if err != nil {
		return "", err
	}
	foreign, err := guard.New(k).Foreign(ctx)
	if err != nil {
		return "", err
	}
	if _, err := guard.New(k).Adopt(ctx, foreign); err != nil {
		return "", err
	}
	return identity(ctx, k)
}

func newClusterDelete(c *cli.CommandLine, _ *clusterFlags) *cobra.Command {
	var with string
	var yes, dryRun, unreachable bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a cluster that tare created",
		Long: `delete runs the command-line program of the provider. It refuses a cluster that tare did
not create, one that was replaced by another of its name, and one that a run holds.`,
		Example: `  tare cluster delete tare
  tare cluster delete tare --with k3d --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := created(c)
			if err != nil {
				return err
			}
			r, err := recordOf(all.Records, with, args[0])
			if err != nil {
				return err
			}
			p, err := provider.Find(r.Provider)
			if err != nil {
				return err
			}
			if dryRun {
				text, err := p.Commands(r.Settings, p.Deletion())
				fmt.Fprint(c.Out, text)
				return err
			}
			reached, err := deletable(cmd.Context(), r, unreachable)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.Err, r)
			if err := c.Confirm("delete it with everything on it", yes); err != nil {
				return err
			}
			if !yes { // a run can have begun meanwhile
				if reached, err = deletable(cmd.Context(), r, unreachable); err != nil {
					return err
				}
			}
			defer c.WhileInterrupted(nil, "")()
			if err := all.Delete(cmd.Context(), p, r, reached); err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "%s cluster %s: deleted\n", r.Provider, r.Settings.Name)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&with, "with", "", "`provider`, if several providers have a cluster of this name")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	flags.BoolVar(&dryRun, "dry-run", false, "print the commands, and do nothing")
	flags.BoolVar(&unreachable, "unreachable", false, "delete it without connecting to it, if it is unreachable or its creation failed")
	return cmd
}

// created are the clusters that tare created.
func created(c *cli.CommandLine) (provider.Clusters, error) {
	records, err := provider.OpenRecords()
	return provider.Clusters{Records: records, Out: c.Err, Now: time.Now}, err
}

// deletable refuses a cluster that is not the one in the record, or that a run holds. reached means that it answered.
func deletable(ctx context.Context, r provider.Record, unreachable bool) (reached bool, err error) {
	if r.Context == "" || r.UID == "" {
		if unreachable {
			return false, nil
		}
		return false, hint.New("if no other cluster of this name exists now, --unreachable deletes it without checking its identity",
			"%s: its creation failed, and the record has no identity of it", r)
	}
	ctx, cancel := context.WithTimeout(ctx, askCluster)
	defer cancel()
	k, err := cluster.Connect(ctx, cluster.Options{Kubeconfig: r.Settings.Kubeconfig, Context: r.Context})
	if err == nil {
		var uid string
		if uid, err = identity(ctx, k); err == nil && uid != r.UID {
			return false, hint.New("delete it with the program of its provider", "context %s is not the cluster that tare created on %s", r.Context, r.Created.Format(time.DateOnly))
		}
	}
	if err != nil {
		if unreachable {
			return false, nil
		}
		return false, hint.Wrap(fmt.Errorf("check that it is the cluster that tare created: %w", err), "--unreachable deletes it without checking its identity")
	}
	h, held, err := guard.New(k).Holder(ctx)
	if err != nil {
		return false, err
	}
	if held {
		return false, hint.New("wait for its end, or stop it", "a run holds the cluster: %s", h)
	}
	return true, nil
}

// optionsOf are the kubeconfig and context in the record of a cluster that tare created.
func optionsOf(flags cluster.Options, with, name string) (cluster.Options, error) {
	if flags.Kubeconfig != "" || flags.Context != "" {
		return flags, hint.Usage(errors.New("NAME has the kubeconfig and the context"), "leave out NAME, or --kubeconfig and --context")
	}
	records, err := provider.OpenRecords()
	if err != nil {
		return flags, err
	}
	r, err := recordOf(records, with, name)
	if err != nil {
		return flags, err
	}
	if r.Context == "" {
		return flags, hint.New("delete what was created: tare cluster delete "+name+" --unreachable", "%s: its creation failed", r)
	}
	return cluster.Options{Kubeconfig: r.Settings.Kubeconfig, Context: r.Context}, nil
}

// recordOf finds the record of a cluster that tare created.
func recordOf(records provider.Records, with, name string) (provider.Record, error) {
	if with != "" {
		r, err := records.Of(with, name)
		if errors.Is(err, fs.ErrNotExist) {
			return r, notCreated(records, with+" cluster "+name)
		}
		return r, err
	}
	all, err := records.All()
	if err != nil {
		return provider.Record{}, err
	}
	var found []provider.Record
	for _, r := range all {
		if r.Settings.Name == name {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return provider.Record{}, notCreated(records, "cluster "+name)
	}
	return provider.Record{}, hint.Usage(fmt.Errorf("clusters of several providers have the name %s", name), "add --with")
}

func notCreated(records provider.Records, what string) error {
	all, _ := records.All()
	names := printable.Texts(all, func(r provider.Record) string { return r.Settings.Name + " (" + r.Provider + ")" })
	text := "created by tare: " + strings.Join(names, ", ")
	if len(names) == 0 {
		text = "created by tare: none; the provider's own program deletes others"
	}
	return hint.New(text, "%s: tare did not create it", what)
}

// createdText is the record of a cluster. The UID decides: a context can belong to another cluster of the same name.
func createdText(ctx context.Context, k *cluster.Cluster) string {
	uid, err := identity(ctx, k)
	if err != nil {
		return "unknown: " + err.Error()
	}
	records, err := provider.OpenRecords()
	if err != nil {
		return "unknown: " + err.Error()
	}
	all, err := records.All()
	for _, r := range all {
		switch {
		case r.UID == "" && r.Context != "" && r.Context == k.Context():
			return fmt.Sprintf("probably, with %s: it was not marked (`tare cluster delete %s --unreachable` deletes it)", r.Provider, r.Settings.Name)
		case r.UID == uid:
			return fmt.Sprintf("yes, with %s on %s (`tare cluster delete %s` deletes it)", r.Provider, r.Created.Local().Format("2006-01-02 15:04"), r.Settings.Name)
		}
	}
	if err != nil {
		return "unknown: " + err.Error()
	}
	return "no"
}

// identity is the UID of a cluster's namespace kube-system.
func identity(ctx context.Context, k *cluster.Cluster) (uid string, err error) {
	err = k.Retry(ctx, "read namespace "+cluster.SystemNamespace, func(ctx context.Context) error {
		ns, err := k.Typed().CoreV1().Namespaces().Get(ctx, cluster.SystemNamespace, metav1.GetOptions{})
		if err == nil {
			uid = string(ns.UID)
		}
		return err
	})
	return uid, err
}

func newClusterList(c *cli.CommandLine) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the clusters that tare created",
		Example: "  tare cluster list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			records, err := provider.OpenRecords()
			if err != nil {
				return err
			}
			all, err := records.All()
			if err != nil {
				return err
			}
			var rows [][]string
			for _, r := range all {
				state := cmp.Or(r.Context, "not complete")
				rows = append(rows, []string{r.Settings.Name, r.Provider, fmt.Sprint(r.Settings.Nodes), r.Created.Local().Format("2006-01-02 15:04"), state, r.Settings.Kubeconfig})
			}
			return c.Table([]string{"NAME", "PROVIDER", "NODES", "CREATED", "CONTEXT", "KUBECONFIG"}, rows)
		},
	}
}
