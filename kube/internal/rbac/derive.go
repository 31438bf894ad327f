package rbac

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Use lists the actions of a run in a cluster. Its permissions are derived from them.
type Use struct {
	// Applied are objects that tare applies, and Installed are objects of charts, Helm's hooks included.
	Applied, Installed []*unstructured.Unstructured
	// Chart: the application comes from a chart. Mesh: a mesh is installed and verified.
	Chart, Mesh bool
	// Copied is a namespace whose application is copied, and CopiedKinds the kinds that are read.
	Copied      string
	CopiedKinds []schema.GroupResource
	// InPlace: the application of Copied is measured where it runs.
	InPlace bool
	// Removed are listed and deleted when a mesh is removed, beside the objects of its charts.
	Removed         []schema.GroupResource
	Kubelets        bool // are read
	Faults, Changes bool // Faults: also starts of pods
	BackgroundPods  bool
	// LeaseNamespace is the namespace of the run's Lease.
	LeaseNamespace string
}

// Verbs of the derived permissions.
var (
	apply   = []string{"create", "patch"} // server-side apply
	observe = []string{"get", "list", "watch"}
	helm    = []string{"get", "list", "watch", "create", "patch", "update", "delete"}
	remove  = []string{"get", "list", "watch", "delete"}
)

// derived collects permissions by namespace, group, resource and name.
type derived struct {
	verbs map[key][]string
	why   map[key]string
	order []key
	exact []Permission // rules of roles that are granted to others, as they are written
}

type key struct{ namespace, group, resource, name string }

// For derives the permissions of a run from what it does, those for a chart's and a mesh's own roles included: an API
// server lets nobody grant what he does not have.
func For(u Use) []Permission {
	d := &derived{verbs: map[key][]string{}, why: map[key]string{}}
	d.always(u)
	const application = "the objects of trials"
	for _, o := range u.Applied {
		d.add(application, o.GroupVersionKind().Group, []string{ResourceOf(o.GroupVersionKind().GroupKind())}, apply)
	}
	for _, o := range u.Installed {
		d.add("the objects of charts", o.GroupVersionKind().Group, []string{ResourceOf(o.GroupVersionKind().GroupKind())}, helm)
	}
	if len(u.Installed) > 0 || u.Chart {
		d.add("Helm's records of releases", "", []string{"secrets"}, []string{"get", "list", "create", "update", "delete"})
	}
	if u.Mesh {
		d.mesh(u)
	}
	d.grants(slices.Concat(u.Applied, u.Installed))
	return d.permissions()
}

// always adds what every run does.
func (d *derived) always(u Use) {
	d.add("a namespace for each trial, and the guard of clusters in use", "", []string{"namespaces"}, append(slices.Clone(apply), remove...))
	d.add("waiting for workloads", "apps", []string{"deployments", "statefulsets", "daemonsets"}, observe)
	d.add("waiting for workloads", "batch", []string{"jobs"}, observe)
	d.add("waiting for a namespace", "", []string{"serviceaccounts"}, observe)
	d.add("following the pods of the cluster", "", []string{"pods"}, observe)
	d.add("ending the pods of a trial 5 s earlier", "", []string{"pods"}, []string{"deletecollection"})
	d.add("connections to load workers that bypass the mesh", "", []string{"pods/portforward"}, []string{"get", "create"})
	d.add("logs in the results", "", []string{"pods/log"}, []string{"get"})
	d.add("the load workers", "batch", []string{"jobs"}, apply)
	d.add("the token of a trial", "", []string{"secrets"}, apply)
	d.add("the reason why an object is not ready", "", []string{"events", "resourcequotas"}, []string{"list"})
	d.add("the workload of a pod", "apps", []string{"replicasets"}, []string{"get", "list"})
	d.add("capacity of the nodes, and placement", "", []string{"nodes"}, observe)
	if u.Kubelets {
		d.add("CPU and memory from the kubelets", "", []string{"nodes/proxy"}, []string{"get"})
	}
	if u.Faults {
		d.add("faults", "", []string{"pods"}, []string{"patch", "delete"})
		d.add("faults", "apps", []string{"deployments"}, []string{"patch"})
	}
	if u.Changes {
		d.add("changes of endpoints and pods", "", []string{"pods"}, []string{"patch", "delete"})
		d.add("restarts of the control plane", "apps", []string{"deployments", "statefulsets", "daemonsets"}, []string{"patch"})
	}
	if u.BackgroundPods {
		d.add("endpoints of background pods", "discovery.k8s.io", []string{"endpointslices"}, []string{"list"})
		d.add("changes of background pods", "", []string{"pods/status"}, []string{"patch"})
	}
	d.addOne("the Lease that a run holds", key{u.LeaseNamespace, "coordination.k8s.io", "leases", ""}, []string{"create"})
	d.addOne("the Lease that a run holds", key{u.LeaseNamespace, "coordination.k8s.io", "leases", "tare"}, []string{"get", "update", "delete"})
	if u.InPlace {
		d.inPlace(u)
	}
	if u.Copied != "" {
		why := "copying the application of " + u.Copied
		for _, r := range u.CopiedKinds {
			d.addOne(why, key{u.Copied, r.Group, r.Resource, ""}, []string{"list"})
		}
	}
}

// inPlace adds the permissions to change and restart an application, and to delete the objects beside it.
func (d *derived) inPlace(u Use) {
	why := "measuring the application of " + u.Copied + " in place"
	d.addOne(why, key{u.Copied, "", "configmaps", ""}, append(slices.Clone(apply), remove...))
	for _, resource := range []string{"deployments", "statefulsets", "daemonsets"} {
		d.addOne(why, key{u.Copied, "apps", resource, ""}, []string{"get", "patch"})
	}
	for _, o := range u.Applied {
		if o.GetNamespace() == u.Copied {
			d.addOne(why, key{u.Copied, o.GroupVersionKind().Group, ResourceOf(o.GroupVersionKind().GroupKind()), ""}, append(slices.Clone(apply), remove...))
		}
	}
}

// mesh adds what installing, verifying and removing a mesh takes beside its charts.
func (d *derived) mesh(u Use) {
	d.add("replicas of control planes", "apps", []string{"deployments/scale", "statefulsets/scale"}, []string{"get", "update"})
	d.add("replicas of control planes", "autoscaling", []string{"horizontalpodautoscalers"}, []string{"get", "list", "patch"})
	d.add("the network of Services", "networking.k8s.io", []string{"servicecidrs"}, []string{"get"})
	d.add("the network of Services", "", []string{"services"}, []string{"create", "get", "list"})
	d.add("whether plaintext is refused", "", []string{"pods/proxy"}, []string{"get"})
	d.add("whether plaintext is refused, from a pod outside the mesh", "", []string{"pods"}, append(slices.Clone(apply), "delete"))
	const removal = "removing a mesh"
	for _, r := range u.Removed {
		d.add(removal, r.Group, []string{r.Resource}, remove)
	}
	d.add(removal, "apiextensions.k8s.io", []string{"customresourcedefinitions"}, helm)
}

func (d *derived) add(why, group string, resources, verbs []string) {
	for _, resource := range resources {
		d.addOne(why, key{"", group, resource, ""}, verbs)
	}
}

func (d *derived) addOne(why string, k key, verbs []string) {
	switch before, known := d.why[k]; {
	case !known:
		d.why[k] = why
		d.order = append(d.order, k)
	case !strings.Contains(before, why):
		d.why[k] = before + "; " + why
	}
	for _, v := range verbs {
		d.verbs[k] = include(d.verbs[k], v)
	}
}

// grants adds the rules of roles among the objects, and the right to bind roles that are not.
func (d *derived) grants(objects []*unstructured.Unstructured) {
	roles := map[string]bool{}
	for _, o := range objects {
		if k := o.GetKind(); o.GroupVersionKind().Group == rbacGroup && (k == "ClusterRole" || k == "Role") {
			roles[k+"/"+o.GetName()] = true
			d.rulesOf(o)
		}
	}
	bound := map[string][]string{}
	for _, o := range objects {
		if !strings.HasSuffix(o.GetKind(), "RoleBinding") || o.GroupVersionKind().Group != rbacGroup {
			continue
		}
		kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		if !roles[kind+"/"+name] {
			bound[ResourceOf(schema.GroupKind{Group: rbacGroup, Kind: kind})] = include(bound[ResourceOf(schema.GroupKind{Group: rbacGroup, Kind: kind})], name)
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(bound)) {
		d.exact = append(d.exact, Permission{Group: rbacGroup, Resources: []string{resource}, Names: bound[resource], Verbs: []string{"bind"}, For: "binding roles of the cluster"})
	}
}

const rbacGroup = "rbac.authorization.k8s.io"

func (d *derived) rulesOf(role *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	for _, r := range rules {
		rule, ok := r.(map[string]any)
		if !ok {
			continue
		}
		list := func(name string) []string { all, _, _ := unstructured.NestedStringSlice(rule, name); return all }
		p := Permission{Resources: list("resources"), Names: list("resourceNames"), Verbs: list("verbs"), URLs: list("nonResourceURLs"),
			For: "granting them to " + role.GetKind() + " " + role.GetName()}
		groups := list("apiGroups")
		if len(p.URLs) > 0 {
			groups = []string{""}
		}
		for _, group := range groups {
			p.Group = group
			if !slices.ContainsFunc(d.exact, func(o Permission) bool { return o.rule() == p.rule() }) {
				d.exact = append(d.exact, p)
			}
		}
	}
}

// permissions joins resources of a group with the same verbs and purpose.
func (d *derived) permissions() (all []Permission) {
	slices.SortStableFunc(d.order, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.group, b.group))
	})
	for _, k := range d.order {
		p := Permission{Namespace: k.namespace, Group: k.group, Resources: []string{k.resource}, Verbs: d.verbs[k], For: d.why[k], Cluster: k.namespace == ""}
		if k.name != "" {
			p.Names = []string{k.name}
		}
		i := slices.IndexFunc(all, func(o Permission) bool {
			return o.Namespace == p.Namespace && o.Group == p.Group && o.For == p.For && slices.Equal(o.Verbs, p.Verbs) && slices.Equal(o.Names, p.Names)
		})
		if i >= 0 {
			all[i].Resources = append(all[i].Resources, k.resource)
			continue
		}
		all = append(all, p)
	}
	return append(all, d.exact...)
}

// ResourceOf is the resource of a kind, by the convention that API servers follow for their own kinds and authors of
// CustomResourceDefinitions for theirs.
func ResourceOf(kind schema.GroupKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	return plural.Resource
}
