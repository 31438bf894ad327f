package meshes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/chart"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Time limits if the caller's context has no deadline.
const (
	InstallWithin   = 10 * time.Minute
	UninstallWithin = 5 * time.Minute
)

// ErrInstalled reports that the mesh is installed already.
var ErrInstalled = errors.New("it is installed already")

// Unremoved is the error of a failed installation that could not be removed either.
type Unremoved struct{ error }

// Unwrap returns both errors.
func (e *Unremoved) Unwrap() error { return e.error }

// installer installs a mesh by its charts.
type installer struct {
	*instance
	sources chartSources
	// others: revisions of the mesh are installed, and with them the charts that all share.
	others bool
	// suffix of the names of releases, empty for the mesh itself.
	suffix string
}

func newInstaller(i *instance) *installer {
	return &installer{instance: i, sources: chartSources{dir: i.options.Charts, download: i.options.Cache != ""}}
}

func (n *installer) run(ctx context.Context) (_ Installation, err error) {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, InstallWithin)
	defer cancel()
	if !n.installable() {
		return n.installation(nil), nil
	}
	if err := n.finishRemoval(ctx); err != nil {
		return Installation{}, n.failed("install", err)
	}
	info, err := readClusterInfo(ctx, n.cluster, n.options.ServiceCIDR)
	if err != nil {
		return Installation{}, n.failed("install", err)
	}
	if err := n.checkPossible(ctx, info); err != nil {
		return Installation{}, n.failed("install", err)
	}
	defer func() {
		if err != nil {
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), UninstallWithin)
			defer cancel()
			err = unremoved(err, (&uninstaller{instance: n.instance}).remove(late))
		}
	}()
	done, err := n.install(ctx, info)
	return done, n.failed("install", err)
}

// unremoved is the error of an installation after its removal, which failed unless left is nil.
func unremoved(err, left error) error {
	if left == nil {
		return err
	}
	return &Unremoved{errors.Join(err, left)}
}

// finishRemoval removes what a killed process has left of this mesh.
func (n *installer) finishRemoval(ctx context.Context) error {
	found, ours, err := n.installed(ctx)
	if err != nil || !ours || !found.Incomplete || !found.Abandoned() {
		return err
	}
	n.report("removing mesh %s, a leftover of %s", found.Mesh, found.Origin())
	return (&uninstaller{instance: n.instance}).remove(ctx)
}

// checkPossible reports why the mesh cannot be installed, before anything is changed.
func (n *installer) checkPossible(ctx context.Context, info clusterInfo) error {
	if p := n.k.Profiles[n.settings.Profile]; info.nodes < p.Nodes {
		has := fmt.Sprint(info.nodes)
		if info.nodes < info.allNodes {
			has = fmt.Sprintf("%d that take pods, of %d", info.nodes, info.allNodes)
		}
		return hint.New("use profile "+mesh.ProfileDev+", or a larger cluster",
			"profile %s needs %d nodes and the cluster has %s", n.settings.Profile, p.Nodes, has)
	}
	all, err := Installed(ctx, n.cluster)
	if err != nil {
		return err
	}
	var others []string
	for _, i := range all {
		switch {
		case i.Mesh == n.definition.Name:
			return hint.Wrap(ErrInstalled, i.remedy())
		case i.Namespace == n.k.Namespace:
			return hint.New(i.remedy(), "mesh %s is in namespace %s", i.Mesh, i.Namespace)
		}
		others = append(others, i.Mesh)
	}
	if len(others) > 0 {
		n.report("mesh %s is installed beside %s: their own CPU is in none of its planes", n.definition.Name, strings.Join(others, ", "))
	}
	n.others = slices.ContainsFunc(all, n.isRevision)
	removal := &uninstaller{instance: n.instance, others: n.others}
	leftovers, err := removal.leftovers(ctx)
	if err != nil || len(leftovers) == 0 {
		return err
	}
	foreign, err := adopter{n.instance}.adopt(ctx)
	switch {
	case err != nil:
		return err
	case foreign != nil:
		return hint.New("a run uses it as it is; `tare mesh verify "+n.definition.Name+"` checks it",
			"mesh %s %s runs in namespace %s, and tare did not install it", n.definition.Name, foreign.version, n.k.Namespace)
	}
	advice, err := removal.foreignRemains(ctx)
	if err != nil {
		return err
	}
	return hint.New(advice, "the cluster has objects of the mesh that tare did not install: %s", list(leftovers))
}

func (n *installer) install(ctx context.Context, info clusterInfo) (Installation, error) {
	done := n.installation(info.networks)
	done.Incomplete = true
	if err := n.record(ctx, done); err != nil {
		return done, err
	}
	if err := n.createNamespace(ctx); err != nil {
		return done, err
	}
	in, err := n.templateValues(info)
	if err != nil {
		return done, err
	}
	for _, c := range n.crds() {
		names, err := n.installCRDs(ctx, c)
		if err != nil {
			return done, err
		}
		done.CRDs = append(done.CRDs, names...)
	}
	if o := n.k.Published; o != nil {
		if _, err := n.applyPublished(ctx, "published", *o); err != nil {
			return done, err
		}
	}
	done.Charts, err = n.installCharts(ctx, in)
	done.Version = versionOf(done.Charts, n.settings.Version)
	if err != nil {
		return done, err
	}
	if !done.hasVersion(n.requested.Version) {
		return done, hint.New("omit the version to install the one available", "version %s was requested, and %s is available", n.requested.Version, done.Version)
	}
	if err := n.waitReady(ctx); err != nil {
		return done, err
	}
	if err := n.applyManifests(ctx, in); err != nil {
		return done, err
	}
	done.Incomplete = false
	archived := done
	archived.Text, archived.Owner = "", cluster.ThisProcess()
	text, err := json.MarshalIndent(archived, "", "  ")
	if err != nil {
		return done, fmt.Errorf("archive the installation: %w", err)
	}
	if err := n.keep("installation.json", text); err != nil {
		return done, err
	}
	return done, n.record(ctx, done)
}

// applyManifests archives and applies the mesh's own objects.
func (n *installer) applyManifests(ctx context.Context, in mesh.InstallContext) error {
	texts, err := n.k.Objects(in)
	if err != nil {
		return err
	}
	for i, text := range texts {
		all, err := cluster.Parse(text)
		if err != nil {
			return err
		}
		archived, err := redacted(text)
		if err != nil {
			return fmt.Errorf("archive the objects of the mesh: %w", err)
		}
		if err := n.keep(fmt.Sprintf("manifests-%d.yaml", i), archived); err != nil {
			return err
		}
		if err := n.apply(ctx, n.stamp(), all); err != nil {
			return err
		}
	}
	return nil
}

func (n *installer) templateValues(info clusterInfo) (mesh.InstallContext, error) {
	in := n.k.InstallContext(n.settings)
	in.ClusterNetworks, in.Distribution, in.ServiceCIDR, in.ClusterDomain = info.networks, info.distribution, strings.Join(info.services, ","), info.domain
	var err error
	if n.k.Certificates {
		in.Certificates, err = issueCertificates(n.k.Namespace)
	}
	return in, err
}

// createNamespace creates the mesh's namespace, marked as tare's.
func (n *installer) createNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: n.k.Namespace, Labels: n.k.NamespaceLabels}}
	if err := n.cluster.Apply(ctx, n.stamp(), ns); err != nil {
		return err
	}
	return n.cluster.WaitReady(ctx, n.options.Report, cluster.Ref{Kind: cluster.KindNamespace, Name: n.k.Namespace})
}

// crds are the CRDs of the mesh, and of its gateway if it is installed too.
func (n *installer) crds() []mesh.CRDs {
	if n.options.Gateway && n.k.Gateway != nil {
		return slices.Concat(n.k.CRDs, n.k.Gateway.CRDs)
	}
	return n.k.CRDs
}

// installCRDs applies a set of CRDs unless the cluster has them all, and returns their names.
func (n *installer) installCRDs(ctx context.Context, c mesh.CRDs) ([]string, error) {
	missing := 0
	for _, name := range c.Kinds {
		_, err := n.cluster.Get(ctx, cluster.Ref{Kind: kindCRD, Name: name})
		if err != nil && !cluster.IsNotFound(err) {
			return nil, err
		}
		if err != nil {
			missing++
		}
	}
	switch {
	case missing == 0:
		n.report("CRDs of %s are installed already", c.Name)
		return nil, nil
	case missing < len(c.Kinds):
		return nil, hint.New("install the others, or remove them", "the cluster has %d of the %d CRDs of %s", len(c.Kinds)-missing, len(c.Kinds), c.Name)
	}
	return n.applyPublished(ctx, "crds", mesh.Published{Name: c.Name, Files: c.Files})
}

// applyPublished archives and applies objects that a project publishes, and returns their names. What they are is part of
// the name in the archive.
func (n *installer) applyPublished(ctx context.Context, what string, o mesh.Published) ([]string, error) {
	files, err := n.sources.manifests(o, func(f mesh.File) ([]byte, error) {
		n.report("fetching %s", f.URL)
		return fetch(ctx, f)
	})
	if err != nil {
		return nil, err
	}
	var all manifests
	var names []string
	for _, text := range files {
		some, err := cluster.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("read the objects of %s: %w", o.Name, err)
		}
		for _, o := range some {
			all = append(all, o)
			names = append(names, strings.ToLower(o.GetKind())+"/"+o.GetName())
		}
	}
	if err := n.keep(what+"-"+o.Name+".yaml", bytes.Join(files, []byte("\n---\n"))); err != nil {
		return nil, err
	}
	n.report("%s of %s: %d objects", what, o.Name, len(all))
	return names, n.apply(ctx, n.stamp(), all)
}

func (n *installer) installCharts(ctx context.Context, in mesh.InstallContext) ([]InstalledChart, error) {
	releases, err := n.k.Releases(n.settings, in)
	if err != nil {
		return nil, err
	}
	var all []InstalledChart
	for _, r := range releases {
		if n.others && n.shared(r.Release) {
			n.report("chart %s is installed already, by another revision", r.Release)
			continue
		}
		from, err := n.sources.chart(r)
		if err != nil {
			return all, err
		}
		r.Release += n.suffix
		n.report("installing chart %s as %s/%s", from, r.Namespace, r.Release)
		done, err := n.helm().Install(ctx, n.release(r, from))
		if err != nil {
			return all, err
		}
		n.cluster.Rediscover()
		all = append(all, InstalledChart{r.Release, r.Namespace, done.Chart, done.Version, done.AppVersion})
		text, err := redacted([]byte(done.Manifest))
		if err != nil {
			return all, fmt.Errorf("archive the manifest of chart %s: %w", r.Release, err)
		}
		if err := n.keep("chart-"+r.Release+".yaml", text); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (n *installer) release(r mesh.Release, from chart.Source) chart.Release {
	return chart.Release{Name: r.Release, Namespace: r.Namespace, Source: from, Values: r.Values, Labels: map[string]string{"tare-mesh": n.definition.Name}}
}

// versionOf is a mesh's version by its charts: the appVersion of the last one, whose images run. Charts of others have
// version numbers of their own. Without a chart it is the requested version.
func versionOf(charts []InstalledChart, requested string) string {
	if len(charts) == 0 {
		return requested
	}
	last := charts[len(charts)-1]
	return cmp.Or(last.AppVersion, last.Version)
}

// waitReady waits for the control plane and for its admission webhooks.
func (n *installer) waitReady(ctx context.Context) error {
	for _, w := range n.k.Workloads {
		if err := n.cluster.WaitReady(ctx, n.options.Report, RefOf(w, n.k.Namespace)); err != nil {
			return err
		}
	}
	for _, w := range n.k.Webhooks {
		ref := cluster.Ref{Kind: groupWebhooks.WithKind(w.Kind), Name: w.Name}
		if err := n.cluster.WaitFor(ctx, n.options.Report, ref, hasCA); err != nil {
			return err
		}
	}
	return nil
}

// hasCA holds if every webhook of a configuration has its server's CA. The API server cannot call it before.
func hasCA(o *unstructured.Unstructured) (bool, string) {
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	have := 0
	for _, h := range hooks {
		hook, _ := h.(map[string]any)
		if ca, _, _ := unstructured.NestedString(hook, "clientConfig", "caBundle"); ca != "" {
			have++
		}
	}
	return have == len(hooks), fmt.Sprintf("%d of %d webhooks have their CA", have, len(hooks))
}

// recordSteps records what Install would do, in a dry run. If a chart is not available, the record contains the error.
func (n *installer) recordSteps(ctx context.Context) error {
	if !n.installable() {
		return nil
	}
	recorder := n.cluster.Recorder()
	recorder.Add(cluster.Step{Command: []string{"tare", "mesh", "install", n.definition.Name}})
	if err := n.createNamespace(ctx); err != nil {
		return err
	}
	for _, c := range n.crds() {
		for _, f := range c.Files {
			recorder.Kubectl("apply", "--server-side", "-f", f.URL)
		}
	}
	all, err := n.render(ctx)
	if err != nil {
		recorder.Add(cluster.Step{Unknown: err, Manifest: &cluster.Manifest{YAML: fmt.Appendf(nil, "# The charts of mesh %s cannot be rendered here: %v\n", n.definition.Name, err)}})
		return nil
	}
	if o := n.k.Published; o != nil {
		if r, ok := all[o.Name]; ok {
			recorder.Manifest(cluster.Manifest{YAML: []byte(r.Manifest)}, "apply", "--server-side", "-f", "-")
		} else {
			for _, f := range o.Files {
				recorder.Kubectl("apply", "--server-side", "-f", f.URL)
			}
		}
	}
	for _, c := range n.k.Charts {
		r, ok := all[c.Release]
		if !ok {
			continue
		}
		head := fmt.Sprintf("# chart %s %s as %s/%s\n", r.Chart, r.Version, r.Namespace, r.Name)
		recorder.Manifest(cluster.Manifest{YAML: []byte(head + r.Manifest)}, "apply", "--server-side", "-n", r.Namespace, "-f", "-")
	}
	return n.applyManifests(ctx, n.k.InstallContext(n.settings))
}

func (n *installer) render(ctx context.Context) (map[string]chart.Installed, error) {
	info := clusterInfo{networks: privateNetworks()}
	if n.cluster != nil && !n.cluster.DryRun() {
		var err error
		if info, err = readClusterInfo(ctx, n.cluster, n.options.ServiceCIDR); err != nil {
			return nil, n.failed("render", err)
		}
	}
	in, err := n.templateValues(info)
	if err != nil {
		return nil, n.failed("render", err)
	}
	releases, err := n.k.Releases(n.settings, in)
	if err != nil {
		return nil, n.failed("render", err)
	}
	all := map[string]chart.Installed{}
	if o := n.k.Published; o != nil && n.sources.dir != "" {
		files, err := n.sources.localManifests(o.Name)
		if err != nil {
			return nil, n.failed("render", err)
		}
		text, err := redacted(bytes.Join(files, []byte("\n---\n")))
		if err != nil {
			return nil, n.failed("render", err)
		}
		all[o.Name] = chart.Installed{Name: o.Name, Namespace: n.k.Namespace, Manifest: string(text)}
	}
	for _, r := range releases {
		from, err := n.sources.chart(r)
		if err != nil {
			return nil, n.failed("render", err)
		}
		rendered, err := n.helm().Render(ctx, n.release(r, from))
		if err != nil {
			return nil, n.failed("render", err)
		}
		text, err := redacted([]byte(rendered.Manifest))
		if err != nil {
			return nil, n.failed("render", err)
		}
		rendered.Manifest = string(text)
		all[r.Release] = rendered
	}
	return all, nil
}

// Revision is a further control plane in the namespace of a mesh, to which applications move.
type Revision struct {
	installer *installer
	name      string
}

// Revision prepares a further control plane with the version, charts and settings of a variant of the mesh. Empty means its own.
// The charts that all revisions share are not installed again.
func (b *Batch) Revision(name, variant string) (*Revision, error) {
	next, err := b.definition.NextRevision(name)
	if err != nil {
		return nil, err
	}
	i := *b.instance
	i.definition, i.k = next, *next.Kubernetes
	if variant != "" {
		to := b.choose(variant)
		if i.settings, err = i.k.Complete(to.Settings); err != nil {
			return nil, fmt.Errorf("mesh %s: %w", variant, err)
		}
		i.options.Charts = to.Options.Charts
	}
	n := newInstaller(&i)
	n.others, n.suffix = true, "-"+name
	return &Revision{n, name}, nil
}

// Install installs the control plane, and returns when it is ready. [Revision.Remove] removes it, or the removal of the mesh.
func (r *Revision) Install(ctx context.Context) error {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, InstallWithin)
	defer cancel()
	n := r.installer
	info, err := readClusterInfo(ctx, n.cluster, n.options.ServiceCIDR)
	if err != nil {
		return n.failed("install revision "+r.name+" of", err)
	}
	in, err := n.templateValues(info)
	if err == nil {
		_, err = n.installCharts(ctx, in)
	}
	if err == nil {
		err = n.waitReady(ctx)
	}
	return n.failed("install revision "+r.name+" of", err)
}

// Remove removes the control plane, also one that is not complete.
func (r *Revision) Remove(ctx context.Context) error {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, UninstallWithin)
	defer cancel()
	n := r.installer
	var err error
	for _, c := range n.k.Charts {
		if !n.shared(c.Release) {
			err = errors.Join(err, n.helm().Uninstall(ctx, n.k.Namespace, c.Release+n.suffix))
		}
	}
	return n.failed("uninstall revision "+r.name+" of", err)
}

// Enrol renders what puts a namespace under the revision.
func (r *Revision) Enrol(namespace string, way mesh.Way) (mesh.Enrolled, error) {
	return r.installer.k.Enrol(r.installer.settings, namespace, way)
}

// ProxyImage is the image that the settings give its proxies, empty for the image of its version.
func (r *Revision) ProxyImage() string { return r.installer.settings.Proxy.Image }

// ControlImages are [ControlImages] of the revision.
func (r *Revision) ControlImages(ctx context.Context) ([]string, error) {
	return ControlImages(ctx, r.installer.cluster, r.installer.k)
}

// ControlImages are the images of the pods of a control plane's workloads.
func ControlImages(ctx context.Context, c *cluster.Cluster, k mesh.Kubernetes) (images []string, err error) {
	pods, err := podReader{c}.list(ctx, k.Namespace)
	if err != nil {
		return nil, err
	}
	for _, w := range k.Workloads {
		o, err := c.Get(ctx, RefOf(w, k.Namespace))
		if err != nil {
			return nil, err
		}
		selected, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
		if err != nil {
			return nil, fmt.Errorf("read the selector of %s: %w", w.Name, err)
		}
		for _, pod := range pods {
			if !labels.SelectorFromSet(selected).Matches(labels.Set(pod.Labels)) {
				continue
			}
			for _, container := range pod.Spec.Containers {
				images = append(images, container.Image)
			}
		}
	}
	slices.Sort(images)
	return slices.Compact(images), nil
}

// ProxyImages are the images of a mesh's proxies in a pod of an application.
func ProxyImages(k mesh.Kubernetes, pod *corev1.Pod) (images []string) {
	for _, x := range k.Proxies {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if x.In == mesh.InPod && mesh.Match(x.Container, c.Name) {
				images = append(images, c.Image)
			}
		}
	}
	return images
}
