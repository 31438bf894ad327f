package kubecli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/leftover"
	"github.com/tare-mesh/tare/kube/internal/meshes"
	"github.com/tare-mesh/tare/kube/internal/session/kubernetes"
)

// removeWithin bounds the removal of leftovers, and of each mesh.
const removeWithin = 5 * time.Minute

// cleanup is the selection of leftovers to remove.
type cleanup struct {
	*clusterFlags
	run       string
	namespace string
	all, yes  bool
}

func newClusterCleanup(c *cli.CommandLine, f *clusterFlags) *cobra.Command {
	o := &cleanup{clusterFlags: f}
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove leftovers of ended runs from a cluster",
		Long: `cleanup removes the objects and the meshes of ended runs from a Kubernetes cluster:
runs whose process on this machine has ended. It lists them and asks for confirmation.
Current runs are kept. Runs from other machines need --run or --all.`,
		Example: `  tare cluster cleanup --context k3d-tare
  tare cluster cleanup --run r-4f2a --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.run != "" && o.all {
				return hint.Usage(errors.New("--run and --all exclude each other"), "")
			}
			return cleanUp(cmd.Context(), c, o)
		},
	}
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
	found, err := leftover.Find(asking, k, o.namespace)
	var hidden *cluster.Unlisted
	if err != nil && !errors.As(err, &hidden) && len(found) == 0 {
		return err
	}
	if err != nil {
		fmt.Fprintf(c.Err, "tare: %v\n", err)
	}
	var installed []meshes.Installation
	var unlisted error // meshes that could not be listed: the rest is removed
	if o.namespace == "" {
		installed, unlisted = installedMeshes(asking, k)
	}
	chosen, uninstalled, err := o.choose(found, installed)
	if err != nil {
		return errors.Join(err, unlisted)
	}
	if rest := len(found) - len(chosen); rest > 0 {
		fmt.Fprintf(c.Out, "%s: kept: %s", k.Name(), leftoverLines(slices.DeleteFunc(slices.Clone(found), func(l leftover.Run) bool {
			return slices.ContainsFunc(chosen, func(o leftover.Run) bool { return o.ID == l.ID })
		})))
	}
	if len(chosen)+len(uninstalled) == 0 {
		if unlisted != nil {
			return unlisted
		}
		fmt.Fprintf(c.Out, "%s: nothing to remove\n", k.Name())
		return nil
	}
	fmt.Fprintf(c.Out, "%s: to be removed, with all that is in the namespaces: %d\n%s", k.Name(), len(chosen)+len(uninstalled), runLines(chosen))
	for _, i := range uninstalled {
		fmt.Fprintf(c.Out, "  %s: %s, %s\n    mesh %s in namespace %s\n", i.Origin(), i.Owner.State(), i.Owner, i.Mesh, i.Namespace)
	}
	if err := c.Confirm("remove it", o.yes); err != nil {
		return err
	}
	if !o.yes {
		// During the prompt a run may have begun, removed these, and made objects of the same names.
		if chosen, uninstalled, err = o.still(ctx, k, chosen, uninstalled); err != nil {
			return err
		}
		if len(chosen)+len(uninstalled) == 0 {
			fmt.Fprintf(c.Out, "%s: it is gone already, or a live run has it\n", k.Name())
			return unlisted
		}
	}
	removing, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	if err := leftover.Delete(removing, k, func(s string) { fmt.Fprintf(c.Err, "tare: %s\n", s) }, chosen...); err != nil {
		return errors.Join(err, unlisted)
	}
	if len(chosen) > 0 {
		err = o.prove(removing, c, k, chosen)
	}
	return errors.Join(err, unlisted, uninstall(ctx, c, k, uninstalled))
}

// still returns those runs and meshes that are still in the cluster and selected.
func (o *cleanup) still(ctx context.Context, k *cluster.Cluster, runs []leftover.Run, uninstalled []meshes.Installation) ([]leftover.Run, []meshes.Installation, error) {
	asking, cancel := context.WithTimeout(ctx, askCluster)
	defer cancel()
	found, err := leftover.Find(asking, k, o.namespace)
	if err != nil && !errors.As(err, new(*cluster.Unlisted)) {
		return nil, nil, err
	}
	found = slices.DeleteFunc(found, func(l leftover.Run) bool {
		return !o.selects(l.ID, l.State()) || !slices.ContainsFunc(runs, func(r leftover.Run) bool { return r.ID == l.ID })
	})
	if len(uninstalled) == 0 {
		return found, nil, nil
	}
	installed, err := installedMeshes(asking, k)
	installed = slices.DeleteFunc(installed, func(i meshes.Installation) bool {
		return !o.selects(i.Run, i.Owner.State()) || !slices.ContainsFunc(uninstalled, func(u meshes.Installation) bool { return u.Run == i.Run && u.Mesh == i.Mesh })
	})
	return found, installed, err
}

// installedMeshes lists the meshes that tare installed. Without permission there are none to remove.
func installedMeshes(ctx context.Context, k *cluster.Cluster) ([]meshes.Installation, error) {
	all, err := meshes.Installed(ctx, k)
	if cluster.IsForbidden(err) {
		return all, nil
	}
	return all, err
}

// uninstall uninstalls meshes of runs. One that fails does not keep the others.
func uninstall(ctx context.Context, c *cli.CommandLine, k *cluster.Cluster, all []meshes.Installation) error {
	var failed []error
	for _, i := range all {
		if err := uninstallOne(ctx, c, k, i); err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(c.Out, "removed: nothing of mesh %s is left\n", i.Mesh)
	}
	return errors.Join(failed...)
}

// uninstallOne uninstalls a mesh by the definition that it was installed by.
func uninstallOne(ctx context.Context, c *cli.CommandLine, k *cluster.Cluster, i meshes.Installation) error {
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	d, err := i.Definition()
	if err != nil {
		return hint.New("uninstall it with its definition: `tare mesh uninstall "+i.Mesh+" --mesh FILE`", "uninstall mesh %s: %w", i.Mesh, err)
	}
	m, err := meshes.New(k, d, i.Settings(), kubernetes.MeshOptions(experiment.MeshOptions{}, console.Version(), func(line string) { c.Notef("%s", line) }))
	if err != nil {
		return err
	}
	return holding(ctx, c, k, "cleanup-"+i.Mesh, func() error { return m.Uninstall(ctx, true) })
}

// prove lists the objects of removed runs again, of every kind that the cluster has.
func (o *cleanup) prove(ctx context.Context, c *cli.CommandLine, k *cluster.Cluster, removed []leftover.Run) error {
	left, err := leftover.Remaining(ctx, k, o.namespace, removed...)
	if len(left) > 0 {
		return fmt.Errorf("left in the cluster: %s", strings.Join(lists.Map(left, cluster.Ref.String), ", "))
	}
	if hidden, ok := errors.AsType[*cluster.Unlisted](err); ok {
		fmt.Fprintf(c.Out, "removed; not checked: %v\n", hidden)
		return nil
	}
	if err != nil {
		return fmt.Errorf("check that all is removed: %w", err)
	}
	fmt.Fprintln(c.Out, "removed: no object of a removed run is left")
	return nil
}

// choose selects the runs to remove, and the meshes that runs or interrupted commands left.
func (o *cleanup) choose(found []leftover.Run, installed []meshes.Installation) (runs []leftover.Run, uninstalled []meshes.Installation, err error) {
	var known []string
	for _, r := range found {
		known = append(known, r.ID)
		if o.selects(r.ID, r.State()) {
			runs = append(runs, r)
		}
	}
	for _, i := range installed {
		if i.Run != "" {
			known = append(known, i.Run)
		} else if !i.Incomplete {
			continue // by a user
		}
		if o.selects(i.Run, i.Owner.State()) {
			uninstalled = append(uninstalled, i)
		}
	}
	if o.run == "" || len(runs)+len(uninstalled) > 0 {
		return runs, uninstalled, nil
	}
	advice := "no run has anything in the cluster"
	if len(known) > 0 {
		advice = "runs there are: " + strings.Join(known, ", ")
	}
	if near, ok := strict.Nearest(o.run, known); ok {
		advice = "did you mean " + near + "?"
	}
	return nil, nil, hint.Usage(fmt.Errorf("run %s has nothing in the cluster", o.run), advice)
}

// selects reports whether a run's objects are removed. A live run of this machine is removed only by name.
func (o *cleanup) selects(run string, state cluster.State) bool {
	if o.run != "" {
		return run == o.run
	}
	return state == cluster.Dead || o.all && state != cluster.Alive
}
