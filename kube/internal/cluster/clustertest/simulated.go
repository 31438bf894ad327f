package clustertest

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// SimulatedNode adds a node of 1000 CPUs without a kubelet to the cluster, ready and tainted as KWOK's are, and a pod that seems to
// run there. Nothing keeps it ready: Kubernetes takes it for lost after its grace period.
func SimulatedNode(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	const name, taint = "simulated", "kwok.x-k8s.io/node"
	nodes, pods := c.Typed().CoreV1().Nodes(), c.Typed().CoreV1().Pods(metav1.NamespaceDefault)
	ctx := Within(t, 30*time.Second)
	t.Cleanup(func() {
		ctx, now := context.WithoutCancel(ctx), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		must.OK(t, errors.Join(pods.Delete(ctx, name, now), nodes.Delete(ctx, name, now)))
	})
	must.Get(nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"type": "kwok"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: taint, Value: "fake", Effect: corev1.TaintEffectNoSchedule}}}}, metav1.CreateOptions{}))(t)
	must.Get(nodes.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"capacity":{"cpu":"1000","memory":"1Ti","pods":"10"},
		"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status"))(t)
	must.Get(pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: name,
		TerminationGracePeriodSeconds: new(int64(0)), AutomountServiceAccountToken: new(false),
		Tolerations: []corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: "app", Image: Toolbox}}}}, metav1.CreateOptions{}))(t)
	must.Get(pods.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"phase":"Running","containerStatuses":[{"name":"app",
		"containerID":"containerd://simulated","image":"","imageID":"","ready":true,"restartCount":0,"state":{"running":{}}}]}}`), metav1.PatchOptions{}, "status"))(t)
}
