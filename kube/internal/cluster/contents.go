package cluster

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Contents reads the objects of some kinds in a namespace, whole. Kinds that the cluster lacks have none.
func (c *Cluster) Contents(ctx context.Context, namespace string, of []schema.GroupResource) ([]unstructured.Unstructured, error) {
	kinds, err := c.resources.kinds(ctx)
	if len(kinds) == 0 {
		return nil, err
	}
	var all []unstructured.Unstructured
	for _, k := range kinds {
		if !k.namespaced || !slices.Contains(of, k.resource.GroupResource()) {
			continue
		}
		found, err := c.resources.whole(ctx, k, namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// whole lists the objects of a kind in a namespace with all their fields.
func (r *resources) whole(ctx context.Context, k kind, namespace string) (all []unstructured.Unstructured, err error) {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		var page *unstructured.UnstructuredList
		err := r.requests.retry(ctx, fmt.Sprintf("list %s of %s", k.resource.Resource, namespace), func(ctx context.Context) error {
			var err error
			page, err = r.dynamic.Resource(k.resource).Namespace(namespace).List(ctx, options)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			o.SetGroupVersionKind(k.kind) // items of some lists have none
			all = append(all, o)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}
