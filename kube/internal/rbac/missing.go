package rbac

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Missing lists the permissions that the connected user lacks, each with only its missing verbs: in one namespace, or
// on the whole cluster if namespace is empty.
func Missing(ctx context.Context, c *cluster.Cluster, namespace string) ([]Permission, error) {
	needed := Needed(namespace != "")
	for i := range needed {
		needed[i].Namespace = namespace
	}
	return MissingOf(ctx, c, needed)
}

// MissingOf lists the given permissions that the connected user lacks, each with only its missing verbs.
func MissingOf(ctx context.Context, c *cluster.Cluster, permissions []Permission) ([]Permission, error) {
	var missing []Permission
	for _, p := range permissions {
		denied := p
		denied.Resources, denied.URLs, denied.Verbs = nil, nil, nil
		for _, question := range p.questions() {
			ok, err := allowed(ctx, c, question)
			if err != nil {
				return nil, err
			}
			if ok {
				continue
			}
			if n := question.NonResourceAttributes; n != nil {
				denied.URLs, denied.Verbs = include(denied.URLs, n.Path), include(denied.Verbs, n.Verb)
				continue
			}
			a := question.ResourceAttributes
			denied.Resources, denied.Verbs = include(denied.Resources, strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")), include(denied.Verbs, a.Verb)
		}
		if len(denied.Verbs) > 0 {
			missing = append(missing, denied)
		}
	}
	return missing, nil
}

func (p Permission) questions() (all []authorizationv1.SelfSubjectAccessReviewSpec) {
	for _, verb := range p.Verbs {
		for _, path := range p.URLs {
			all = append(all, authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb}})
		}
	}
	names := p.Names
	if len(names) == 0 {
		names = []string{""}
	}
	for _, resource := range p.Resources {
		resource, sub, _ := strings.Cut(resource, "/")
		for _, verb := range p.Verbs {
			for _, name := range names {
				all = append(all, authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: p.Namespace, Group: p.Group, Resource: resource, Subresource: sub, Name: name, Verb: verb}})
			}
		}
	}
	return all
}

// allowed reports whether the connected user has a permission.
func allowed(ctx context.Context, c *cluster.Cluster, question authorizationv1.SelfSubjectAccessReviewSpec) (ok bool, err error) {
	err = c.Retry(ctx, "check permissions", func(ctx context.Context) error {
		answer, err := c.Typed().AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: question}, metav1.CreateOptions{})
		if err == nil {
			ok = answer.Status.Allowed
		}
		return err
	})
	return ok, err
}

func include(all []string, s string) []string {
	if slices.Contains(all, s) {
		return all
	}
	return append(all, s)
}
