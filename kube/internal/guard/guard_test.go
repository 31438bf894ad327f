package guard

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

func TestRealGuard(t *testing.T) {
	c := clustertest.Connect(t)
	marks, _ := clustertest.Namespace(t, c)
	g := New(c)
	g.namespace = marks // other tests use the cluster's own mark
	ctx := clustertest.Within(t, 2*time.Minute)

	// A namespace and a deployment that tare did not create.
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: marks + "-foreign"}}
	must.Get(c.Typed().CoreV1().Namespaces().Create(ctx, foreign, metav1.CreateOptions{}))(t)
	defer func() {
		if err := c.Delete(clustertest.Within(t, time.Minute), nil, cluster.Ref{Kind: cluster.KindNamespace, Name: foreign.Name}); err != nil {
			t.Error(err)
		}
	}()
	must.OK(t, c.WaitReady(ctx, nil, cluster.Ref{Kind: cluster.KindNamespace, Name: foreign.Name}))
	shop := clustertest.Deployment(foreign.Name, nil)
	must.Get(c.Typed().AppsV1().Deployments(foreign.Name).Create(ctx, shop, metav1.CreateOptions{}))(t)
	ref, _ := cluster.RefOf(shop)
	must.OK(t, c.WaitReady(ctx, nil, ref))
	refused := g.Check(ctx)
	if !errors.Is(refused, ErrInUse) {
		t.Fatalf("%v", refused)
	}
	clustertest.Contains(t, refused.Error()+"\n"+hint.Of(refused), "not marked as disposable", "deployment "+foreign.Name+"/echo", "tare cluster adopt", "platform.inUse: allow")

	all, err := g.Foreign(ctx)
	must.OK(t, err)
	mine := Workload{Namespace: foreign.Name, Kind: "Deployment", Name: "echo"}
	if !slices.ContainsFunc(all, mine.same) {
		t.Errorf("foreign: %v", all)
	}
	for _, w := range all {
		if w.Namespace == cluster.SystemNamespace {
			t.Errorf("a component of the cluster: %s", w)
		}
	}
	// Without the shop among the accepted workloads, the guard names it.
	others := slices.DeleteFunc(slices.Clone(all), mine.same)
	must.Get(g.Adopt(ctx, others))(t)
	err = g.Check(ctx)
	var inUse *InUse
	if !errors.As(err, &inUse) || !inUse.Marked || !slices.ContainsFunc(inUse.Workloads, mine.same) {
		t.Errorf("deployed later: %v", err)
	}
	must.Get(g.Adopt(ctx, all))(t)
	if err := g.Check(ctx); errors.As(err, &inUse) && slices.ContainsFunc(inUse.Workloads, mine.same) {
		t.Errorf("adopted: %v", err)
	}
	must.OK(t, g.Release(ctx))
	if _, marked, err := g.Mark(ctx); marked || err != nil {
		t.Errorf("released: %v, %v", marked, err)
	}
}

// Without permission to list pods the guard cannot decide, and its error has a way out.
func TestRealGuardWithoutPermissions(t *testing.T) {
	c := clustertest.Connect(t)
	ns, _ := clustertest.Namespace(t, c)
	err := New(clustertest.ConnectAs(t, ns, "small")).Check(clustertest.Within(t, time.Minute))
	if err == nil {
		t.Fatal("checked without permissions")
	}
	clustertest.Contains(t, err.Error()+hint.Of(err), "forbidden", "platform.inUse: allow")
}

func TestInUse(t *testing.T) {
	shop := Workload{Namespace: "shop", Kind: "Deployment", Name: "cart", Pods: 2}
	for want, err := range map[string]*InUse{
		"cluster c is not marked as disposable":                                                                        inUse("cluster c", false, nil),
		"cluster c is not marked as disposable: deployment shop/cart (2 pods)":                                         inUse("cluster c", false, []Workload{shop}),
		"cluster c runs workloads that were deployed after it was marked as disposable: deployment shop/cart (2 pods)": inUse("cluster c", true, []Workload{shop}),
	} {
		if err.Error() != want || !errors.Is(err, ErrInUse) || hint.Of(err) == "" {
			t.Errorf("%q, hint %q, want %q", err, hint.Of(err), want)
		}
	}
}

func TestWorkloadOfPod(t *testing.T) {
	controller := true
	owned := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &controller}}
	}
	for want, pod := range map[string]*corev1.Pod{
		"pod shop/one":         {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one"}},
		"statefulset shop/db":  {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", OwnerReferences: owned("StatefulSet", "db")}},
		"deployment shop/cart": {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-5d-x", Labels: map[string]string{"pod-template-hash": "5d"}, OwnerReferences: owned("ReplicaSet", "cart-5d")}},
		"replicaset shop/old":  {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old-x", OwnerReferences: owned("ReplicaSet", "old")}},
	} {
		kind, name := cluster.WorkloadOf(pod)
		if got := (Workload{Namespace: pod.Namespace, Kind: kind, Name: name}).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if !isForeign(pod) {
			t.Errorf("%s is not foreign", want)
		}
	}
	for what, pod := range map[string]*corev1.Pod{
		"of a run": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{cluster.LabelRun: "r"}}},
		"ended":    {Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
		"system":   {ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"}},
	} {
		if isForeign(pod) {
			t.Errorf("a pod %s is foreign", what)
		}
	}
}
