// Package meshes installs, verifies and removes meshes.
//
// It carries out the Kubernetes part of a mesh definition, and contains no
// knowledge of any particular mesh. Each step is a type: installer, enroller,
// verifier, archiver and uninstaller. [Batches] keeps the meshes of
// the current trials of a run installed.
package meshes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/chart"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Options of an installation. The zero value downloads the mesh's charts.
type Options struct {
	// Charts is a local directory with the mesh's charts and CRDs, used in place of downloads.
	Charts string
	// ServiceCIDR is the network of services, empty to detect it.
	ServiceCIDR string
	// Cache is a directory for downloads, empty for no downloads.
	Cache string
	// Gateway installs also what the mesh's ingress gateway needs.
	Gateway bool
	// Image of tare-agent, for the pods that check nodes for left-over files, empty for no check.
	Image string
	// Changes are the kinds of changes of the run. Those of a control plane are refused if tare did not install it.
	Changes []string
	// Run is the ID of the run that installs the mesh. It is recorded with the process, so that later runs can remove
	// the mesh if the process has died.
	Run string
	// Archive receives applied manifests, with charts rendered and secrets redacted, and nil keeps nothing.
	Archive func(name string, content []byte) error
	// Report receives progress, and may be nil.
	Report func(string)
}

// Mesh is one mesh on one cluster.
type Mesh struct{ *instance }

// New prepares a mesh. It fails if the definition has no Kubernetes part, or does not offer the settings.
func New(c *cluster.Cluster, d mesh.Definition, s mesh.Settings, o Options) (*Mesh, error) {
	if err := d.On(mesh.OnKubernetes); err != nil {
		return nil, err
	}
	i := &instance{cluster: c, definition: d, requested: s, options: o}
	if d.Kubernetes != nil {
		i.k = *d.Kubernetes
	}
	var err error
	if i.settings, err = i.k.Complete(s); err != nil {
		return nil, fmt.Errorf("mesh %s: %w", d.Name, err)
	}
	return &Mesh{i}, nil
}

// Install installs the mesh and returns when its control plane is ready. A failed installation is removed again. The
// error is [ErrInstalled] if the mesh is installed already, and lists the objects of one that tare did not install.
func (m *Mesh) Install(ctx context.Context) (Installation, error) {
	return newInstaller(m.instance).run(ctx)
}

// Rendered returns the charts that Install would apply, by release. It reads only the cluster's networks. Without a cluster,
// the private networks are assumed.
func (m *Mesh) Rendered(ctx context.Context) (map[string]chart.Installed, error) {
	return newInstaller(m.instance).render(ctx)
}

// Enrol renders what puts a namespace under the mesh. Its marks belong on the namespace at its creation, and on the
// pods. [Mesh.Enter] does the rest.
func (m *Mesh) Enrol(namespace string, way mesh.Way) (mesh.Enrolled, error) {
	return m.k.Enrol(m.settings, namespace, way)
}

// Enter applies the manifests of an enrolment to its namespace, which exists and has the marks. It waits for the
// resulting workloads (a waypoint, a gateway), with the replicas of the profile. Call it before the application's pods
// are created: a connection that is older than a waypoint or a policy bypasses it. s is the stamp of the objects.
func (m *Mesh) Enter(ctx context.Context, s cluster.Stamp, namespace string, e mesh.Enrolled) error {
	return (&enroller{m.instance}).enter(ctx, s, namespace, e)
}

// Verify checks the control plane, each pod of the namespace, and the counters of the proxies. It repeats failing checks
// until ctx's deadline (a minute without one), because a mesh applies its configuration with a delay, and then returns
// them as failed. The error means that checking was impossible.
func (m *Mesh) Verify(ctx context.Context, t Target) ([]check.Check, error) {
	return newVerifier(m.instance, t).run(ctx)
}

// AdmitsNodes reports whether the mesh admits plaintext from nodes. Its refusal is then tested from a pod ([Target]).
func (m *Mesh) AdmitsNodes() bool { return m.k.Plaintext.NodeExempt }

// Archive keeps the configuration dump of each proxy and the digests of all images. If a proxy does not answer, its file
// contains the error.
func (m *Mesh) Archive(ctx context.Context, namespace string) error {
	return (&archiver{m.instance, podReader{m.cluster}}).run(ctx, namespace)
}

// Uninstall removes the mesh and returns when nothing of it is left. Objects that the definition lists as leftovers are
// removed too. The error is [ErrNotInstalled] if tare did not install the mesh, unless force is set. Without any objects
// of the mesh it does nothing.
func (m *Mesh) Uninstall(ctx context.Context, force bool) error {
	return (&uninstaller{instance: m.instance}).run(ctx, force)
}

// Proxied lists the pods that run the mesh's proxy, outside its own namespaces.
func (m *Mesh) Proxied(ctx context.Context) ([]string, error) {
	pods, err := (&uninstaller{instance: m.instance}).withProxies(ctx)
	return lists.Map(pods, cluster.Ref.String), err
}

// instance is a mesh definition with its settings on one cluster: the data that every step needs.
type instance struct {
	cluster    *cluster.Cluster
	definition mesh.Definition
	k          mesh.Kubernetes
	requested  mesh.Settings // as the user gave them
	settings   mesh.Settings // with defaults
	options    Options
	foreign    *foreign // nil unless tare did not install its control plane
}

func (i *instance) report(format string, args ...any) {
	if i.options.Report != nil {
		i.options.Report(fmt.Sprintf(format, args...))
	}
}

func (i *instance) keep(name string, content []byte) error {
	if i.options.Archive == nil {
		return nil
	}
	return hint.Prefix(i.options.Archive(name, content), "archive %s", name)
}

// failed names the step of an error. It returns nil for nil.
func (i *instance) failed(step string, err error) error {
	return hint.Prefix(err, "%s mesh %s", step, i.definition.Name)
}

func (i *instance) helm() *chart.Helm { return chart.New(i.cluster, i.options.Cache) }

// installable is false for no mesh, and for one that is part of the cluster.
func (i *instance) installable() bool { return i.k.Installable() }

func (i *instance) stamp() cluster.Stamp { return cluster.Stamp{Installed: i.definition.Name} }

// apply applies objects in the order of their dependencies.
func (i *instance) apply(ctx context.Context, s cluster.Stamp, objects manifests) error {
	return objects.apply(ctx, i.cluster, s, i.options.Report)
}

// title is the mesh's name with the options that are not the default.
func (i *instance) title() string {
	var chosen []string
	for _, name := range slices.Sorted(maps.Keys(i.settings.Options)) {
		if v := i.settings.Options[name]; v != i.k.Options[name].Default && slices.Contains(i.k.Options[name].OneOf, v) {
			chosen = append(chosen, name+": "+v)
		}
	}
	if chosen == nil {
		return i.definition.Name
	}
	return i.definition.Name + " (" + strings.Join(chosen, ", ") + ")"
}

// proxies are the parts of the data plane, with or without the ingress gateway's.
func (i *instance) proxies(gateway bool) []mesh.Proxy {
	if g := i.k.Gateway; gateway && g != nil && g.Proxy != nil {
		return append(slices.Clone(i.k.Proxies), *g.Proxy)
	}
	return i.k.Proxies
}

func (i *instance) isGateway(x mesh.Proxy) bool {
	return i.k.Gateway != nil && i.k.Gateway.Proxy != nil && i.k.Gateway.Proxy.Role == x.Role
}

// kinds of workloads, by their names in definitions.
var kinds = map[string]schema.GroupVersionKind{
	"Deployment": cluster.KindDeployment, "StatefulSet": cluster.KindStatefulSet, "DaemonSet": cluster.KindDaemonSet,
}

// RefOf is the object of a workload.
func RefOf(w mesh.Workload, namespace string) cluster.Ref {
	return cluster.Ref{Kind: kinds[w.Kind], Namespace: namespace, Name: w.Name}
}

// ConditionRef is the object whose status has the condition, in a namespace.
func ConditionRef(c mesh.Condition, namespace string) cluster.Ref {
	return cluster.Ref{Kind: schema.GroupVersionKind{Group: c.Group, Version: c.Version, Kind: c.Kind}, Namespace: namespace, Name: c.Name}
}

var (
	kindCRD       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	groupWebhooks = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
)

// enroller puts namespaces under the mesh.
type enroller struct{ *instance }

func (e *enroller) enter(ctx context.Context, s cluster.Stamp, namespace string, enrolled mesh.Enrolled) error {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, InstallWithin)
	defer cancel()
	for _, text := range enrolled.Manifests {
		all, err := cluster.Parse([]byte(text))
		if err != nil {
			return fmt.Errorf("enrol namespace %s: %w", namespace, err)
		}
		for _, o := range all {
			o.SetNamespace(namespace)
		}
		if err := e.apply(ctx, s, all); err != nil {
			return fmt.Errorf("enrol namespace %s: %w", namespace, e.explained(err))
		}
	}
	if e.cluster.DryRun() {
		return nil
	}
	scaler := scaler{e.cluster, e.options.Report}
	for _, w := range enrolled.Workloads {
		if err := scaler.waitScaled(ctx, RefOf(w, namespace), w.Scaled, int32(enrolled.Replicas)); err != nil {
			return fmt.Errorf("enrol namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// explained adds a hint if the cluster lacks a kind.
func (e *enroller) explained(err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	return hint.Wrap(err, "a mesh that was installed without its gateway does not include the Gateway API: `tare mesh uninstall "+e.definition.Name+
		"`, and let the run install it, or `tare mesh install "+e.definition.Name+" --gateway`")
}
