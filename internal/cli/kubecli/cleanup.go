package kubecli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/leftover"
	"github.com/tare-mesh/tare/internal/kube/meshes"
)

// removeWithin bounds the removal of leftovers.
const removeWithin = 5 * time.Minute

// cleanup is the selection of leftovers to remove.
type cleanup struct {
	clusterFlags
	run       string
	namespace string
	all, yes  bool
}

func newCleanupCommand(c *cli.CommandLine) *cobra.Command {
	o := &cleanup{}
	cmd := &cobra.Command{
		Use: "cleanup",
		Long: `cleanup removes the objects of dead runs from a Kubernetes cluster: runs whose
process on this machine has ended. It lists them and asks for confirmation. Live
runs are kept. Runs from other machines need --run or --all.`,
		Example: `  tare cleanup --context k3d-tare
  tare cleanup --run r-4f2a --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.run != "" && o.all {
				return console.Usage(errors.New("--run and --all exclude each other"), "")
			}
			return cleanUp(cmd.Context(), c, o)
		},
	}
	o.add(cmd)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "existing `namespace` of the runs (platform.namespace); other namespaces are not checked")
	cmd.Flags().StringVar(&o.run, "run", "", "remove this `run`, from any machine")
	cmd.Flags().BoolVar(&o.all, "all", false, "remove every run, except live ones of this machine")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func cleanUp(ctx context.Context, c *cli.CommandLine, o *cleanup) error {
	k, err := o.connect(ctx)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, askCluster)
	defer cancel()
	found, err := leftovers(asking, k, o.namespace)
	var hidden *cluster.Unlisted
	if err != nil && !errors.As(err, &hidden) && len(found) == 0 {
		return err
	}
	if err != nil {
		fmt.Fprintf(c.Err, "tare: %v\n", err)
	}
	chosen, err := o.choose(found)
	if err != nil {
		return err
	}
	if rest := len(found) - len(chosen); rest > 0 {
		fmt.Fprintf(c.Out, "%s: left alone: %s", k.Name(), leftoverLines(slices.DeleteFunc(slices.Clone(found), func(l leftover.Run) bool {
			return slices.ContainsFunc(chosen, func(o leftover.Run) bool { return o.ID == l.ID })
		})))
	}
	if len(chosen) == 0 {
		fmt.Fprintf(c.Out, "%s: nothing to remove\n", k.Name())
		printAbandoned(asking, c, k)
		return nil
	}
	fmt.Fprintf(c.Out, "%s: to be removed, with all that is in the namespaces: %s", k.Name(), leftoverLines(chosen))
	if err := c.Confirm("remove it", o.yes); err != nil {
		return err
	}
	removing, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	if err := leftover.Delete(removing, k, func(s string) { fmt.Fprintf(c.Err, "tare: %s\n", s) }, chosen...); err != nil {
		return err
	}
	if err := o.prove(removing, c, k, chosen); err != nil {
		return err
	}
	printAbandoned(removing, c, k)
	return nil
}

// printAbandoned names the meshes that dead runs have installed. Without permission to list them it prints nothing.
func printAbandoned(ctx context.Context, c *cli.CommandLine, k *cluster.Cluster) {
	all, _ := meshes.Installed(ctx, k)
	all = slices.DeleteFunc(all, func(i meshes.Installation) bool { return !i.Abandoned() })
	if len(all) > 0 {
		fmt.Fprintf(c.Out, "still installed:\n%s", meshLines(all))
	}
}

// prove lists the objects of removed runs again, of every kind that the cluster has.
func (o *cleanup) prove(ctx context.Context, c *cli.CommandLine, k *cluster.Cluster, removed []leftover.Run) error {
	left, err := leftover.Remaining(ctx, k, o.namespace, removed...)
	if len(left) > 0 {
		var names []string
		for _, ref := range left {
			names = append(names, ref.String())
		}
		return fmt.Errorf("left in the cluster: %s", strings.Join(names, ", "))
	}
	var hidden *cluster.Unlisted
	if errors.As(err, &hidden) {
		fmt.Fprintf(c.Out, "removed; not checked: %v\n", hidden)
		return nil
	}
	if err != nil {
		return fmt.Errorf("check that all is removed: %w", err)
	}
	fmt.Fprintln(c.Out, "removed: no object of a removed run is left")
	return nil
}

// choose selects the runs to remove. A live run of this machine is removed only by name.
func (o *cleanup) choose(found []leftover.Run) ([]leftover.Run, error) {
	if o.run != "" {
		var runs []string
		for _, l := range found {
			if l.ID == o.run {
				return []leftover.Run{l}, nil
			}
			runs = append(runs, l.ID)
		}
		hint := "no run has anything in the cluster"
		if len(runs) > 0 {
			hint = "runs there are: " + strings.Join(runs, ", ")
		}
		if near, ok := strict.Nearest(o.run, runs); ok {
			hint = "did you mean " + near + "?"
		}
		return nil, console.Usage(fmt.Errorf("run %s has nothing in the cluster", o.run), hint)
	}
	return slices.DeleteFunc(slices.Clone(found), func(l leftover.Run) bool {
		state := l.State()
		return state == cluster.Alive || !o.all && state != cluster.Dead
	}), nil
}
