package cluster

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// kind is one kind of object that the cluster can list and delete.
type kind struct {
	kind       schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
}

// derived are kinds that others make, with the labels of what they are made from; they go when that goes.
var derived = map[schema.GroupKind]bool{
	{Kind: "Endpoints"}:                                true,
	{Kind: "Event"}:                                    true,
	{Group: "events.k8s.io", Kind: "Event"}:            true,
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}: true,
	{Group: "metrics.k8s.io", Kind: "PodMetrics"}:      true,
	{Group: "metrics.k8s.io", Kind: "NodeMetrics"}:     true,
}

// kinds lists what the cluster can list and delete, each in the version it prefers. The error says which groups do not
// answer (an aggregated API that is away); the kinds of the others are returned with it.
func (c *Cluster) kinds(ctx context.Context) ([]kind, error) {
	var all []kind
	var partly error
	err := c.Retry(ctx, "list the kinds of objects", func(context.Context) error {
		all, partly = nil, nil
		lists, err := discovery.ServerPreferredResources(c.typed.Discovery())
		if err != nil {
			if !discovery.IsGroupDiscoveryFailedError(err) {
				return err
			}
			partly = err
		}
		for _, list := range lists {
			group, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				return fmt.Errorf("group %q: %w", list.GroupVersion, err)
			}
			for _, r := range list.APIResources {
				k := kind{group.WithKind(r.Kind), group.WithResource(r.Name), r.Namespaced}
				if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && !derived[k.kind.GroupKind()] {
					all = append(all, k)
				}
			}
		}
		return nil
	})
	if err == nil {
		err = partly
	}
	return all, err
}
