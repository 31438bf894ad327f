// Package rbac lists the RBAC permissions that a run needs, prints the manifest
// that grants them, and checks which are missing.
package rbac

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Permission is one rule of a role, with its purpose.
type Permission struct {
	Group     string // API group, empty for the core group
	Resources []string
	Names     []string // of objects, none for all
	URLs      []string // paths of the API server, instead of resources
	Verbs     []string
	Cluster   bool   // a Role in one namespace cannot grant it
	Namespace string // only there, or "" for the whole cluster, or the namespace of the Role
	For       string // purpose
	Without   string // consequence if it is missing
}

// String is the permission in messages: "list, delete secrets in shop".
func (p Permission) String() string {
	s := strings.Join(p.Verbs, ", ") + " " + strings.Join(append(slices.Clone(p.Resources), p.URLs...), ", ")
	if p.Group != "" {
		s += " of " + p.Group
	}
	if p.Namespace != "" {
		s += " in " + p.Namespace
	}
	return s
}

// NoRun is the consequence of a missing permission without which no run is possible.
const NoRun = "no run"

var (
	manage = []string{"get", "list", "watch", "create", "patch", "delete"}
	read   = []string{"get", "list", "watch"}
)

func permission(group string, resources, verbs []string, inCluster bool, purpose, without string) Permission {
	return Permission{Group: group, Resources: resources, Verbs: verbs, Cluster: inCluster, For: purpose, Without: without}
}

// needed are the permissions of a run, in one namespace without Cluster ones.
var needed = []Permission{
	permission("", []string{"namespaces"}, manage, true,
		"a namespace for each trial; the guard of clusters in use; deleting leftovers of ended runs",
		"an existing namespace is required (platform.namespace); the guard cannot check the cluster; no meshes"),
	permission("", []string{"configmaps", "secrets", "services", "serviceaccounts"}, manage, false,
		"the services under test and their configuration", NoRun),
	permission("", []string{"pods"}, manage, false,
		"waiting for pods, and deleting them as a fault", NoRun),
	permission("", []string{"pods"}, []string{"deletecollection"}, true,
		"ending the pods of a trial at once", "the removal of a trial takes 5 s longer"),
	permission("apps", []string{"deployments", "statefulsets", "daemonsets"}, manage, false,
		"the services under test", NoRun),
	permission("apps", []string{"replicasets"}, read, false,
		"the workload of a pod", "a pod's workload is its ReplicaSet"),
	permission("batch", []string{"jobs"}, manage, false,
		"load workers", NoRun),
	permission("", []string{"pods/log"}, []string{"get"}, false,
		"the end of a failed container's log", "failures are reported without logs"),
	// A WebSocket begins with GET. Which of the two verbs a server checks depends on its version.
	permission("", []string{"pods/portforward"}, []string{"get", "create"}, false,
		"connections to load workers that bypass the mesh", NoRun),
	permission("coordination.k8s.io", []string{"leases"}, []string{"get", "list", "create", "update", "delete"}, false,
		"the Lease that a run holds, so that no second run measures at the same time", "two runs at once are not refused"),
	permission("", []string{"events", "resourcequotas"}, read, false,
		"the reason why an object is not ready", "failures are reported without their cause"),
}

// ofNodes is needed in any case, and no Role can grant it.
var ofNodes = permission("", []string{"nodes"}, read, true, "capacity of the nodes; placement of pods", NoRun)

// ofKubelets is needed without node agents, which no existing namespace has.
var ofKubelets = permission("", []string{"nodes/proxy"}, []string{"get"}, true,
	"CPU and memory of every container from the kubelets' counters", "no run, but with platform.meter: node-agent")

// Needed lists the permissions that a run needs: on a cluster, or in one existing namespace.
func Needed(inNamespace bool) []Permission {
	return slices.Concat(inRole(inNamespace), nodePermissions(inNamespace))
}

// nodePermissions are those of [Needed] that no Role can grant.
func nodePermissions(inNamespace bool) []Permission {
	if inNamespace {
		return []Permission{ofNodes, ofKubelets}
	}
	return []Permission{ofNodes}
}

// strong describes what a permission allows beyond its purpose, by resource. The verb get of nodes/proxy is enough to run
// commands, since a WebSocket begins with GET.
var strong = map[string]string{
	"nodes/proxy":                   "running commands in every container of the nodes, through the kubelet",
	"secrets":                       "reading or replacing every Secret in its scope",
	"pods":                          "pods with the service accounts and volumes of its scope; Pod Security Admission limits them",
	"deployments":                   "pods, with the service accounts and volumes of its scope",
	"pods/portforward":              "connections to every port of the pods in its scope",
	"pods/proxy":                    "requests to every port of the pods in its scope",
	"clusterrolebindings":           "only permissions that the holder has",
	"mutatingwebhookconfigurations": "changes of every object of the cluster",
}

// Allows describes what the permission allows beyond its purpose. Empty means nothing further.
func (p Permission) Allows() string {
	reads := !slices.ContainsFunc(p.Verbs, func(verb string) bool { return !slices.Contains(read, verb) })
	for _, resource := range p.Resources {
		// To read objects is enough for Secrets, and for subresources, which connect.
		if text := strong[resource]; text != "" && (!reads || resource == "secrets" || strings.Contains(resource, "/")) {
			return text
		}
	}
	return ""
}

// inRole are the permissions of the first role of a manifest.
func inRole(inNamespace bool) []Permission {
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
