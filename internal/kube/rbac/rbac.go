// Package rbac lists the RBAC permissions that a run needs, prints the manifest
// that grants them, and checks which are missing.
package rbac

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Permission is one rule of a role, with its purpose.
type Permission struct {
	Group     string // API group; empty: the core group
	Resources []string
	Verbs     []string
	Cluster   bool   // a Role in one namespace cannot grant it
	For       string // purpose
	Without   string // consequence if it is missing
}

// NoRun is the consequence of a missing permission without which no run is possible.
const NoRun = "no run"

var (
	manage = []string{"get", "list", "watch", "create", "patch", "delete"}
	read   = []string{"get", "list", "watch"}
)

// needed are the permissions of a run; in one namespace without Cluster ones.
var needed = []Permission{
	{"", []string{"namespaces"}, manage, true,
		"a namespace for each trial; the guard of clusters in use; deleting leftovers of ended runs",
		"an existing namespace is required (platform.namespace); the guard cannot check the cluster; no meshes"},
	{"", []string{"configmaps", "secrets", "services", "serviceaccounts"}, manage, false,
		"the services under test and their configuration", NoRun},
	{"", []string{"pods"}, manage, false,
		"waiting for pods, and deleting them as a fault", NoRun},
	{"apps", []string{"deployments", "statefulsets", "daemonsets"}, manage, false,
		"the services under test", NoRun},
	{"apps", []string{"replicasets"}, read, false,
		"the workload of a pod", "a pod's workload is its ReplicaSet"},
	{"batch", []string{"jobs"}, manage, false,
		"load workers", NoRun},
	{"", []string{"pods/log"}, []string{"get"}, false,
		"the end of a failed container's log", "failures are reported without logs"},
	// A WebSocket begins with GET; which of the two verbs a server checks depends on its version.
	{"", []string{"pods/portforward"}, []string{"get", "create"}, false,
		"connections to load workers that bypass the mesh", NoRun},
	{"coordination.k8s.io", []string{"leases"}, []string{"get", "list", "create", "update", "delete"}, false,
		"the Lease that a run holds, so that no second run measures at the same time", "two runs at once are not refused"},
	{"", []string{"events", "resourcequotas"}, read, false,
		"the reason why an object is not ready", "failures are reported without their cause"},
	{"", []string{"nodes"}, read, true,
		"capacity of the nodes; placement of pods", "no table of nodes, no affinity"},
	{"", []string{"nodes/proxy"}, []string{"get"}, true,
		"CPU and memory of every container from the kubelets' counters",
		"the Metrics API instead: averages, not counters, every 15 s or so"},
	{"metrics.k8s.io", []string{"pods", "nodes"}, []string{"get", "list"}, false,
		"CPU and memory if the kubelets cannot be read", "nothing, if nodes/proxy is granted"},
}

// Needed lists the permissions that a run needs: on a cluster, or in one existing namespace.
func Needed(inNamespace bool) []Permission {
	return slices.DeleteFunc(slices.Clone(needed), func(p Permission) bool { return inNamespace && p.Cluster })
}

// CreatesInNamespace reports whether a run in an existing namespace creates objects of a resource.
func CreatesInNamespace(r schema.GroupResource) bool {
	return slices.ContainsFunc(needed, func(p Permission) bool {
		return !p.Cluster && p.Group == r.Group && slices.Contains(p.Resources, r.Resource) && slices.Contains(p.Verbs, "delete")
	})
}

// Subject is the user, group or service account that receives the permissions.
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
		return Subject{}, fmt.Errorf("subject %q: neither user:NAME, group:NAME nor serviceaccount:NAMESPACE/NAME", s)
	}
	return subject, nil
}

// Write prints the manifest that grants a run's permissions to subject: a ClusterRole, or a Role if namespace is not
// empty. Its comments give the purpose of each rule.
func Write(w io.Writer, namespace string, subject Subject) error {
	if wrong := validation.IsDNS1123Label(namespace); namespace != "" && len(wrong) > 0 {
		return fmt.Errorf("namespace %q: %s", namespace, wrong[0])
	}
	labels := "labels: {" + cluster.LabelManagedBy + ": " + cluster.ManagedBy + "}"
	role, meta := "ClusterRole", "metadata: {name: tare, "+labels+"}"
	if namespace != "" {
		role, meta = "Role", "metadata: {name: tare, namespace: "+namespace+", "+labels+"}"
	}
	var b strings.Builder
	b.WriteString("# RBAC permissions of tare. Apply with the permission to grant them: kubectl apply -f -\n")
	if namespace != "" {
		b.WriteString("# A Role in one namespace cannot grant:\n")
		for _, p := range needed {
			if p.Cluster {
				fmt.Fprintf(&b, "#   %s; without: %s\n", strings.Join(p.Resources, ", "), p.Without)
			}
		}
	} else {
		b.WriteString("# Trials create their own namespaces, whose names are not known in advance.\n")
	}
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\n%s\nrules:\n", role, meta)
	for _, p := range Needed(namespace != "") {
		fmt.Fprintf(&b, "# for %s; without: %s\n", p.For, p.Without)
		fmt.Fprintf(&b, "- apiGroups: [%q]\n  resources: [%s]\n  verbs: [%s]\n", p.Group, strings.Join(p.Resources, ", "), strings.Join(p.Verbs, ", "))
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

// Missing lists the permissions that the connected user lacks, each with only its missing verbs: in one namespace, or
// on the whole cluster if namespace is empty.
func Missing(ctx context.Context, c *cluster.Cluster, namespace string) ([]Permission, error) {
	var missing []Permission
	for _, p := range Needed(namespace != "") {
		denied := Permission{Group: p.Group, Cluster: p.Cluster, For: p.For, Without: p.Without}
		for _, resource := range p.Resources {
			for _, verb := range p.Verbs {
				ok, err := allowed(ctx, c, namespace, p.Group, resource, verb)
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

// allowed reports whether the connected user has a permission.
func allowed(ctx context.Context, c *cluster.Cluster, namespace, group, resource, verb string) (ok bool, err error) {
	name, sub, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Group: group, Resource: name, Subresource: sub, Verb: verb}}}
	err = c.Retry(ctx, "check the permission to "+verb+" "+resource, func(ctx context.Context) error {
		answer, err := c.Typed().AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
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
