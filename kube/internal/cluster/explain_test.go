package cluster_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// certain is a wait that ends by its cause.
const certain = 110 * time.Second

func TestNotReadyReasons(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*appsv1.Deployment, *corev1.Container)
		quota bool
		wait  time.Duration
		words []string
		hint  string
	}{
		"pull policy Never": {func(_ *appsv1.Deployment, app *corev1.Container) { app.Image = "localhost/none:1" },
			false, time.Minute, []string{"0 of 1 replicas ready", "pod echo-", "container app: ErrImageNeverPull"}, "tare cluster image load"},
		"image cannot be pulled": {func(_ *appsv1.Deployment, app *corev1.Container) {
			app.Image, app.ImagePullPolicy = "localhost/none:1", corev1.PullAlways
		}, false, 12 * time.Second, []string{"container app:", "ull"}, "registry"},
		"quota exceeded": {func(*appsv1.Deployment, *corev1.Container) {},
			true, 8 * time.Second, []string{"0 of 1 replicas ready", "exceeded quota"}, "ResourceQuota"},
		"unschedulable": {func(_ *appsv1.Deployment, app *corev1.Container) {
			app.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}
		}, false, 8 * time.Second, []string{"Unschedulable", "Insufficient cpu"}, "no node takes the pod"},
		"no program": {func(_ *appsv1.Deployment, app *corev1.Container) { app.Command = []string{"/no/such"} },
			false, certain, []string{"0 of 1 replicas ready", "container app:", "no such file"}, "no such program"},
		"crashes each time": {func(d *appsv1.Deployment, app *corev1.Container) {
			d.Spec.MinReadySeconds = 30
			app.Command = []string{"sh", "-c", "echo the last word; exit 3"}
		}, false, certain, []string{"exited with code 3 (Error), restarted", "| the last word"}, "last lines of its log"},
		"crash loop": {func(d *appsv1.Deployment, app *corev1.Container) {
			d.Spec.MinReadySeconds = 30 // without a probe, a container is ready as soon as it has started
			app.Command = []string{"sh", "-c", "echo the last word; exit 3"}
		}, false, 15 * time.Second, []string{"container app: ", "exited with code 3 (Error)", "| the last word"}, "last lines of its log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clustertest.Connect(t)
			ns, s := clustertest.Namespace(t, c)
			ctx := clustertest.Within(t, 2*time.Minute)
			if tc.quota {
				quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"},
					Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
				must.OK(t, c.Apply(ctx, s, quota))
			}
			d := clustertest.Deployment(ns, tc.edit)
			must.OK(t, c.Apply(ctx, s, d))
			ref, _ := cluster.RefOf(d)
			var reported lines
			err := waitUntilExplained(ctx, c, ref, tc.wait, &reported, tc.words)
			var not *cluster.NotReady
			if !errors.As(err, &not) {
				t.Fatalf("%v", err)
			}
			clustertest.Contains(t, err.Error(), tc.words...)
			clustertest.Contains(t, err.Error()+"\n"+hint.Of(err), tc.hint)
			clustertest.Contains(t, reported.String(), "waiting for deployment "+ns+"/echo: ")
			if tc.wait == certain && errors.Is(err, context.DeadlineExceeded) {
				t.Error("the wait ends with its deadline, although its cause is certain")
			}
			t.Logf("%v\nhint: %s\n%s", err, hint.Of(err), &reported)
		})
	}
}

// waitUntilExplained waits for an object that does not become ready. On a busy machine the cause may appear late, so it
// waits again until the error contains the last of the words.
func waitUntilExplained(ctx context.Context, c *cluster.Cluster, ref cluster.Ref, d time.Duration, reported *lines, words []string) error {
	for {
		short, cancel := context.WithTimeout(ctx, d)
		err := c.WaitReady(short, reported.add, ref)
		cancel()
		if err == nil || ctx.Err() != nil || strings.Contains(err.Error(), words[len(words)-1]) {
			return err
		}
	}
}

// finalizersRemain reports whether finalizers keep a namespace from being deleted.
func finalizersRemain(ctx context.Context, t *testing.T, c *cluster.Cluster, ns string) bool {
	t.Helper()
	n := must.Get(c.Typed().CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}))(t)
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NamespaceCondition) bool {
		return c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue
	})
}

func TestNamespaceHeldByFinalizer(t *testing.T) {
	c := clustertest.Connect(t)
	ns, s := clustertest.Namespace(t, c)
	ctx := clustertest.Within(t, 2*time.Minute)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "held", Finalizers: []string{"tare.test/hold"}}}
	must.OK(t, c.Apply(ctx, s, held))
	release := func() {
		_, err := c.Typed().CoreV1().ConfigMaps(ns).Patch(context.Background(), "held", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !cluster.IsNotFound(err) {
			t.Errorf("remove the finalizer: %v", err)
		}
	}
	t.Cleanup(release)
	ref := cluster.Ref{Kind: cluster.KindNamespace, Name: ns}
	must.OK(t, c.Typed().CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}))
	// On a busy machine the namespace controller reports the finalizer late.
	for end := time.Now().Add(time.Minute); !finalizersRemain(ctx, t, c, ns) && time.Now().Before(end); {
		time.Sleep(200 * time.Millisecond)
	}
	short, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	err := c.Delete(short, nil, ref)
	if err == nil {
		t.Fatal("the namespace was deleted in spite of the finalizer")
	}
	t.Logf("%v\nhint: %s", err, hint.Of(err))
	clustertest.Contains(t, err.Error(), "deletion of namespace "+ns, "configmap "+ns+"/held, held by finalizers tare.test/hold")
	clustertest.Contains(t, hint.Of(err), "finalizers")
	release()
	must.OK(t, c.Delete(ctx, nil, ref))
}
