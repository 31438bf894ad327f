package meshes

import (
	"context"
	"errors"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// AddRevision installs the control plane of a further revision in the mesh's namespace, and returns when it is ready.
// [Mesh.RemoveRevision] removes it, or the removal of the mesh.
func (m *Mesh) AddRevision(ctx context.Context, revision string) error {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, InstallWithin)
	defer cancel()
	n, err := m.revisionInstaller(revision)
	if err != nil {
		return err
	}
	info, err := readClusterInfo(ctx, n.cluster, n.options.ServiceCIDR)
	if err != nil {
		return n.failed("install revision "+revision+" of", err)
	}
	in, err := n.templateValues(info)
	if err == nil {
		_, err = n.installCharts(ctx, in)
	}
	if err == nil {
		err = n.waitReady(ctx)
	}
	if err != nil {
		return n.failed("install revision "+revision+" of", err)
	}
	return nil
}

// RemoveRevision removes a revision of [Mesh.AddRevision], also one that is not complete.
func (m *Mesh) RemoveRevision(ctx context.Context, revision string) error {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, UninstallWithin)
	defer cancel()
	n, err := m.revisionInstaller(revision)
	if err != nil {
		return err
	}
	for _, c := range n.k.Charts {
		if !n.shared(c.Release) {
			err = errors.Join(err, n.helm().Uninstall(ctx, n.k.Namespace, c.Release+n.suffix))
		}
	}
	if err != nil {
		return n.failed("uninstall revision "+revision+" of", err)
	}
	return nil
}

// Move renders what puts a namespace under a revision of [Mesh.AddRevision].
func (m *Mesh) Move(namespace, revision string, way mesh.Way) (mesh.Enrolled, error) {
	n, err := m.revisionInstaller(revision)
	if err != nil {
		return mesh.Enrolled{}, err
	}
	return n.k.Enrol(n.settings, namespace, way)
}

// revisionInstaller installs the charts that the revisions of a mesh do not share.
func (m *Mesh) revisionInstaller(revision string) (*installer, error) {
	next, err := m.definition.NextRevision(revision)
	if err != nil {
		return nil, err
	}
	i := *m.instance
	i.definition, i.k = next, *next.Kubernetes
	n := newInstaller(&i)
	n.others, n.suffix = true, "-"+revision
	return n, nil
}
