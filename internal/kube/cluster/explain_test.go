package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func TestWhyNotReady(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*appsv1.Deployment, *corev1.Container)
		quota bool
		wait  time.Duration
		words []string
		hint  string
	}{
		"image may not be pulled": {func(_ *appsv1.Deployment, app *corev1.Container) { app.Image = "localhost/none:1" },
			false, time.Minute, []string{"0 of 1 replicas ready", "pod echo-", "container app: ErrImageNeverPull"}, "tare image load"},
		"image cannot be pulled": {func(_ *appsv1.Deployment, app *corev1.Container) {
			app.Image, app.ImagePullPolicy = "localhost/none:1", corev1.PullAlways
		}, false, 12 * time.Second, []string{"container app:", "ull"}, "registry"},
		"quota exceeded": {func(*appsv1.Deployment, *corev1.Container) {},
			true, 8 * time.Second, []string{"0 of 1 replicas ready", "exceeded quota"}, "ResourceQuota"},
		"unschedulable": {func(_ *appsv1.Deployment, app *corev1.Container) {
			app.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}
		}, false, 8 * time.Second, []string{"Unschedulable", "Insufficient cpu"}, "no node takes the pod"},
		"crash loop": {func(d *appsv1.Deployment, app *corev1.Container) {
			d.Spec.MinReadySeconds = 30 // without a probe, a container that has just started passes for ready
			app.Command = []string{"sh", "-c", "echo the last word; exit 3"}
		}, false, 15 * time.Second, []string{"container app: ", "exited with code 3 (Error)", "| the last word"}, "last lines of its log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connect(t)
			ns, s := space(t, c)
			ctx := within(t, 2*time.Minute)
			if tc.quota {
				quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"},
					Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
				if err := c.Apply(ctx, s, quota); err != nil {
					t.Fatal(err)
				}
			}
			d := echo(ns, tc.edit)
			if err := c.Apply(ctx, s, d); err != nil {
				t.Fatal(err)
			}
			ref, _ := RefOf(d)
			short, cancel := context.WithTimeout(ctx, tc.wait)
			defer cancel()
			var told lines
			err := c.WaitReady(short, told.add, ref)
			var not *NotReady
			if !errors.As(err, &not) {
				t.Fatalf("%v", err)
			}
			says(t, err.Error(), tc.words...)
			says(t, err.Error()+"\n"+hintOf(err), tc.hint)
			says(t, told.String(), "waiting for deployment "+ns+"/echo: ")
			t.Logf("%v\nhint: %s\n%s", err, hintOf(err), &told)
		})
	}
}

// withoutRights is the cluster as a service account sees it that was granted nothing, and the account's name.
func withoutRights(t *testing.T, c *Cluster, ns string, s Stamp) (*Cluster, string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "small"}}
	if err := c.Apply(within(t, time.Minute), s, account); err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + ns + ":small",
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	small, err := newCluster(config, c.Context())
	if err != nil {
		t.Fatal(err)
	}
	return small, ns + "/small"
}

func TestRightsDeniedAndGranted(t *testing.T) {
	c := connect(t)
	ns, s := space(t, c)
	small, account := withoutRights(t, c, ns, s)
	ctx := within(t, 2*time.Minute)
	d := echo(ns, nil)
	ref, _ := RefOf(d)
	err := small.Apply(ctx, s, d)
	if err == nil {
		t.Fatal("applied without rights")
	}
	says(t, err.Error()+"\n"+hintOf(err), "apply deployment "+ns+"/echo", "forbidden", "tare cluster rbac")
	if err := small.Guard(ctx); err == nil {
		t.Error("guarded without rights")
	} else {
		says(t, hintOf(err), "platform.inUse: allow")
	}
	missing, err := small.Missing(ctx, ns)
	if err != nil || len(missing) != len(Rights(true)) {
		t.Errorf("%d rights are missing, %v", len(missing), err)
	}
	// What the manifest grants in the namespace is enough for a round trip there.
	subject, err := ParseSubject("serviceaccount:" + account)
	if err != nil {
		t.Fatal(err)
	}
	var manifest strings.Builder
	if err := WriteRBAC(&manifest, ns, subject); err != nil {
		t.Fatal(err)
	}
	for _, o := range parsed(t, manifest.String()) {
		if err := c.Apply(ctx, s, o); err != nil {
			t.Fatal(err)
		}
	}
	if missing, err := small.Missing(ctx, ns); err != nil || len(missing) != 0 {
		t.Errorf("still missing: %+v, %v", missing, err)
	}
	if err := small.Apply(ctx, s, d); err != nil {
		t.Fatal(err)
	}
	if err := small.WaitReady(ctx, nil, ref); err != nil {
		t.Fatal(err)
	}
	if err := small.Delete(ctx, nil, ref); err != nil {
		t.Fatal(err)
	}
}

// The manifest for a whole cluster is one that the API server takes; it is not bound to anybody here.
func TestClusterRoleIsValid(t *testing.T) {
	c := connect(t)
	var manifest strings.Builder
	if err := WriteRBAC(&manifest, "", Subject{Kind: "User", Name: "nobody"}); err != nil {
		t.Fatal(err)
	}
	for _, o := range parsed(t, manifest.String()) {
		client, err := c.resource(t.Context(), refOf(o))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Create(within(t, 10*time.Second), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"}); err != nil {
			t.Errorf("%s: %v", refOf(o), err)
		}
	}
	var role rbacv1.ClusterRole
	if err := fromFields(parsed(t, manifest.String())[0].Object, &role); err != nil || len(role.Rules) != len(Rights(false)) {
		t.Errorf("%d rules, %v", len(role.Rules), err)
	}
}

func TestNamespaceHeldByFinalizer(t *testing.T) {
	c := connect(t)
	ns, s := space(t, c)
	ctx := within(t, 2*time.Minute)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "held", Finalizers: []string{"tare.test/hold"}}}
	if err := c.Apply(ctx, s, held); err != nil {
		t.Fatal(err)
	}
	free := func() {
		_, err := c.Typed().CoreV1().ConfigMaps(ns).Patch(context.Background(), "held", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !IsNotFound(err) {
			t.Errorf("free: %v", err)
		}
	}
	t.Cleanup(free)
	short, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	ref := Ref{Kind: KindNamespace, Name: ns}
	err := c.Delete(short, nil, ref)
	if err == nil {
		t.Fatal("it went, finalizer or no")
	}
	t.Logf("%v\nhint: %s", err, hintOf(err))
	says(t, err.Error(), "namespace "+ns+" to go", "configmap "+ns+"/held, held by finalizers tare.test/hold")
	says(t, hintOf(err), "finalizers")
	free()
	if err := c.Delete(ctx, nil, ref); err != nil {
		t.Fatal(err)
	}
}
