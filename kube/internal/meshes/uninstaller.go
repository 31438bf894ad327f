package meshes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// ErrNotInstalled reports that tare did not install the mesh.
var ErrNotInstalled = errors.New("tare has not installed it")

// uninstaller removes a mesh, and checks that nothing of it is left.
type uninstaller struct {
	*instance
	// others: revisions of the mesh remain, which have objects of the same names and the shared charts.
	others bool
	heir   string // one of them
}

func (u *uninstaller) run(ctx context.Context, force bool) error {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, UninstallWithin)
	defer cancel()
	if !u.installable() {
		return nil
	}
	_, ours, err := u.installed(ctx)
	if err != nil {
		return u.failed("uninstall", err)
	}
	if err := u.findOthers(ctx); err != nil {
		return u.failed("uninstall", err)
	}
	if revisions, err := u.revisions(ctx); err != nil || revisions != nil {
		return u.failed("uninstall", cmp.Or(err, hint.New("uninstall each by its name with --force",
			"revisions of it are installed, which share its CRDs: %s", strings.Join(revisions, ", "))))
	}
	if !ours && !force {
		found, err := u.leftovers(ctx)
		if err != nil {
			return u.failed("uninstall", err)
		}
		if len(found) == 0 {
			u.report("the cluster has no objects of mesh %s", u.definition.Name)
			return nil
		}
		advice, err := u.foreignRemains(ctx)
		if err != nil {
			return u.failed("uninstall", err)
		}
		return u.failed("uninstall", hint.New(advice, "%w, and the cluster has objects of it: %s", ErrNotInstalled, list(found)))
	}
	if !force {
		if err := u.refuseInUse(ctx); err != nil {
			return u.failed("uninstall", err)
		}
	}
	return u.failed("uninstall", u.remove(ctx))
}

// refuseInUse refuses to remove a mesh with objects that others configured, or with pods that run its proxy.
func (u *uninstaller) refuseInUse(ctx context.Context) error {
	all, err := u.objects(ctx, cluster.Query{})
	if err != nil {
		return err
	}
	own := customResources(all, u.isLeftover)
	others := refsOf(all, func(o cluster.Object) bool {
		return o.Namespace != "" && slices.Contains(own, o.Ref) && !slices.Contains(u.homes(), o.Namespace) && o.Labels[cluster.LabelManagedBy] != cluster.ManagedBy
	})
	if len(others) > 0 && !u.others {
		return hint.New("keep copies of those that you need; --force deletes them with the mesh", "objects of its kinds that tare did not make would be deleted with it: %s", list(others))
	}
	pods, err := u.withProxies(ctx)
	if err == nil && len(pods) > 0 {
		return hint.New("remove these applications, or recreate their pods without the mesh; --force uninstalls it now", "%s run its proxy: %s",
			printable.Counted(len(pods), "pod"), list(pods))
	}
	return err
}

// foreignRemains is the advice for objects of a mesh that tare did not install. No advice removes a mesh that is in use.
func (u *uninstaller) foreignRemains(ctx context.Context) (string, error) {
	pods, err := u.withProxies(ctx)
	if err != nil {
		return "", err
	}
	if len(pods) > 0 {
		return fmt.Sprintf("%s run its proxy and need it: %s", printable.Counted(len(pods), "pod"), list(pods)), nil
	}
	running, err := adopter{u.instance}.running(ctx)
	if err != nil || len(running) > 0 {
		return "its control plane runs: remove it as it was installed, if nobody needs it", err
	}
	return "no pod runs its proxy: if nobody needs them, `tare mesh uninstall " + u.definition.Name + " --force` removes them", nil
}

// withProxies lists the pods outside the mesh's own namespaces that run its proxy.
func (u *uninstaller) withProxies(ctx context.Context) (found []cluster.Ref, err error) {
	if u.others {
		return nil, nil // the proxies may be of other revisions
	}
	pods, err := podReader{u.cluster}.list(ctx, "")
	for _, p := range pods {
		if slices.Contains(u.homes(), p.Namespace) {
			continue
		}
		if slices.ContainsFunc(u.k.Proxies, func(x mesh.Proxy) bool { has, _ := proxyOf(p, x.Container); return has && x.In == mesh.InPod }) {
			found = append(found, cluster.Ref{Kind: cluster.KindPod, Namespace: p.Namespace, Name: p.Name})
		}
	}
	return found, err
}

// homes are the namespaces of the mesh's control plane and of its charts.
func (u *uninstaller) homes() []string {
	return append([]string{u.k.Namespace}, lists.Map(u.k.Charts, func(c mesh.Chart) string { return cmp.Or(c.Namespace, u.k.Namespace) })...)
}

// revisions are the installed revisions of a mesh that is none itself.
func (u *uninstaller) revisions(ctx context.Context) (names []string, err error) {
	if u.k.Revision != "" {
		return nil, nil
	}
	all, err := Installed(ctx, u.cluster)
	revisions := lists.Where(all, func(i Installation) bool { return !i.is(u.definition) && cmp.Or(i.From, i.Mesh) == u.definition.Name })
	return lists.Map(revisions, func(i Installation) string { return i.Mesh }), err
}

// recordSteps records what Uninstall would do, in a dry run.
func (u *uninstaller) recordSteps() {
	if u.installable() {
		u.cluster.Recorder().Add(cluster.Step{Command: []string{"tare", "mesh", "uninstall", u.definition.Name, "--force"}})
	}
}

// remove uninstalls the mesh, however much of it is there. Until nothing is left, its record says that it is incomplete.
func (u *uninstaller) remove(ctx context.Context) error {
	found, ours, err := u.installed(ctx)
	if err != nil {
		return err
	}
	if !ours {
		found = u.installation(nil)
	}
	found.Incomplete = true
	if err := u.record(ctx, found); err != nil {
		return err
	}
	if err := u.removeObjects(ctx); err != nil {
		return err
	}
	if err := writeRecord(ctx, u.cluster, u.definition.Name, nil); err != nil {
		return err
	}
	return (&nodeInspector{u.instance}).check(ctx)
}

// removeObjects removes the mesh's objects. It is an error if some remain.
func (u *uninstaller) removeObjects(ctx context.Context) error {
	if err := u.findOthers(ctx); err != nil {
		return err
	}
	// Custom resources first: the mesh's controllers remove their finalizers.
	if err := u.removeCustomResources(ctx); err != nil {
		return err
	}
	for _, c := range slices.Backward(u.k.Charts) {
		if u.others && u.shared(c.Release) {
			continue
		}
		namespace := cmp.Or(c.Namespace, u.k.Namespace)
		u.report("uninstalling %s/%s", namespace, c.Release)
		if err := u.helm().Uninstall(ctx, namespace, c.Release); err != nil {
			return err
		}
	}
	if err := u.removeLabelled(ctx); err != nil {
		return err
	}
	if err := u.delete(ctx, cluster.Ref{Kind: cluster.KindNamespace, Name: u.k.Namespace}); err != nil {
		return err
	}
	found, err := u.leftovers(ctx)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		u.report("removing leftovers of the charts: %s", list(found))
		if err := u.delete(ctx, found...); err != nil {
			return err
		}
		u.cluster.Rediscover()
		if found, err = u.leftovers(ctx); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return hint.New("`kubectl describe` shows what holds them; if the controller of a finalizer is gone, remove the finalizer by hand", "not removed: %s", list(found))
	}
	return nil
}

// list names the first of several objects.
func list(refs []cluster.Ref) string {
	return printable.Listed(lists.Map(refs, cluster.Ref.String), 6)
}

// findOthers looks for other revisions of the mesh.
func (u *uninstaller) findOthers(ctx context.Context) error {
	if u.k.Revision == "" {
		return nil
	}
	all, err := Installed(ctx, u.cluster)
	if i := slices.IndexFunc(all, u.isRevision); i >= 0 {
		u.others, u.heir = true, all[i].Mesh
	}
	return err
}

func (u *uninstaller) delete(ctx context.Context, refs ...cluster.Ref) error {
	return u.cluster.Delete(ctx, u.options.Report, refs...)
}

// removeLabelled deletes objects that tare applied itself, not as a chart. Helm's own record of a release has no label.
// Those that another revision uses get its name as their label, so that its removal finds them.
func (u *uninstaller) removeLabelled(ctx context.Context) error {
	all, err := u.objects(ctx, cluster.Query{Selector: cluster.LabelInstalled + "=" + u.definition.Name})
	if err != nil {
		return err
	}
	var refs []cluster.Ref
	for _, o := range all {
		switch {
		case o.Kind == cluster.KindNamespace || o.Owned:
		case !u.inUse(o):
			refs = append(refs, o.Ref)
		default:
			if err := u.cluster.Patch(ctx, o.Ref, fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, cluster.LabelInstalled, u.heir)); err != nil {
				return err
			}
		}
	}
	return u.delete(ctx, refs...)
}

// removeCustomResources deletes the objects of the mesh's own kinds, and leftovers of other custom kinds.
func (u *uninstaller) removeCustomResources(ctx context.Context) error {
	all, err := u.objects(ctx, cluster.Query{})
	if err != nil {
		return err
	}
	refs := customResources(all, u.isLeftover)
	if len(refs) == 0 {
		return nil
	}
	u.report("removing %s", list(refs))
	return u.delete(ctx, refs...)
}

// customResources selects objects of kinds that CRDs define: objects of the mesh's own CRDs, and leftovers of others' CRDs.
// They are deleted together. Consul's controller keeps the configuration of a gateway class as long as the class exists,
// whose kind is not Consul's.
func customResources(all []cluster.Object, isLeftover func(cluster.Object) bool) []cluster.Ref {
	groups := map[string]bool{} // API groups of CRDs, true for the mesh's own
	for _, o := range all {
		if o.Kind.GroupKind() != kindCRD.GroupKind() {
			continue
		}
		// The name of a CRD is the plural of its kind and its group.
		if _, group, ok := strings.Cut(o.Name, "."); ok {
			groups[group] = groups[group] || isLeftover(o)
		}
	}
	return refsOf(all, func(o cluster.Object) bool {
		own, custom := groups[o.Kind.Group]
		return !o.Owned && custom && (own || isLeftover(o))
	})
}

// refsOf are the references of those objects for which is holds.
func refsOf(all []cluster.Object, is func(cluster.Object) bool) []cluster.Ref {
	return lists.Map(lists.Where(all, is), func(o cluster.Object) cluster.Ref { return o.Ref })
}

// leftovers lists the mesh's objects: its namespace, and leftovers that the definition lists. Those may be of other
// revisions: the last one removes them.
func (u *uninstaller) leftovers(ctx context.Context) ([]cluster.Ref, error) {
	all, err := u.objects(ctx, cluster.Query{})
	if err != nil {
		return nil, fmt.Errorf("list objects of the mesh: %w", err)
	}
	return refsOf(all, func(o cluster.Object) bool {
		return o.Kind == cluster.KindNamespace && o.Name == u.k.Namespace || u.isLeftover(o)
	}), nil
}

// objects lists objects of the cluster. A missing permission to list a kind that the definition does not name as a
// leftover is not an error: the mesh's charts have no such objects, or the user could not have installed them.
func (u *uninstaller) objects(ctx context.Context, q cluster.Query) ([]cluster.Object, error) {
	all, err := u.cluster.Objects(ctx, q)
	unlisted, ok := errors.AsType[*cluster.Unlisted](err)
	if !ok {
		return all, err
	}
	for _, l := range u.k.Leftovers {
		resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: l.Group, Kind: l.Kind})
		if slices.Contains(unlisted.Kinds, resource.GroupResource().String()) {
			return all, err
		}
	}
	return all, nil
}

func (u *uninstaller) isLeftover(o cluster.Object) bool {
	if u.inUse(o) {
		return false
	}
	return o.Labels[cluster.LabelInstalled] == u.definition.Name ||
		!u.others && slices.ContainsFunc(u.k.Leftovers, func(l mesh.Leftover) bool {
			return l.Matches(o.Kind.Group, o.Kind.Kind, o.Namespace, o.Name, o.Labels)
		})
}

// inUse reports whether other revisions use an object: CRDs are of the whole cluster.
func (u *uninstaller) inUse(o cluster.Object) bool {
	return u.others && o.Kind.GroupKind() == kindCRD.GroupKind()
}
