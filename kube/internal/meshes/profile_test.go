package meshes

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// The production profile needs three schedulable nodes, and is refused before any change.
func TestRealProfileNeedsNodes(t *testing.T) {
	c := connect(t)
	before := inventory(t, c)
	refused := func(name, has string) {
		t.Helper()
		d := must.Get(mesh.Load(name))(t)
		m := must.Get(New(c, d, mesh.Settings{Profile: mesh.ProfileHA}, Options{Charts: t.TempDir()}))(t)
		if _, err := m.Install(bounded(t, time.Minute)); err == nil || !strings.HasSuffix(err.Error(), "profile ha needs 3 nodes and the cluster has "+has) {
			t.Errorf("%s: %v, want %s", name, err, has)
		}
	}
	for _, name := range []string{"linkerd", "istio", "istio-ambient", "istio-ambient-l4", "consul"} {
		refused(name, "1")
	}
	// An unschedulable node does not count.
	closed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tare-test-%d", os.Getpid())}, Spec: corev1.NodeSpec{Unschedulable: true}}
	must.Get(c.Typed().CoreV1().Nodes().Create(bounded(t, time.Minute), closed, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Typed().CoreV1().Nodes().Delete(ctx, closed.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	refused("istio", "1 that take pods, of 2")
	sameInventory(t, c, before)
}

// An autoscaler is fixed at the profile's replicas, and an unfixed one fails the check.
func TestRealAutoscalerIsFixed(t *testing.T) {
	c := connect(t)
	m := small(t, c, toolbox, mesh.Settings{}, kept{})
	namespace := fmt.Sprintf("tare-test-scaled-%d", os.Getpid())
	put(t, c, namespace, mesh.Marks{}, deployment("waypoint", nil, nil, [2]string{"app", "sleep 3600"}), `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: another}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: another}
  minReplicas: 1
  maxReplicas: 9
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: of-the-waypoint}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: waypoint}
  minReplicas: 1
  maxReplicas: 5
`)
	verify := func(replicas int, ok bool, detail string) {
		t.Helper()
		check, err := controlPlane{m.instance, scaler{c, nil}}.workload(bounded(t, time.Minute), mesh.Workload{Kind: "Deployment", Name: "waypoint", Scaled: true}, namespace, replicas)
		if err != nil || check.OK != ok || !strings.Contains(check.Detail, detail) {
			t.Errorf("%d replicas: %+v, %v, want %q", replicas, check, err, detail)
		}
	}
	verify(1, false, "1 of 1 ready, and autoscaler of-the-waypoint can change it to 1 to 5")
	ref := cluster.Ref{Kind: cluster.KindDeployment, Namespace: namespace, Name: "waypoint"}
	must.OK(t, (scaler{c, nil}).waitScaled(bounded(t, 2*time.Minute), ref, true, 2))
	verify(2, true, "2 of 2 ready")
	verify(3, false, "2 of 2 ready, profile dev has 3")
	for name, want := range map[string][2]int32{"of-the-waypoint": {2, 2}, "another": {1, 9}} {
		h, err := c.Typed().AutoscalingV1().HorizontalPodAutoscalers(namespace).Get(bounded(t, time.Minute), name, metav1.GetOptions{})
		if err != nil || *h.Spec.MinReplicas != want[0] || h.Spec.MaxReplicas != want[1] {
			t.Errorf("autoscaler %s: %+v, %v, want %v", name, h, err, want)
		}
	}
}
