package kubecli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/internal/meshes"
	"github.com/tare-mesh/tare/kube/internal/platform/kube"
	"github.com/tare-mesh/tare/kube/internal/session/kubernetes"
)

type meshFlags struct {
	clusterFlags
	files    []string // of definitions
	file     string   // experiment file whose meshes: is taken
	choice   experiment.MeshOptions
	options  []string // name=value
	installs bool     // a mesh that is part of its cluster is refused
	gateway  bool     // what its ingress gateway needs comes with it
	timeout  time.Duration
	image    string // of tare-agent
}

func newMeshCommand(c *cli.CommandLine) *cobra.Command {
	f := &meshFlags{}
	cmd := &cobra.Command{
		Use: "mesh list|install|verify|uninstall",
		Long: `mesh installs, verifies and uninstalls meshes by their definitions. Charts come from
their repositories, or from a local directory (--charts). A run installs and removes
its meshes itself. Use these commands to inspect a mesh, or to install it once.`,
		Example: `  tare mesh list
  tare mesh install istio --profile ha
  tare mesh install linkerd --charts ./charts       # without internet access
  tare mesh verify istio --namespace shop
  tare mesh uninstall istio`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.add(cmd)
	cmd.PersistentFlags().StringArrayVar(&f.files, "mesh", nil, "add a mesh definition from a `file`, to be used by the name in it; may be repeated")
	_ = cmd.MarkPersistentFlagFilename("mesh", "yaml", "yml")
	for _, sub := range []*cobra.Command{newMeshList(c, f), newMeshInstall(c, f), newMeshVerify(c, f), newMeshUninstall(c, f)} {
		sub.Args = cli.UsageArgs(sub.Args)
		cmd.AddCommand(sub)
	}
	return cmd
}

func newMeshList(c *cli.CommandLine, f *meshFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the meshes for clusters, with their versions, profiles and options",
		Example: "  tare mesh list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := mesh.Collect(f.files...)
			if err != nil {
				return hint.InvalidFile(err)
			}
			return meshList(c, all)
		},
	}
}

func meshList(c *cli.CommandLine, all []mesh.Definition) error {
	var rows, options [][]string
	for _, d := range all {
		k := d.Kubernetes
		if k == nil {
			continue
		}
		rows = append(rows, []string{d.Name, k.Version, strings.Join(slices.Sorted(maps.Keys(k.Profiles)), ", "), cli.Provides(d.Provides), d.Description})
		for _, name := range slices.Sorted(maps.Keys(k.Options)) {
			o := k.Options[name]
			values := strings.Join(slices.DeleteFunc(slices.Clone(o.OneOf), func(s string) bool { return s == "" }), ", ")
			options = append(options, []string{d.Name, name, cmp.Or(o.Default, "-"), cmp.Or(values, "any"), o.Doc})
		}
	}
	if err := c.Table([]string{"MESH", "VERSION", "PROFILES", "PROVIDES", "DESCRIPTION"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(c.Out)
	return c.Table([]string{"MESH", "OPTION", "DEFAULT", "VALUES", "DESCRIPTION"}, options)
}

func newMeshInstall(c *cli.CommandLine, f *meshFlags) *cobra.Command {
	var dryRun, inUse bool
	cmd := &cobra.Command{
		Use:   "install NAME",
		Short: "Install a mesh and wait until its control plane is ready",
		Long: `install installs missing CRDs and the charts of a mesh, by its definition. If it fails,
it uninstalls them. The service CIDR is detected; set TARE_SERVICE_CIDR to override it.`,
		Example: `  tare mesh install istio --context k3d-tare
  tare mesh install istio-ambient --profile ha --version 1.31.0
  tare mesh install istio --charts ./charts --hub registry.example/istio --option mtls=PERMISSIVE
  tare mesh install istio --charts ./charts --dry-run > istio.yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: named,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := f.bounded(cmd.Context(), meshes.InstallWithin)
			defer cancel()
			f.installs = true
			if dryRun && f.gateway {
				return hint.Usage(errors.New("--dry-run prints the charts only, without --gateway"), "remove that flag")
			}
			if dryRun {
				return meshRender(ctx, c, f, args[0])
			}
			k, m, err := meshOn(ctx, c, f, args[0])
			if err != nil {
				return err
			}
			if !inUse {
				if err := guard.New(k).Check(ctx); errors.Is(err, guard.ErrInUse) {
					return hint.Wrap(err, "`tare cluster adopt` marks a disposable cluster; --in-use installs into this one as it is")
				} else if err != nil {
					return err
				}
			}
			var i meshes.Installation
			err = holding(ctx, c, k, "mesh-install-"+args[0], func() (err error) {
				i, err = m.Install(ctx)
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "mesh %s %s is installed in namespace %s of %s\n", i.Mesh, i.Version, i.Namespace, k.Name())
			return nil
		},
	}
	f.chosen(cmd)
	cmd.Flags().StringVar(&f.choice.Charts, "charts", "", "`directory` with the mesh's charts and CRDs, instead of their repositories")
	_ = cmd.MarkFlagDirname("charts")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the rendered charts without a cluster")
	cmd.Flags().BoolVar(&f.gateway, "gateway", false, "install the CRDs of the Gateway API too, for the ingress gateway")
	cmd.Flags().BoolVar(&inUse, "in-use", false, "install into a cluster that is not marked as disposable")
	return cmd
}

func meshRender(ctx context.Context, c *cli.CommandLine, f *meshFlags, name string) error {
	d, choice, err := meshChoice(ctx, c, f, name)
	if err != nil {
		return err
	}
	m, err := meshes.New(nil, d, choice.Settings(), kubernetes.MeshOptions(choice, console.Version(), func(line string) { c.Notef("%s", line) }))
	if err != nil {
		return hint.Usage(err, hint.Of(err))
	}
	all, err := m.Rendered(ctx)
	if err != nil {
		return err
	}
	if o := d.Kubernetes.Published; o != nil {
		if r, ok := all[o.Name]; ok {
			fmt.Fprintf(c.Out, "# objects of %s\n%s", o.Name, r.Manifest)
		} else {
			for _, f := range o.Files {
				fmt.Fprintf(c.Out, "# objects of %s\n# %s\n", o.Name, f.URL)
			}
		}
	}
	for _, chart := range d.Kubernetes.Charts {
		r := all[chart.Release]
		fmt.Fprintf(c.Out, "# chart %s %s as %s/%s\n%s", r.Chart, r.Version, r.Namespace, r.Name, r.Manifest)
	}
	return nil
}

func newMeshVerify(c *cli.CommandLine, f *meshFlags) *cobra.Command {
	var namespace, image string
	var outside bool
	cmd := &cobra.Command{
		Use:   "verify NAME",
		Short: "Verify a mesh: control plane, pods, proxy counters, mutual TLS",
		Long: `verify checks the control plane. With --namespace it also checks an application: a proxy
for each pod, requests and mutual TLS in the proxies' counters, and that plaintext is
refused if the mesh refuses it. The exit code is 1 if a check fails. The application must
have served requests before: verify itself sends only plaintext requests. If the mesh
admits traffic from nodes, as ambient does, a pod with tare-agent's image sends them.`,
		Example: `  tare mesh verify istio
  tare mesh verify istio-ambient --namespace shop --load-outside`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: named,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := f.bounded(cmd.Context(), time.Minute)
			defer cancel()
			f.image = image
			k, m, err := meshOn(ctx, c, f, args[0])
			if err != nil {
				return err
			}
			target := meshes.Target{Namespace: namespace, LoadInside: !outside}
			remove := func() error { return nil }
			if namespace != "" && m.AdmitsNodes() {
				defer c.WhileInterrupted(nil, cli.Undoing)()
				target.Plaintext, remove = plaintextClient(ctx, c, k, cmp.Or(image, kubernetes.DefaultImage(console.Version())))
			}
			checks, err := m.Verify(ctx, target)
			if err := errors.Join(err, remove()); err != nil {
				return err
			}
			return printChecks(c, args[0], checks)
		},
	}
	f.chosen(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the application")
	cmd.Flags().BoolVar(&outside, "load-outside", false, "check that the load generator is outside the mesh")
	cmd.Flags().StringVar(&image, "image", "", "`image` of tare-agent, for a pod outside the mesh (default: the image of this version)")
	return cmd
}

// chosen adds the flags for versions and options of a mesh.
func (f *meshFlags) chosen(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.choice.Version, "version", "", "version of the mesh (default: the definition's)")
	flags.StringVar(&f.choice.Profile, "profile", "", "`profile` (size) of the mesh: "+strings.Join(mesh.ProfileNames(), " or "))
	flags.StringVar(&f.choice.Hub, "hub", "", "`registry` of the mesh's images")
	flags.StringArrayVar(&f.options, "option", nil, "option of the mesh as `name=value`, see tare mesh list; may be repeated")
	flags.StringVarP(&f.file, "file", "f", "", "read the options from meshes: in an experiment `file`")
	flags.DurationVar(&f.timeout, "timeout", 0, "deadline of the command")
	_ = cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(mesh.ProfileNames(), cobra.ShellCompDirectiveNoFileComp))
}

func meshOn(ctx context.Context, c *cli.CommandLine, f *meshFlags, name string) (*cluster.Cluster, *meshes.Mesh, error) {
	d, choice, err := meshChoice(ctx, c, f, name)
	if err != nil {
		return nil, nil, err
	}
	// Mistakes are reported before the first request to a cluster.
	if _, err := meshes.New(nil, d, choice.Settings(), meshes.Options{}); err != nil {
		return nil, nil, hint.Usage(err, hint.Of(err))
	}
	k, err := f.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := f.prepared(c, k, d, choice, choice.Settings())
	return k, m, err
}

func (f *meshFlags) prepared(c *cli.CommandLine, k *cluster.Cluster, d mesh.Definition, choice experiment.MeshOptions, s mesh.Settings) (*meshes.Mesh, error) {
	o := kubernetes.MeshOptions(choice, console.Version(), func(line string) { c.Notef("%s", line) })
	o.Gateway = f.gateway
	o.Image = cmp.Or(f.image, o.Image)
	return meshes.New(k, d, s, o)
}

// plaintextClient creates a pod outside the mesh. If that fails, requests are nil, and the reason is printed.
func plaintextClient(ctx context.Context, c *cli.CommandLine, k *cluster.Cluster, image string) (request meshes.PlaintextRequest, remove func() error) {
	client := kube.NewOutsideClient(kube.Options{Cluster: k, Image: image, Run: "verify-" + strings.ToLower(rand.Text()[:8])})
	remove = func() error { return client.Remove(context.WithoutCancel(ctx)) }
	within, cancel := context.WithTimeout(ctx, plaintextWithin)
	defer cancel()
	if err := client.Create(within); err != nil {
		c.Notef("plaintext is not tested: %v", err)
		if advice := hint.Of(err); advice != "" {
			c.Notef("hint: %s", advice)
		}
		return nil, remove
	}
	return client.Request, remove
}

// plaintextWithin bounds the creation of a pod outside the mesh, whose image may have to be pulled.
const plaintextWithin = 30 * time.Second

func printChecks(c *cli.CommandLine, name string, checks []check.Check) error {
	failed := 0
	var rows [][]string
	for _, one := range checks {
		word := "ok"
		switch {
		case !one.OK:
			word = "FAILED"
			failed++
		case one.Caution != "":
			word = "caution"
		}
		rows = append(rows, []string{word, one.Name, one.Detail})
	}
	if err := c.Table([]string{"", "CHECK", "EVIDENCE"}, rows); err != nil {
		return err
	}
	for _, one := range checks {
		if one.OK && one.Caution != "" {
			fmt.Fprintf(c.Err, "caution: %s: %s\n", one.Name, one.Caution)
		}
		if one.Hint != "" && (!one.OK || one.Caution != "") {
			fmt.Fprintf(c.Err, "hint: %s: %s\n", one.Name, one.Hint)
		}
	}
	if failed > 0 {
		return fmt.Errorf("verify mesh %s: %d of %d checks failed", name, failed, len(checks))
	}
	return nil
}

func newMeshUninstall(c *cli.CommandLine, f *meshFlags) *cobra.Command {
	force, yes, image := false, false, ""
	cmd := &cobra.Command{
		Use:   "uninstall NAME",
		Short: "Uninstall a mesh from the cluster, and check for leftovers",
		Long: `uninstall removes a mesh's charts and their leftovers: CRDs, webhook configurations,
cluster roles, config maps in every namespace. It fails if any remain. If the mesh has a
CNI agent, and the cluster is marked as disposable, a pod on each node checks for files of
the agent. It refuses a mesh whose proxies run in pods, or with objects of its kinds that
tare did not make. With --force it lists these pods, and asks first.`,
		Example: `  tare mesh uninstall istio
  tare mesh uninstall istio --force   # not installed by tare`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: named,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := f.bounded(cmd.Context(), meshes.UninstallWithin)
			defer cancel()
			f.image = image
			k, m, err := installedMesh(ctx, c, f, args[0], force)
			if err != nil {
				return err
			}
			if force {
				if err := confirmInUse(ctx, c, m, args[0], yes); err != nil {
					return err
				}
			}
			if err := holding(ctx, c, k, "mesh-uninstall-"+args[0], func() error { return m.Uninstall(ctx, force) }); err != nil {
				return err
			}
			proxied, err := m.Proxied(ctx)
			if err != nil {
				return err
			}
			if len(proxied) > 0 {
				fmt.Fprintf(c.Out, "mesh %s is uninstalled from %s; %s still run its proxy without a control plane: %s; recreate them\n",
					args[0], k.Name(), printable.Counted(len(proxied), "pod"), printable.Listed(proxied, 6))
				return nil
			}
			fmt.Fprintf(c.Out, "nothing of mesh %s is left in %s\n", args[0], k.Name())
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove it even if it is in use, if tare did not install it, or has its definition only in the cluster")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "with --force: do not ask for confirmation")
	cmd.Flags().StringVar(&image, "image", "", "`image` of tare-agent, for the pods that check the nodes (default: the image of this version)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "deadline of the command")
	return cmd
}

// confirmInUse asks before a mesh is removed whose proxy runs in pods.
func confirmInUse(ctx context.Context, c *cli.CommandLine, m *meshes.Mesh, name string, yes bool) error {
	pods, err := m.Proxied(ctx)
	if err != nil || len(pods) == 0 {
		return err
	}
	for _, pod := range pods {
		c.Notef("%s runs the proxy of %s", pod, name)
	}
	return c.Confirm(fmt.Sprintf("remove mesh %s, which %s need", name, printable.Counted(len(pods), "pod")), yes)
}

// named completes the names of meshes that run in clusters.
func named(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all := lists.Where(mesh.Builtin(), func(d mesh.Definition) bool { return d.Kubernetes != nil })
	return lists.Map(all, func(d mesh.Definition) string { return d.Name }), cobra.ShellCompDirectiveNoFileComp
}

// bounded sets a deadline: --timeout, by default d.
func (f *meshFlags) bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(f.timeout, d))
}

// installedMesh returns the mesh that is installed in the cluster under a name, and if none is, the definition's mesh.
// With force the name may be unknown here, such as a variant's or a revision's: the cluster has its definition.
func installedMesh(ctx context.Context, c *cli.CommandLine, f *meshFlags, name string, force bool) (*cluster.Cluster, *meshes.Mesh, error) {
	d, choice, unknown := meshChoice(ctx, c, f, name)
	if unknown != nil && !(force && errors.Is(unknown, errUnknownMesh)) {
		return nil, nil, unknown
	}
	k, err := f.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := meshes.Installed(ctx, k)
	if err != nil {
		return nil, nil, err
	}
	settings := choice.Settings()
	if i := slices.IndexFunc(all, func(i meshes.Installation) bool { return i.Mesh == name }); i >= 0 && (unknown != nil || all[i].From != "" || all[i].Namespace != d.Kubernetes.Namespace) {
		d, unknown = all[i].Definition()
		settings = all[i].Settings()
	}
	if unknown != nil {
		return nil, nil, unknown
	}
	m, err := f.prepared(c, k, d, choice, settings)
	return k, m, err
}

var errUnknownMesh = errors.New("unknown mesh")

func meshChoice(ctx context.Context, c *cli.CommandLine, f *meshFlags, name string) (mesh.Definition, experiment.MeshOptions, error) {
	all, err := mesh.Collect(f.files...)
	if err != nil {
		return mesh.Definition{}, f.choice, hint.InvalidFile(err)
	}
	if f.file != "" { // with its variants
		s, err := c.Read(ctx, f.file, cli.ExperimentOptions{Options: session.Options{Meshes: f.files}})
		if err != nil {
			return mesh.Definition{}, f.choice, err
		}
		all = slices.SortedFunc(maps.Values(s.Meshes), func(a, b mesh.Definition) int { return strings.Compare(a.Name, b.Name) })
	}
	i := slices.IndexFunc(all, func(d mesh.Definition) bool { return d.Name == name })
	if i < 0 {
		names := lists.Map(all, func(d mesh.Definition) string { return d.Name })
		return mesh.Definition{}, f.choice, hint.Usage(fmt.Errorf("%w %q", errUnknownMesh, name), "meshes: "+strings.Join(names, ", ")+"; or give a definition with --mesh FILE")
	}
	if err := all[i].On(mesh.OnKubernetes); err != nil {
		return mesh.Definition{}, f.choice, hint.Usage(err, hint.Of(err))
	}
	if all[i].Kubernetes == nil {
		return mesh.Definition{}, f.choice, hint.Usage(fmt.Errorf("mesh %s has nothing in a cluster", name), "`tare list meshes` prints the meshes of Kubernetes")
	}
	if f.installs && !all[i].Kubernetes.Installable() {
		return mesh.Definition{}, f.choice, hint.Usage(fmt.Errorf("tare does not install %s: it is part of a cluster", name), fmt.Sprintf("install it with the cluster; `tare mesh verify %s` checks it", name))
	}
	choice, err := f.complete(ctx, c, name)
	return all[i], choice, err
}

// complete returns the options of an experiment file, overridden by the flags.
func (f *meshFlags) complete(ctx context.Context, c *cli.CommandLine, name string) (experiment.MeshOptions, error) {
	o := f.choice
	o.Options, o.Values = map[string]experiment.Text{}, map[string]map[string]any{}
	if f.file != "" {
		s, err := c.Read(ctx, f.file, cli.ExperimentOptions{Options: session.Options{Meshes: f.files}})
		if err != nil {
			return o, err
		}
		from := s.Experiment.MeshSettings(name)
		o.Version, o.Profile, o.Hub, o.Charts = cmp.Or(o.Version, from.Version), cmp.Or(o.Profile, from.Profile), cmp.Or(o.Hub, from.Hub), cmp.Or(o.Charts, from.Charts)
		maps.Copy(o.Options, from.Options)
		maps.Copy(o.Values, from.Values)
		o.Image, o.Resources, o.Concurrency, o.Environment = from.Image, from.Resources, from.Concurrency, from.Environment
	}
	for _, text := range f.options {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return o, hint.Usage(fmt.Errorf("--option %q is not name=value", text), "write it as --option mtls=PERMISSIVE")
		}
		o.Options[key] = experiment.Text(value)
	}
	return o, nil
}
