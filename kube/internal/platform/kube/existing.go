package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/leftover"
)

// leftovers finds and removes objects of other runs.
type leftovers struct{ *Options }

// sweep removes the objects of dead runs. An existing namespace must then hold no object of another run: names of
// services would collide.
func (l leftovers) sweep(ctx context.Context) error {
	namespace := l.Namespace
	if l.InPlace { // meshes and other trials of a run in place are elsewhere in the cluster
		namespace = ""
	}
	swept, err := leftover.DeleteDead(ctx, l.Cluster, namespace, l.Report)
	if err != nil {
		return err
	}
	for _, s := range swept {
		l.Report(fmt.Sprintf("removed leftovers of run %s from the cluster", s.ID))
	}
	if !l.existing() {
		return nil
	}
	all, err := l.inNamespace(ctx)
	for _, other := range all {
		if other.ID != l.Run {
			return hint.New("wait until it ends; if it has, remove them: `tare cluster cleanup --namespace "+l.Namespace+" --run "+other.ID+"`",
				"namespace %s holds objects of run %s: %s", l.Namespace, other.ID, refNames(other.Objects))
		}
	}
	return err
}

// ownRun deletes the objects of an interrupted trial of this run.
func (l leftovers) ownRun(ctx context.Context) error {
	all, err := l.inNamespace(ctx)
	if err != nil {
		return err
	}
	for _, found := range all {
		if found.ID == l.Run {
			// The run's Lease remains until its end.
			found.Objects = slices.DeleteFunc(found.Objects, func(r cluster.Ref) bool { return r.Kind.Kind == "Lease" })
			return leftover.Delete(ctx, l.Cluster, l.Report, found)
		}
	}
	return nil
}

// inNamespace lists the objects of runs in the existing namespace. A kind that cannot be listed there cannot be created
// there, so it is skipped.
func (l leftovers) inNamespace(ctx context.Context) ([]leftover.Run, error) {
	all, err := leftover.Find(ctx, l.Cluster, l.Namespace)
	if _, ok := errors.AsType[*cluster.Unlisted](err); ok {
		err = nil
	}
	return all, err
}

func refNames(refs []cluster.Ref) string {
	return strings.Join(printable.Texts(refs, cluster.Ref.String), ", ")
}

// checkMeshAllowed refuses a mesh in an existing namespace.
func (o *Options) checkMeshAllowed(m mesh.Definition) error {
	if !o.existing() || o.InPlace || m.Kubernetes == nil {
		return nil
	}
	return hint.New("remove platform.namespace: a mesh needs cluster-wide RBAC permissions",
		"mesh %s labels its namespaces, and %s is an existing namespace", m.Name, o.Namespace)
}
