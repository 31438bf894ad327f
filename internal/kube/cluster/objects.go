package cluster

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Object is what is known of an object without reading it.
type Object struct {
	Ref
	Labels      map[string]string
	Annotations map[string]string
	Owned       bool // another object owns it, and takes it along
}

// Objects lists the objects of every kind that a label selector matches, all where it is empty, but for those that
// others make of them (events, endpoints). What could not be looked at is in the error (kinds that may not be listed in a
// [*Hidden]), and the rest is returned with it.
func (c *Cluster) Objects(ctx context.Context, selector string) ([]Object, error) {
	kinds, err := c.kinds(ctx)
	failed := []error{err}
	var hidden Hidden
	var all []Object
	for _, k := range kinds {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list the objects of the cluster: %w", ctx.Err())
		}
		found, err := c.listed(ctx, k, "", selector)
		if apierrors.IsForbidden(err) {
			hidden.Kinds = append(hidden.Kinds, k.resource.GroupResource().String())
		} else if err != nil {
			failed = append(failed, err)
		}
		for _, o := range found {
			all = append(all, Object{Ref{k.kind, o.Namespace, o.Name}, o.Labels, o.Annotations, len(o.OwnerReferences) > 0})
		}
	}
	if len(hidden.Kinds) > 0 {
		failed = append(failed, &hidden)
	}
	return all, errors.Join(failed...)
}

// Rediscover forgets which kinds the cluster has: definitions of new ones came or went.
func (c *Cluster) Rediscover() { c.mapper.Reset() }
