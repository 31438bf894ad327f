// Package meshes carries out the Kubernetes part of a mesh definition: it puts
// the mesh into a cluster and takes it out again whole, puts a namespace under
// it, proves that it is in force, and keeps what was really run. What is done
// stands in the definition; nothing here knows one mesh from another.
package meshes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/chart"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Options are how a mesh is put into a cluster. The zero value downloads its charts.
type Options struct {
	// Charts is a directory on this machine with the mesh's charts, and its CRDs, in place of what would be downloaded.
	Charts string
	// WithCLI installs by the mesh's own program; Arguments are added to its last command.
	WithCLI   bool
	Arguments []string
	// ServiceCIDR is the network of services; empty: it is found.
	ServiceCIDR string
	// Cache is a directory for downloads; empty: nothing can be downloaded.
	Cache string
	// Gateway brings what the mesh's ingress gateway needs of the cluster, besides what the mesh does.
	Gateway bool
	// Image of tare-agent, for the pods that look at what is left on nodes; empty: it is not looked.
	Image string
	// Run installs for a run, which is noted with its process: whoever finds the mesh can tell that the run is dead.
	Run string
	// Archive is called with what is applied, charts rendered, secrets blotted out; nil keeps nothing.
	Archive func(name string, content []byte) error
	// Report is told what is done and waited for; nil: nobody is.
	Report func(string)
}

// Mesh is one mesh on one cluster.
type Mesh struct {
	cluster    *cluster.Cluster
	definition mesh.Definition
	k          mesh.Kubernetes
	asked      mesh.Settings // as the user gave them
	settings   mesh.Settings // complete
	o          Options
}

// Error is what went wrong with a mesh, and what the user can do.
type Error struct {
	Err  error
	hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint says what the user can do.
func (e *Error) Hint() string { return e.hint }

// New prepares a mesh. A definition without a part for clusters, or settings it does not offer, are errors.
func New(c *cluster.Cluster, d mesh.Definition, s mesh.Settings, o Options) (*Mesh, error) {
	if err := d.On(mesh.OnKubernetes); err != nil {
		return nil, err
	}
	m := &Mesh{cluster: c, definition: d, asked: s, o: o}
	if d.Kubernetes != nil {
		m.k = *d.Kubernetes
	}
	var err error
	if m.settings, err = m.k.Complete(s); err != nil {
		return nil, fmt.Errorf("mesh %s: %w", d.Name, err)
	}
	if o.WithCLI && m.k.CLI == nil {
		return nil, fmt.Errorf("mesh %s: %w: it has no program that installs it", d.Name, errors.ErrUnsupported)
	}
	return m, nil
}

func (m *Mesh) report(format string, args ...any) {
	if m.o.Report != nil {
		m.o.Report(fmt.Sprintf(format, args...))
	}
}

func (m *Mesh) archive(name string, content []byte) error {
	if m.o.Archive == nil {
		return nil
	}
	if err := m.o.Archive(name, content); err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	return nil
}

func (m *Mesh) helm() *chart.Helm { return chart.New(m.cluster, m.o.Cache) }

// nothing says that there is nothing to install: no mesh, or one that is part of the cluster.
func (m *Mesh) nothing() bool { return len(m.k.Charts) == 0 && m.k.CLI == nil }

// stamp marks what the mesh consists of.
func (m *Mesh) stamp() cluster.Stamp { return cluster.Stamp{Installed: m.definition.Name} }

// within bounds what a caller's context does not.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// kinds of workloads by the names that definitions have for them.
var kinds = map[string]schema.GroupVersionKind{
	"Deployment": cluster.KindDeployment, "StatefulSet": cluster.KindStatefulSet, "DaemonSet": cluster.KindDaemonSet,
}

func refOf(w mesh.Workload, namespace string) cluster.Ref {
	return cluster.Ref{Kind: kinds[w.Kind], Namespace: namespace, Name: w.Name}
}

var (
	kindCRD       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	groupWebhooks = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
)
