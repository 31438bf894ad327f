package meshes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// ErrNotInstalled says that there is no mesh of tare's to take out.
var ErrNotInstalled = errors.New("tare has not installed it")

// Uninstall takes the mesh out of the cluster, and returns when nothing is left of it: what the definition names as left
// over is removed too, and looked for once more. One that tare did not install is [ErrNotInstalled] unless force is given;
// where there is nothing at all, nothing is done.
func (m *Mesh) Uninstall(ctx context.Context, force bool) error {
	ctx, cancel := within(ctx, UninstallWithin)
	defer cancel()
	if m.nothing() {
		return nil
	}
	i, ours, err := m.found(ctx)
	if err != nil {
		return m.failed("uninstall", err)
	}
	if !ours && !force {
		remains, err := m.remains(ctx)
		if err != nil {
			return m.failed("uninstall", err)
		}
		if len(remains) == 0 {
			m.report("there is nothing of mesh %s", m.definition.Name)
			return nil
		}
		return m.failed("uninstall", &Error{fmt.Errorf("%w, and there is %s", ErrNotInstalled, list(remains)), "if nobody needs it, --force removes it"})
	}
	if err := m.remove(ctx, i); err != nil {
		return m.failed("uninstall", err)
	}
	return nil
}

// Remains are objects that are left of a mesh.
type Remains struct{ Objects []cluster.Ref }

func (r *Remains) Error() string { return "not all of it is gone: " + list(r.Objects) }

// Hint is what the user can do.
func (r *Remains) Hint() string {
	return "`kubectl describe` shows what holds them; a finalizer whose controller is gone has to be taken off by hand"
}

// list names objects, the first few.
func list(refs []cluster.Ref) string {
	const most = 6
	var names []string
	for _, r := range refs[:min(most, len(refs))] {
		names = append(names, r.String())
	}
	if more := len(refs) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// remove takes out what is there, whatever the state it is in.
func (m *Mesh) remove(ctx context.Context, i Installation) error {
	// Resources of the mesh's own kinds go while there is someone to take their finalizers off.
	if err := m.removeResources(ctx); err != nil {
		return err
	}
	for _, c := range slices.Backward(m.k.Charts) {
		namespace := c.Namespace
		if namespace == "" {
			namespace = m.k.Namespace
		}
		m.report("uninstalling %s/%s", namespace, c.Release)
		if err := m.helm().Uninstall(ctx, namespace, c.Release); err != nil {
			return err
		}
	}
	if err := m.removeMarked(ctx); err != nil {
		return err
	}
	if err := m.cluster.Delete(ctx, m.o.Report, cluster.Ref{Kind: cluster.KindNamespace, Name: m.k.Namespace}); err != nil {
		return err
	}
	remains, err := m.remains(ctx)
	if err != nil {
		return err
	}
	if len(remains) > 0 {
		m.report("removing what the charts leave: %s", list(remains))
		if err := m.cluster.Delete(ctx, m.o.Report, remains...); err != nil {
			return err
		}
		m.cluster.Rediscover()
		if remains, err = m.remains(ctx); err != nil {
			return err
		}
	}
	if len(remains) > 0 {
		return &Remains{remains}
	}
	return m.lookAtNodes(ctx)
}

// removeMarked deletes what was applied and not installed as a chart. Helm's own record of a release carries no such label.
func (m *Mesh) removeMarked(ctx context.Context) error {
	all, err := m.cluster.Objects(ctx, cluster.Query{Selector: cluster.LabelInstalled + "=" + m.definition.Name})
	if err != nil {
		return err
	}
	var refs []cluster.Ref
	for _, o := range all {
		if o.Kind != cluster.KindNamespace && !o.Owned {
			refs = append(refs, o.Ref)
		}
	}
	return m.cluster.Delete(ctx, m.o.Report, refs...)
}

// removeResources deletes what was made of custom kinds: all of the mesh's own, and of others' what is left over.
func (m *Mesh) removeResources(ctx context.Context) error {
	all, err := m.cluster.Objects(ctx, cluster.Query{})
	if err != nil {
		return err
	}
	refs := resources(all, m.isLeft)
	if len(refs) == 0 {
		return nil
	}
	m.report("removing %s", list(refs))
	return m.cluster.Delete(ctx, m.o.Report, refs...)
}

// resources are the objects of kinds that CRDs define which go with a mesh: those of its own CRDs, and those of others'
// that are left over themselves. They go together: Consul's controller keeps the configuration of a gateway class for as
// long as there is the class, whose kind is not its own.
func resources(all []cluster.Object, isLeft func(cluster.Object) bool) (refs []cluster.Ref) {
	own := map[string]bool{} // API groups that CRDs define, and whether the mesh's do
	for _, o := range all {
		if o.Kind.GroupKind() != kindCRD.GroupKind() {
			continue
		}
		// A CRD's name is the plural of its kind and its group; objects are told by the group.
		if _, group, ok := strings.Cut(o.Name, "."); ok {
			own[group] = own[group] || isLeft(o)
		}
	}
	for _, o := range all {
		if mine, custom := own[o.Kind.Group]; !o.Owned && custom && (mine || isLeft(o)) {
			refs = append(refs, o.Ref)
		}
	}
	return refs
}

// remains lists what is there of a mesh: its namespace, and what the definition says is left over.
func (m *Mesh) remains(ctx context.Context) ([]cluster.Ref, error) {
	all, err := m.cluster.Objects(ctx, cluster.Query{})
	if err != nil {
		return nil, fmt.Errorf("look for remains of the mesh: %w", err)
	}
	var refs []cluster.Ref
	for _, o := range all {
		if o.Kind == cluster.KindNamespace && o.Name == m.k.Namespace || m.isLeft(o) {
			refs = append(refs, o.Ref)
		}
	}
	return refs, nil
}

func (m *Mesh) isLeft(o cluster.Object) bool {
	return o.Labels[cluster.LabelInstalled] == m.definition.Name ||
		slices.ContainsFunc(m.k.Leftovers, func(l mesh.Leftover) bool {
			return l.Matches(o.Kind.Group, o.Kind.Kind, o.Namespace, o.Name, o.Labels)
		})
}
