package cluster

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Right is one thing that tare must be allowed to do, and what is lost where it is not.
type Right struct {
	Group     string // of the API; empty: the core's
	Resources []string
	Verbs     []string
	Cluster   bool   // it is about the cluster, and cannot be had in one namespace
	For       string // what it is for
	Without   string // what is lost
}

// What tare does with its own objects.
var (
	manage = []string{"get", "list", "watch", "create", "patch", "delete"}
	look   = []string{"get", "list", "watch"}
)

// rights is all that a run on a cluster needs, and a namespaced run where Cluster is false.
var rights = []Right{
	{"", []string{"namespaces"}, manage, true,
		"a namespace of its own for each trial; guarding a cluster in use; sweeping what dead runs left",
		"a namespace must be given (platform.namespace); whether the cluster is in use cannot be seen, and no mesh can be had"},
	{"", []string{"configmaps", "secrets", "services", "serviceaccounts"}, manage, false,
		"the services under test and their configuration", "no run"},
	{"", []string{"pods"}, manage, false,
		"waiting for pods, and ending them as a fault", "no run"},
	{"apps", []string{"deployments", "statefulsets", "daemonsets"}, manage, false,
		"the services under test", "no run"},
	{"apps", []string{"replicasets"}, look, false,
		"naming what a pod belongs to", "a pod's owner is its ReplicaSet"},
	{"batch", []string{"jobs"}, manage, false,
		"load workers", "no run"},
	{"", []string{"pods/log"}, []string{"get"}, false,
		"the last lines of a container that failed", "a failure is told without them"},
	// A WebSocket begins with GET; servers differ in which of the two verbs they ask for.
	{"", []string{"pods/portforward"}, []string{"get", "create"}, false,
		"speaking with load workers beside the mesh", "no run"},
	{"", []string{"events", "resourcequotas"}, look, false,
		"saying why something is not ready", "a failure is told without its cause"},
	{"", []string{"nodes"}, look, true,
		"what the nodes are and can give; placing pods", "no table of nodes, no affinity"},
	{"", []string{"nodes/proxy"}, []string{"get"}, true,
		"CPU and memory of every container from the kubelets' own counters",
		"the Metrics API instead: a reading every 15 s or so, averages and not counters"},
	{"metrics.k8s.io", []string{"pods", "nodes"}, []string{"get", "list"}, false,
		"CPU and memory where kubelets may not be asked", "nothing, where nodes/proxy is granted"},
}

// Rights lists what a run needs: on a cluster, or in one namespace that it is given.
func Rights(namespaced bool) []Right {
	if !namespaced {
		return slices.Clone(rights)
	}
	return slices.DeleteFunc(slices.Clone(rights), func(r Right) bool { return r.Cluster })
}

// madeInNamespace says that a run makes objects of a kind in a namespace that it is given.
func madeInNamespace(k kind) bool {
	return slices.ContainsFunc(rights, func(r Right) bool {
		return !r.Cluster && r.Group == k.resource.Group && slices.Contains(r.Resources, k.resource.Resource) && slices.Contains(r.Verbs, "delete")
	})
}

// lost lists what cannot be granted in one namespace.
func lost() []Right {
	return slices.DeleteFunc(slices.Clone(rights), func(r Right) bool { return !r.Cluster })
}

// Subject is who the rights are granted to.
type Subject struct {
	Kind      string // User, Group or ServiceAccount
	Namespace string // a ServiceAccount's
	Name      string
}

// ParseSubject reads user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME.
func ParseSubject(s string) (Subject, error) {
	kind, name, _ := strings.Cut(s, ":")
	kinds := map[string]string{"user": "User", "group": "Group", "serviceaccount": "ServiceAccount"}
	subject := Subject{Kind: kinds[kind], Name: name}
	valid := subject.Kind != "" && name != ""
	if subject.Kind == "ServiceAccount" {
		subject.Namespace, subject.Name, _ = strings.Cut(name, "/")
		valid = subject.Namespace != "" && subject.Name != ""
	}
	if !valid {
		return Subject{}, &Error{"read subject " + s, fmt.Errorf("neither user:NAME, group:NAME nor serviceaccount:NAMESPACE/NAME"), ""}
	}
	return subject, nil
}

// WriteRBAC prints the manifest that grants the rights of a run to subject: a ClusterRole, or a Role in namespace where
// one is given. Its comments say what each right is for.
func WriteRBAC(w io.Writer, namespace string, subject Subject) error {
	if wrong := validation.IsDNS1123Label(namespace); namespace != "" && len(wrong) > 0 {
		return &Error{"name a namespace", fmt.Errorf("%q: %s", namespace, wrong[0]), ""}
	}
	role, meta := "ClusterRole", "metadata: {name: tare, labels: {"+LabelManagedBy+": "+ManagedBy+"}}"
	if namespace != "" {
		role = "Role"
		meta = "metadata: {name: tare, namespace: " + namespace + ", labels: {" + LabelManagedBy + ": " + ManagedBy + "}}"
	}
	var b strings.Builder
	b.WriteString("# What tare may do, and no more. Apply it as somebody who may grant rights: kubectl apply -f -\n")
	if namespace != "" {
		b.WriteString("# In one namespace there cannot be had:\n")
		for _, r := range lost() {
			fmt.Fprintf(&b, "#   %s: %s\n", strings.Join(r.Resources, ", "), r.Without)
		}
	} else {
		b.WriteString("# Namespaces are made as trials need them, so the rights within them cannot be bound to names beforehand.\n")
	}
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\n%s\nrules:\n", role, meta)
	for _, r := range Rights(namespace != "") {
		fmt.Fprintf(&b, "# for %s; without it: %s\n", r.For, r.Without)
		fmt.Fprintf(&b, "- apiGroups: [%q]\n  resources: [%s]\n  verbs: [%s]\n", r.Group, strings.Join(r.Resources, ", "), strings.Join(r.Verbs, ", "))
	}
	fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\n%s\n", role, meta)
	fmt.Fprintf(&b, "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: tare}\nsubjects:\n", role)
	if subject.Kind == "ServiceAccount" {
		fmt.Fprintf(&b, "- {kind: ServiceAccount, namespace: %q, name: %q}\n", subject.Namespace, subject.Name)
	} else {
		fmt.Fprintf(&b, "- {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %q}\n", subject.Kind, subject.Name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Missing lists the rights that whoever is connected has not, with only the verbs that are missing; in one namespace, or
// on the whole cluster where namespace is empty.
func (c *Cluster) Missing(ctx context.Context, namespace string) ([]Right, error) {
	var missing []Right
	for _, r := range Rights(namespace != "") {
		denied := Right{Group: r.Group, Cluster: r.Cluster, For: r.For, Without: r.Without}
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				ok, err := c.may(ctx, namespace, r.Group, resource, verb)
				if err != nil {
					return nil, err
				}
				if !ok {
					denied.Resources, denied.Verbs = include(denied.Resources, resource), include(denied.Verbs, verb)
				}
			}
		}
		if len(denied.Verbs) > 0 {
			missing = append(missing, denied)
		}
	}
	return missing, nil
}

// may asks the API server whether whoever is connected may do something.
func (c *Cluster) may(ctx context.Context, namespace, group, resource, verb string) (ok bool, err error) {
	name, sub, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Group: group, Resource: name, Subresource: sub, Verb: verb}}}
	err = c.Retry(ctx, "ask for the right to "+verb+" "+resource, func(ctx context.Context) error {
		answer, err := c.typed.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
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
