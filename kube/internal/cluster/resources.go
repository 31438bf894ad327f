package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/tare-mesh/tare/internal/base/wait"
)

// resources finds the kinds of a cluster by API discovery, and lists and addresses their objects.
type resources struct {
	requests  requests
	discovery discovery.DiscoveryInterface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	mapper    meta.ResettableRESTMapper
	groupAway atomic.Bool // an API group did not answer within awaitGroups
}

// kind is one kind of object that the cluster can list and delete.
type kind struct {
	kind       schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
}

// derived are kinds that controllers create with the labels of another object, and remove with it.
var derived = map[schema.GroupKind]bool{
	{Kind: "Endpoints"}:                                true,
	{Kind: "Event"}:                                    true,
	{Group: "events.k8s.io", Kind: "Event"}:            true,
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}: true,
	{Group: "metrics.k8s.io", Kind: "PodMetrics"}:      true,
	{Group: "metrics.k8s.io", Kind: "NodeMetrics"}:     true,
}

// pageSize bounds one page of a list.
const pageSize = 500

// client addresses the objects of the reference's kind, in its namespace.
func (r *resources) client(ctx context.Context, ref Ref) (dynamic.ResourceInterface, error) {
	var mapping *meta.RESTMapping
	err := r.requests.retry(ctx, "find the kind "+ref.Kind.Kind, func(context.Context) error {
		var err error
		mapping, err = r.mapper.RESTMapping(ref.Kind.GroupKind(), ref.Kind.Version)
		return err
	})
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return r.dynamic.Resource(mapping.Resource), nil
	}
	if ref.Namespace == "" {
		return nil, fmt.Errorf("%s: a %s needs a namespace", ref, ref.Kind.Kind)
	}
	return r.dynamic.Resource(mapping.Resource).Namespace(ref.Namespace), nil
}

// awaitGroups is the time for an API group to answer: an aggregated API is away while its server restarts.
const awaitGroups = 30 * time.Second

// kinds lists the kinds that the cluster can list and delete, each in its preferred version. If an API group does not
// answer for some time (an aggregated API that is down), the kinds of the other groups are returned with the error.
// Later calls do not wait for it again.
func (r *resources) kinds(ctx context.Context) ([]kind, error) {
	for began, pause := time.Now(), firstPause; ; pause = min(2*pause, longestPause) {
		all, err := r.kindsNow(ctx)
		if away := discovery.IsGroupDiscoveryFailedError(err); !away || r.groupAway.Load() {
			r.groupAway.Store(away)
			return all, err
		}
		if time.Since(began) > awaitGroups || wait.For(ctx, pause) != nil {
			r.groupAway.Store(true)
			return all, err
		}
	}
}

// kindsNow is [resources.kinds] without waiting for API groups.
func (r *resources) kindsNow(ctx context.Context) ([]kind, error) {
	var all []kind
	var partial error
	err := r.requests.retry(ctx, "list the kinds of objects", func(context.Context) error {
		all, partial = nil, nil
		lists, err := discovery.ServerPreferredResources(r.discovery)
		if err != nil {
			if !discovery.IsGroupDiscoveryFailedError(err) {
				return err
			}
			partial = err
		}
		for _, list := range lists {
			group, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				return fmt.Errorf("group %q: %w", list.GroupVersion, err)
			}
			for _, api := range list.APIResources {
				k := kind{group.WithKind(api.Kind), group.WithResource(api.Name), api.Namespaced}
				if slices.Contains(api.Verbs, "list") && slices.Contains(api.Verbs, "delete") && !derived[k.kind.GroupKind()] {
					all = append(all, k)
				}
			}
		}
		return nil
	})
	if err == nil {
		err = partial
	}
	return all, err
}

// list returns the metadata of the objects of a kind that match a label selector. An empty selector or namespace
// matches all. The result is empty for a kind that no longer exists or does not support listing.
func (r *resources) list(ctx context.Context, k kind, namespace, selector string) (all []metav1.PartialObjectMetadata, err error) {
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		var page *metav1.PartialObjectMetadataList
		err := r.requests.retry(ctx, "list "+k.resource.Resource, func(ctx context.Context) error {
			var err error
			page, err = r.metadata.Resource(k.resource).Namespace(namespace).List(ctx, options)
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
