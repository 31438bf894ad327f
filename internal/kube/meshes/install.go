package meshes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/chart"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Times within which a mesh comes and goes where the caller's context has no deadline.
const (
	InstallWithin   = 10 * time.Minute
	UninstallWithin = 5 * time.Minute
)

// ErrInstalled says that the mesh is there already.
var ErrInstalled = errors.New("it is installed already")

// Install puts the mesh into the cluster and returns when its control plane is ready. When it fails it has taken out what
// it had put in. A mesh that is there already is [ErrInstalled]; remains of one that tare did not install are an error
// that names them.
func (m *Mesh) Install(ctx context.Context) (_ Installation, err error) {
	ctx, cancel := within(ctx, InstallWithin)
	defer cancel()
	if m.nothing() {
		return m.installation(nil), nil
	}
	around, err := look(ctx, m.cluster, m.o.ServiceCIDR)
	if err != nil {
		return Installation{}, m.failed("install", err)
	}
	if err := m.possible(ctx, around); err != nil {
		return Installation{}, m.failed("install", err)
	}
	defer func() {
		if err != nil {
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), UninstallWithin)
			defer cancel()
			err = errors.Join(err, m.remove(late, Installation{}))
		}
	}()
	i, err := m.install(ctx, around)
	if err != nil {
		return i, m.failed("install", err)
	}
	return i, nil
}

func (m *Mesh) failed(what string, err error) error {
	return fmt.Errorf("%s mesh %s: %w", what, m.definition.Name, err)
}

// possible says why the mesh cannot be installed, before anything is touched.
func (m *Mesh) possible(ctx context.Context, around surroundings) error {
	if p := m.k.Profiles[m.settings.Profile]; around.nodes < p.Nodes {
		has := fmt.Sprint(around.nodes)
		if around.nodes < around.all {
			has = fmt.Sprintf("%d that take pods, of %d", around.nodes, around.all)
		}
		return &Error{fmt.Errorf("profile %s needs %d nodes and the cluster has %s", m.settings.Profile, p.Nodes, has),
			"take profile " + mesh.ProfileDev + ", or a larger cluster"}
	}
	all, err := Installed(ctx, m.cluster)
	if err != nil {
		return err
	}
	for _, i := range all {
		switch {
		case i.Mesh == m.definition.Name:
			return &Error{ErrInstalled, "`tare mesh uninstall " + i.Mesh + "` takes it out"}
		case i.Namespace == m.k.Namespace:
			return &Error{fmt.Errorf("mesh %s is in namespace %s", i.Mesh, i.Namespace), "`tare mesh uninstall " + i.Mesh + "` takes it out"}
		}
		m.report("mesh %s is installed too: what it uses while %s is measured is neither's", i.Mesh, m.definition.Name)
	}
	remains, err := m.remains(ctx)
	if err != nil {
		return err
	}
	if len(remains) > 0 {
		return &Error{fmt.Errorf("there are remains of one that tare did not install: %s", list(remains)),
			"if nobody needs them, `tare mesh uninstall " + m.definition.Name + " --force` removes them"}
	}
	return nil
}

func (m *Mesh) install(ctx context.Context, around surroundings) (Installation, error) {
	i := m.installation(around.networks)
	i.Owner = cluster.ThisProcess()
	if err := m.namespace(ctx); err != nil {
		return i, err
	}
	in := m.k.InstallContext(m.settings)
	in.ClusterNetworks, in.Distribution, in.ServiceCIDR = around.networks, around.distribution, strings.Join(around.services, ",")
	var err error
	if m.k.Certificates {
		if in.Certificates, err = issue(m.k.Namespace); err != nil {
			return i, err
		}
	}
	for _, c := range m.crds() {
		put, err := m.define(ctx, c)
		if err != nil {
			return i, err
		}
		i.CRDs = append(i.CRDs, put...)
	}
	if m.o.WithCLI {
		i.Version, i.Program, err = m.byProgram(ctx, in)
	} else {
		i.Charts, err = m.charts(ctx, in)
		i.Version = m.versionOf(i.Charts)
	}
	if err != nil {
		return i, err
	}
	if m.asked.Version != "" && i.Version != m.asked.Version && !slices.ContainsFunc(i.Charts, func(c InstalledChart) bool { return c.Version == m.asked.Version }) {
		return i, &Error{fmt.Errorf("version %s was asked for, and %s is what was found", m.asked.Version, i.Version), "leave the version out to take what is there"}
	}
	// What is noted before all of it is ready is found by whoever has to remove it.
	if err := m.note(ctx, i); err != nil {
		return i, err
	}
	return i, m.ready(ctx)
}

// namespace makes the mesh's namespace, marked as tare's.
func (m *Mesh) namespace(ctx context.Context) error {
	annotations := map[string]string{}
	if m.o.Run != "" {
		annotations[annotationRun] = m.o.Run
	}
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: m.k.Namespace, Labels: m.k.NamespaceLabels, Annotations: annotations}}
	if err := m.cluster.Apply(ctx, m.stamp(), ns); err != nil {
		return err
	}
	return m.cluster.WaitReady(ctx, m.o.Report, cluster.Ref{Kind: cluster.KindNamespace, Name: m.k.Namespace})
}

// crds are those that the mesh needs, and its gateway where one is asked for.
func (m *Mesh) crds() []mesh.CRDs {
	if m.o.Gateway && m.k.Gateway != nil {
		return slices.Concat(m.k.CRDs, m.k.Gateway.CRDs)
	}
	return m.k.CRDs
}

// define puts CRDs into a cluster that does not have them all, and returns their names.
func (m *Mesh) define(ctx context.Context, c mesh.CRDs) ([]string, error) {
	missing := 0
	for _, name := range c.Kinds {
		_, err := m.cluster.Get(ctx, cluster.Ref{Kind: kindCRD, Name: name})
		if err != nil && !cluster.IsNotFound(err) {
			return nil, err
		}
		if err != nil {
			missing++
		}
	}
	switch {
	case missing == 0:
		m.report("CRDs of %s are there", c.Name)
		return nil, nil
	case missing < len(c.Kinds):
		return nil, &Error{fmt.Errorf("the cluster has %d of the %d CRDs of %s", len(c.Kinds)-missing, len(c.Kinds), c.Name), "install the rest of them, or remove them"}
	}
	files, err := m.crdFiles(c, func(f mesh.File) ([]byte, error) {
		m.report("fetching %s", f.URL)
		return fetch(ctx, f)
	})
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	var names []string
	for _, text := range files {
		some, err := objects(text)
		if err != nil {
			return nil, fmt.Errorf("read the CRDs of %s: %w", c.Name, err)
		}
		for _, o := range some {
			all = append(all, o)
			names = append(names, strings.ToLower(o.GetKind())+"/"+o.GetName())
		}
		if err := m.archive("crds-"+c.Name+".yaml", slices.Concat(files...)); err != nil {
			return nil, err
		}
	}
	m.report("CRDs of %s: %d objects", c.Name, len(all))
	return names, m.apply(ctx, m.stamp(), all)
}

// charts installs the charts in their order.
func (m *Mesh) charts(ctx context.Context, in mesh.InstallContext) ([]InstalledChart, error) {
	releases, err := m.k.Releases(m.settings, in)
	if err != nil {
		return nil, err
	}
	var all []InstalledChart
	for _, r := range releases {
		from, err := m.source(r)
		if err != nil {
			return all, err
		}
		m.report("installing chart %s as %s/%s", from, r.Namespace, r.Release)
		done, err := m.helm().Install(ctx, release(r, from, m.definition.Name))
		if err != nil {
			return all, err
		}
		m.cluster.Rediscover()
		all = append(all, InstalledChart{r.Release, r.Namespace, done.Chart, done.Version, done.AppVersion})
		text, err := blotted([]byte(done.Manifest))
		if err != nil {
			return all, fmt.Errorf("keep what chart %s renders to: %w", r.Release, err)
		}
		if err := m.archive("chart-"+r.Release+".yaml", text); err != nil {
			return all, err
		}
	}
	return all, nil
}

func release(r mesh.Release, from chart.Source, name string) chart.Release {
	return chart.Release{Name: r.Release, Namespace: r.Namespace, Source: from, Values: r.Values, Labels: map[string]string{"tare-mesh": name}}
}

// versionOf is what the charts say of the mesh's version: the last one's, whose images run. A chart that is not the
// mesh's own numbers itself.
func (m *Mesh) versionOf(charts []InstalledChart) string {
	if len(charts) == 0 {
		return m.settings.Version
	}
	last := charts[len(charts)-1]
	return cmp.Or(last.AppVersion, last.Version)
}

// ready waits for the control plane, and for the webhooks that put pods into the mesh.
func (m *Mesh) ready(ctx context.Context) error {
	for _, w := range m.k.Workloads {
		if err := m.cluster.WaitReady(ctx, m.o.Report, refOf(w, m.k.Namespace)); err != nil {
			return err
		}
	}
	for _, w := range m.k.Webhooks {
		ref := cluster.Ref{Kind: groupWebhooks.WithKind(w.Kind), Name: w.Name}
		if err := m.cluster.WaitFor(ctx, m.o.Report, ref, hasCA); err != nil {
			return err
		}
	}
	return nil
}

// hasCA says that every webhook of a configuration has the authority its server's certificate is checked with: until
// then the API server cannot call it.
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

// Rendered is what Install would apply of charts, by release, without asking the cluster for anything but its networks;
// without a cluster the private ones are taken.
func (m *Mesh) Rendered(ctx context.Context) (map[string]chart.Installed, error) {
	around := surroundings{}
	for _, p := range private {
		around.networks = append(around.networks, p.String())
	}
	if m.cluster != nil && !m.cluster.DryRun() {
		var err error
		if around, err = look(ctx, m.cluster, m.o.ServiceCIDR); err != nil {
			return nil, m.failed("render", err)
		}
	}
	in := m.k.InstallContext(m.settings)
	in.ClusterNetworks, in.Distribution, in.ServiceCIDR = around.networks, around.distribution, strings.Join(around.services, ",")
	if m.k.Certificates {
		var err error
		if in.Certificates, err = issue(m.k.Namespace); err != nil {
			return nil, m.failed("render", err)
		}
	}
	releases, err := m.k.Releases(m.settings, in)
	if err != nil {
		return nil, m.failed("render", err)
	}
	all := map[string]chart.Installed{}
	for _, r := range releases {
		from, err := m.source(r)
		if err == nil {
			all[r.Release], err = m.helm().Render(ctx, release(r, from, m.definition.Name))
		}
		if err != nil {
			return nil, m.failed("render", err)
		}
		i := all[r.Release]
		text, err := blotted([]byte(i.Manifest))
		if err != nil {
			return nil, m.failed("render", err)
		}
		i.Manifest = string(text)
		all[r.Release] = i
	}
	return all, nil
}
