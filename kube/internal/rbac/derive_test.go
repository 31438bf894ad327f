package rbac_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/kube/internal/rbac"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	must.OK(t, yaml.Unmarshal([]byte(text), &o.Object))
	return o
}

// has reports whether a permission is among others.
func has(all []rbac.Permission, namespace, group, resource, verb, name string) bool {
	return slices.ContainsFunc(all, func(p rbac.Permission) bool {
		return p.Namespace == namespace && p.Group == group && slices.Contains(p.Resources, resource) && slices.Contains(p.Verbs, verb) &&
			(len(p.Names) == 0 && name == "" || slices.Contains(p.Names, name))
	})
}

// Permissions follow from the applied objects. Roles of a chart need their own rules, which an API server lets only their
// holder grant.
func TestFor(t *testing.T) {
	deployment := object(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}")
	role := object(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: istiod}, rules: [{apiGroups: ['', discovery.k8s.io], resources: [endpoints, 'pods/exec'], verbs: ['*']}, {nonResourceURLs: [/metrics], verbs: [get]}]}")
	binding := object(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: istiod}, roleRef: {kind: ClusterRole, name: istiod}}")
	other := object(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: reader}, roleRef: {kind: ClusterRole, name: system:auth-delegator}}")
	plain := rbac.For(rbac.Use{Applied: []*unstructured.Unstructured{deployment}, LeaseNamespace: "kube-system"})
	full := rbac.For(rbac.Use{Applied: []*unstructured.Unstructured{deployment}, Installed: []*unstructured.Unstructured{role, binding, other}, Mesh: true, Chart: true, Kubelets: true, BackgroundPods: true,
		Copied: "shop", CopiedKinds: []schema.GroupResource{{Resource: "secrets"}}, Removed: []schema.GroupResource{{Group: "x.io", Resource: "things"}}, LeaseNamespace: "kube-system"})
	for _, c := range []struct {
		namespace, group, resource, verb, name string
		plain, full                            bool
	}{
		{"", "apps", "deployments", "create", "", true, true},
		{"", "", "secrets", "list", "", false, true},
		{"", "", "secrets", "create", "", true, true},
		{"", "", "nodes/proxy", "get", "", false, true},
		{"", "rbac.authorization.k8s.io", "clusterroles", "create", "", false, true},
		{"", "discovery.k8s.io", "endpoints", "*", "", false, true},
		{"", "", "pods/exec", "*", "", false, true},
		{"", "rbac.authorization.k8s.io", "clusterroles", "bind", "system:auth-delegator", false, true},
		{"", "rbac.authorization.k8s.io", "clusterroles", "bind", "istiod", false, false},
		{"", "x.io", "things", "delete", "", false, true},
		{"shop", "", "secrets", "list", "", false, true},
		{"kube-system", "coordination.k8s.io", "leases", "update", "tare", true, true},
		{"", "coordination.k8s.io", "leases", "update", "", false, false},
		{"", "", "pods", "delete", "", false, true},
		{"", "", "pods/status", "patch", "", false, true},
		{"", "discovery.k8s.io", "endpointslices", "list", "", false, true},
	} {
		for of, want := range map[string]bool{"plain": c.plain, "full": c.full} {
			all := map[string][]rbac.Permission{"plain": plain, "full": full}[of]
			if has(all, c.namespace, c.group, c.resource, c.verb, c.name) != want {
				t.Errorf("%s run: %s %s of %q in %q, name %q: want %v", of, c.verb, c.resource, c.group, c.namespace, c.name, want)
			}
		}
	}
	var b strings.Builder
	must.OK(t, rbac.WriteFor(&b, "test", full, rbac.Subject{Kind: "User", Name: "jo"}))
	kinds := map[string]int{}
	for _, doc := range strings.Split(b.String(), "---\n") {
		kinds[object(t, doc).GetKind()]++
	}
	if !strings.Contains(b.String(), "nonResourceURLs: [/metrics]") {
		t.Errorf("%v in\n%s", kinds, b.String())
	} else if d := difftest.Of(`kinds["ClusterRole"]`, kinds["ClusterRole"], 1, `kinds["Role"]`, kinds["Role"], 2, `kinds["RoleBinding"]`, kinds["RoleBinding"], 2); d != "" {
		t.Errorf("%s: %v in\n%s", d, kinds, b.String())
	}
}
