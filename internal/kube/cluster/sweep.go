package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Leftover is what one run has in the cluster.
type Leftover struct {
	Run     string
	Owner   Owner
	Objects []Ref // namespaces first; what lies in one of them goes with it and is not listed
}

// State says whether the run's process lives, as far as can be seen from here.
func (l Leftover) State() State { return l.Owner.State() }

// Leftovers lists what runs have in the cluster, living ones included, by run. Looked at are namespaces, every kind that
// has no namespace, and every kind in namespaces that are not tare's. What could not be looked at is in the error (kinds
// that may not be listed in a [*Hidden]), and the rest is returned with it.
func (c *Cluster) Leftovers(ctx context.Context) ([]Leftover, error) {
	kinds, err := c.kinds(ctx)
	if len(kinds) == 0 {
		return nil, err
	}
	return c.leftovers(ctx, kinds, "", err)
}

// LeftoversIn is [Cluster.Leftovers] in one namespace that runs were given, where looked at is what a run there may make.
func (c *Cluster) LeftoversIn(ctx context.Context, namespace string) ([]Leftover, error) {
	kinds, err := c.kinds(ctx)
	kinds = slices.DeleteFunc(kinds, func(k kind) bool { return !madeInNamespace(k) })
	if len(kinds) == 0 {
		return nil, err
	}
	return c.leftovers(ctx, kinds, namespace, nil) // what does not answer is of another kind
}

// leftovers looks through kinds, in one namespace or in all where none is named.
func (c *Cluster) leftovers(ctx context.Context, kinds []kind, namespace string, err error) ([]Leftover, error) {
	runs := map[string]*Leftover{}
	ours := map[string]bool{}
	// Namespaces first: what lies in one of ours needs no line of its own.
	slices.SortStableFunc(kinds, func(a, b kind) int {
		return cmp.Compare(rank(a), rank(b))
	})
	failed := []error{err}
	var hidden Hidden
	for _, k := range kinds {
		found, err := c.listed(ctx, k, namespace, LabelRun)
		if apierrors.IsForbidden(err) {
			hidden.Kinds = append(hidden.Kinds, k.resource.GroupResource().String())
		} else if err != nil {
			failed = append(failed, err)
		}
		for _, o := range found {
			if k.kind == KindNamespace {
				ours[o.Name] = true
			}
			if ours[o.Namespace] || len(o.OwnerReferences) > 0 {
				continue
			}
			run := o.Labels[LabelRun]
			if runs[run] == nil {
				runs[run] = &Leftover{Run: run}
			}
			runs[run].add(Ref{k.kind, o.Namespace, o.Name}, o.Annotations[AnnotationOwner])
		}
	}
	var all []Leftover
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		all = append(all, *runs[run])
	}
	if len(hidden.Kinds) > 0 {
		failed = append(failed, &hidden)
	}
	return all, errors.Join(failed...)
}

// Hidden are kinds of objects that may not be listed: whether runs left any cannot be seen.
type Hidden struct {
	Kinds []string // "clusterroles.rbac.authorization.k8s.io"
}

func (h *Hidden) Error() string {
	const most = 4
	s := "not looked at for want of the right to list them: " + strings.Join(h.Kinds[:min(most, len(h.Kinds))], ", ")
	if more := len(h.Kinds) - most; more > 0 {
		s += fmt.Sprintf(" and %d more kinds", more)
	}
	return s
}

// rank orders kinds as they are looked at and deleted.
func rank(k kind) int {
	switch {
	case k.kind == KindNamespace:
		return 0
	case !k.namespaced:
		return 1
	}
	return 2
}

// add notes an object. Where a run was resumed its objects have several owners: the most alive counts.
func (l *Leftover) add(ref Ref, annotation string) {
	l.Objects = append(l.Objects, ref)
	var owner Owner
	if json.Unmarshal([]byte(annotation), &owner) != nil {
		owner = Owner{}
	}
	order := []State{Alive, Elsewhere, Dead, Unmarked}
	if len(l.Objects) == 1 || slices.Index(order, owner.State()) < slices.Index(order, l.Owner.State()) {
		l.Owner = owner
	}
}

// listed lists the objects of a kind that a selector matches, all where it is empty, in one namespace or in all. A kind
// that cannot be listed after all (gone since, or an API that says so in its own way) has none.
func (c *Cluster) listed(ctx context.Context, k kind, namespace, selector string) (all []metav1.PartialObjectMetadata, err error) {
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		var page *metav1.PartialObjectMetadataList
		err := c.Retry(ctx, "list "+k.resource.Resource, func(ctx context.Context) error {
			var err error
			page, err = c.metadata.Resource(k.resource).Namespace(namespace).List(ctx, options)
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				page, err = &metav1.PartialObjectMetadataList{}, nil
			}
			return err
		})
		if err != nil {
			return all, err
		}
		all = append(all, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// SweepDead removes what runs left behind whose process on this machine is dead, and returns what it set out to remove.
// Runs that live, and those of other machines, are left alone; what could not be looked at is told to report. In a dry
// run it does nothing. It is what a run does before its first trial.
func (c *Cluster) SweepDead(ctx context.Context, report func(string)) ([]Leftover, error) {
	return c.sweepDead(ctx, report, c.Leftovers)
}

// SweepDeadIn is [Cluster.SweepDead] in one namespace that runs were given.
func (c *Cluster) SweepDeadIn(ctx context.Context, namespace string, report func(string)) ([]Leftover, error) {
	return c.sweepDead(ctx, report, func(ctx context.Context) ([]Leftover, error) { return c.LeftoversIn(ctx, namespace) })
}

func (c *Cluster) sweepDead(ctx context.Context, report func(string), look func(context.Context) ([]Leftover, error)) ([]Leftover, error) {
	if c.DryRun() {
		return nil, nil
	}
	all, err := look(ctx)
	if err != nil && report != nil {
		report("look for what earlier runs left: " + err.Error())
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("sweep what earlier runs left: %w", ctx.Err())
	}
	dead := slices.DeleteFunc(all, func(l Leftover) bool { return l.State() != Dead })
	return dead, c.Sweep(ctx, report, dead...)
}

// Sweep removes what these runs have in the cluster, whether they live or not, and waits until it is gone.
func (c *Cluster) Sweep(ctx context.Context, report func(string), runs ...Leftover) error {
	var refs []Ref
	for _, l := range runs {
		refs = append(refs, l.Objects...)
	}
	if err := c.Delete(ctx, report, refs...); err != nil {
		return fmt.Errorf("sweep what earlier runs left: %w", err)
	}
	return nil
}
