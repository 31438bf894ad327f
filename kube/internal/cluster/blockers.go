package cluster

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kinds of reasons why a deleted object still exists.
const (
	blockedByFinalizers = "finalizers"
	blockedByDiscovery  = "discovery"
	blockedByPods       = "pods"
	blockedByNode       = "node"
)

// namespaceConditions are the conditions by which the namespace controller explains a pending deletion, most
// informative first.
var namespaceConditions = []struct{ name, kind string }{
	{"NamespaceDeletionDiscoveryFailure", blockedByDiscovery},
	{"NamespaceDeletionGroupVersionParsingFailure", blockedByDiscovery},
	{"NamespaceFinalizersRemaining", blockedByFinalizers},
	{"NamespaceDeletionContentFailure", blockedByFinalizers},
	{"NamespaceContentRemaining", blockedByPods},
}

// blockers explains why an object that was deleted still exists.
func (x *explainer) blockers(ctx context.Context, o *unstructured.Unstructured) (e explanation) {
	ctx, cancel := context.WithTimeout(ctx, explainFor)
	defer cancel()
	own := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	if len(own) > 0 {
		e.reasons = append(e.reasons, reason{kind: blockedByFinalizers, text: "its own finalizers: " + strings.Join(own, ", ")})
	} else if len(o.GetFinalizers()) > 0 {
		e.reasons = append(e.reasons, reason{kind: blockedByPods, text: "its dependents still exist"})
	}
	if o.GroupVersionKind().GroupKind() != KindNamespace.GroupKind() {
		return e
	}
	for _, known := range namespaceConditions {
		if found, ok := conditionOf(o, known.name); ok && found.status == "True" {
			e.reasons = append(e.reasons, reason{kind: known.kind, text: oneLine(found.message)})
		}
	}
	remaining, err := x.withFinalizers(ctx, o.GetName())
	if err != nil {
		remaining = append(remaining, "its content cannot be listed: "+message(err))
	}
	for _, r := range remaining {
		e.reasons = append(e.reasons, reason{text: r})
	}
	return e
}

// withFinalizers lists the objects of a namespace that have finalizers: "configmap shop/x, held by finalizers a/b".
func (x *explainer) withFinalizers(ctx context.Context, namespace string) (held []string, err error) {
	kinds, err := x.resources.kinds(ctx)
	for _, k := range kinds {
		if !k.namespaced {
			continue
		}
		list, listErr := x.resources.metadata.Resource(k.resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: explainPods})
		if listErr != nil {
			continue // the namespace's own conditions name kinds that cannot be listed
		}
		for _, o := range list.Items {
			if len(o.Finalizers) > 0 {
				held = append(held, Ref{k.kind, namespace, o.Name}.String()+heldBy(o.Finalizers))
			}
		}
	}
	return held, err
}
