package rbac_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/rbac"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// written is the manifest for a subject, parsed: the role and its binding.
func written(t *testing.T, namespace string, s rbac.Subject) (all []*unstructured.Unstructured) {
	t.Helper()
	var manifest strings.Builder
	must.OK(t, rbac.Write(&manifest, namespace, s))
	for _, doc := range strings.Split(manifest.String(), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(doc), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		all = append(all, o)
	}
	return all
}

func TestManifest(t *testing.T) {
	for namespace, kinds := range map[string][]string{"": {"ClusterRole", "ClusterRoleBinding"}, "shop": {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}} {
		all := written(t, namespace, rbac.Subject{Kind: "User", Name: "jo"})
		if len(all) != len(kinds) {
			t.Fatalf("namespace %q: %v", namespace, all)
		} else if d := difftest.Of("all[0].GetKind()", all[0].GetKind(), kinds[0], "all[1].GetKind()", all[1].GetKind(), kinds[1], "all[0].GetNamespace()", all[0].GetNamespace(), namespace); d != "" {
			t.Fatalf("%s: namespace %q: %v", d, namespace, all)
		}
		rules := 0
		for i, o := range all {
			of, _, _ := unstructured.NestedSlice(o.Object, "rules")
			if rules += len(of); o.GetKind() != kinds[i] || o.GetName() != "tare" && (i < 2 || o.GetName() != "tare-nodes-shop") {
				t.Errorf("namespace %q: %s %s", namespace, o.GetKind(), o.GetName())
			}
		}
		if rules != len(rbac.Needed(namespace != "")) {
			t.Errorf("namespace %q: %d rules", namespace, rules)
		}
	}
	if err := rbac.Write(&strings.Builder{}, "no: name", rbac.Subject{Kind: "User", Name: "jo"}); err == nil {
		t.Error("a namespace with a colon is accepted")
	}
}

func TestCreatesInNamespace(t *testing.T) {
	for r, want := range map[schema.GroupResource]bool{
		{Group: "apps", Resource: "deployments"}: true, {Resource: "secrets"}: true,
		{Resource: "events"}: false, {Resource: "namespaces"}: false, {Group: "rbac.authorization.k8s.io", Resource: "roles"}: false,
	} {
		if got := rbac.CreatesInNamespace(r); got != want {
			t.Errorf("%s: %v, want %v", r, got, want)
		}
	}
}

func TestParseSubject(t *testing.T) {
	for in, want := range map[string]rbac.Subject{
		"user:jo":                 {Kind: "User", Name: "jo"},
		"group:ops:emea":          {Kind: "Group", Name: "ops:emea"},
		"serviceaccount:shop/bot": {Kind: "ServiceAccount", Namespace: "shop", Name: "bot"},
		"serviceaccount:bot":      {},
		"jo":                      {},
		"user:":                   {},
	} {
		got, err := rbac.ParseSubject(in)
		if got != want || (err == nil) != (want != rbac.Subject{}) {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
}

// A service account without permissions is refused. With the manifest's Role it can do a round trip.
func TestRealPermissionsInNamespace(t *testing.T) {
	c := clustertest.Connect(t)
	ns, s := clustertest.Namespace(t, c)
	ctx := clustertest.Within(t, 2*time.Minute)
	must.OK(t, c.Apply(ctx, s, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "small"}}))
	small := clustertest.ConnectAs(t, ns, "small")
	d := clustertest.Deployment(ns, nil)
	ref, err := cluster.RefOf(d)
	must.OK(t, err)
	err = small.Apply(ctx, s, d)
	if err == nil {
		t.Fatal("applied without permissions")
	}
	clustertest.Contains(t, err.Error()+"\n"+hint.Of(err), "apply deployment "+ns+"/echo", "forbidden", "tare cluster rbac")
	if missing, err := rbac.Missing(ctx, small, ns); err != nil || len(missing) != len(rbac.Needed(true)) {
		t.Errorf("%d permissions are missing, %v", len(missing), err)
	}
	subject := must.Get(rbac.ParseSubject("serviceaccount:" + ns + "/small"))(t)
	for _, o := range written(t, ns, subject) {
		must.OK(t, c.Apply(ctx, s, o))
		if o.GetNamespace() == "" {
			t.Cleanup(func() {
				must.OK(t, c.Delete(context.Background(), nil, must.Get(cluster.RefOf(o))(t)))
			})
		}
	}
	missing, err := rbac.Missing(ctx, small, ns)
	for err == nil && len(missing) > 0 { // the authorizer reads Roles from a cache
		select {
		case <-time.After(100 * time.Millisecond):
			missing, err = rbac.Missing(ctx, small, ns)
		case <-ctx.Done():
			t.Fatalf("still missing: %+v", missing)
		}
	}
	must.OK(t, err)
	must.OK(t, small.Apply(ctx, s, d))
	must.OK(t, small.WaitReady(ctx, nil, ref))
	must.OK(t, small.Delete(ctx, nil, ref))
}

// The API server accepts the ClusterRole in a dry run, without binding it to anybody.
func TestRealClusterRole(t *testing.T) {
	c := clustertest.Connect(t)
	ctx := clustertest.Within(t, 10*time.Second)
	all := written(t, "", rbac.Subject{Kind: "User", Name: "nobody"})
	var role rbacv1.ClusterRole
	text, err := all[0].MarshalJSON()
	if err == nil {
		err = yaml.UnmarshalStrict(text, &role)
	}
	must.OK(t, err)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"}
	if _, err := c.Typed().RbacV1().ClusterRoles().Create(ctx, &role, options); err != nil {
		t.Error(err)
	}
}

// Reading pods allows nothing further. Reading Secrets, or a subresource that connects, does.
func TestAllows(t *testing.T) {
	for _, c := range []struct {
		resource, verb, want string
	}{
		{"nodes/proxy", "get", "running commands"},
		{"pods/portforward", "get", "connections to every port"},
		{"secrets", "list", "every Secret"},
		{"pods", "create", "service accounts"},
		{"pods", "list", ""},
		{"events", "list", ""},
	} {
		got := rbac.Permission{Resources: []string{c.resource}, Verbs: []string{c.verb}}.Allows()
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s %s: %q, want %q", c.verb, c.resource, got, c.want)
		}
	}
}
