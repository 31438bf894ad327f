package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is the metadata of an object.
type Object struct {
	Ref
	Labels      map[string]string
	Annotations map[string]string
	Owned       bool // it has an owner reference, so the garbage collector deletes it
}

// Query selects objects by their metadata.
type Query struct {
	Selector  string                          // label selector, empty for all
	Namespace string                          // empty: all namespaces, and objects without one
	Kinds     func(schema.GroupResource) bool // nil: every kind that can be listed and deleted
}

// Objects lists the objects that match q, without objects that controllers derive from others (events, endpoints).
// What cannot be listed is in the error (kinds without permission in an [*Unlisted]), beside the rest of the objects.
func (c *Cluster) Objects(ctx context.Context, q Query) ([]Object, error) {
	find := c.resources.kinds
	if q.Kinds != nil {
		find = c.resources.kindsNow
	}
	kinds, err := find(ctx)
	if q.Kinds != nil {
		kinds = slices.DeleteFunc(kinds, func(k kind) bool { return !q.Kinds(k.resource.GroupResource()) })
	}
	if len(kinds) == 0 {
		return nil, err
	}
	failed := []error{err}
	if q.Kinds != nil {
		failed = nil // an API group that does not answer is none of those selected
	}
	var unlisted Unlisted
	var all []Object
	for _, k := range kinds {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list the objects of the cluster: %w", ctx.Err())
		}
		found, err := c.resources.list(ctx, k, q.Namespace, q.Selector)
		if apierrors.IsForbidden(err) {
			unlisted.Kinds = append(unlisted.Kinds, k.resource.GroupResource().String())
		} else if err != nil {
			failed = append(failed, err)
		}
		for _, o := range found {
			all = append(all, Object{Ref{k.kind, o.Namespace, o.Name}, o.Labels, o.Annotations, len(o.OwnerReferences) > 0})
		}
	}
	if len(unlisted.Kinds) > 0 {
		failed = append(failed, &unlisted)
	}
	return all, errors.Join(failed...)
}

// Namespaced reports whether objects of a kind are in a namespace, by API discovery. A kind that the cluster does not
// know is an error that wraps [errors.ErrUnsupported].
func (c *Cluster) Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error) {
	var mapping *meta.RESTMapping
	err := c.Retry(ctx, "find the kind "+kind.Kind, func(context.Context) (err error) {
		mapping, err = c.resources.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		return err
	})
	if meta.IsNoMatchError(err) {
		return false, fmt.Errorf("the cluster does not have the kind %s of %s: %w", kind.Kind, kind.GroupVersion(), errors.ErrUnsupported)
	}
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// Unlisted are kinds that the user has no permission to list.
type Unlisted struct {
	Kinds []string // "clusterroles.rbac.authorization.k8s.io"
}

func (u *Unlisted) Error() string {
	const shown = 4
	s := "no permission to list " + strings.Join(u.Kinds[:min(shown, len(u.Kinds))], ", ")
	if more := len(u.Kinds) - shown; more > 0 {
		s += fmt.Sprintf(" and %d more kinds", more)
	}
	return s
}

// Rediscover discards the cached list of kinds, after CustomResourceDefinitions were added or removed.
func (c *Cluster) Rediscover() {
	if !c.DryRun() {
		c.resources.mapper.Reset()
	}
}
