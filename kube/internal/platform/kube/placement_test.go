package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// bareNodes creates ready nodes without a kubelet: the scheduler binds pods to them, which never start.
func bareNodes(t *testing.T, c *cluster.Cluster, labels ...string) {
	t.Helper()
	nodes := c.Typed().CoreV1().Nodes()
	t.Cleanup(func() {
		zero := int64(0)
		for i := range labels {
			if err := nodes.Delete(context.Background(), bareName(i), metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil && !cluster.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("50")}
	for i, role := range labels {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: bareName(i), Labels: map[string]string{corev1.LabelHostname: bareName(i)}}}
		if role != "" {
			node.Labels[LabelRole] = role
		}
		must.Get(nodes.Create(t.Context(), node, metav1.CreateOptions{}))(t)
		status, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Test", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}}})
		if err == nil {
			_, err = nodes.PatchStatus(t.Context(), node.Name, status)
		}
		must.OK(t, err)
	}
	// The taint of a new node is removed when its condition is known.
	awaitCondition(t, "the nodes to be schedulable", func() (bool, error) {
		all, err := Nodes(t.Context(), c)
		n := 0
		for _, node := range all {
			if node.Schedulable && strings.HasPrefix(node.Name, "tare-bare-") {
				n++
			}
		}
		return n == len(labels), err
	})
}

func bareName(i int) string { return fmt.Sprintf("tare-bare-%d", i) }

// awaitCondition polls a condition for less time than a node without a kubelet stays ready.
func awaitCondition(t *testing.T, condition string, holds func() (bool, error)) {
	t.Helper()
	err := wait.Within(t.Context(), 30*time.Second, pollInterval, func(context.Context) error {
		ok, err := holds()
		if !ok && err == nil {
			err = errors.New(condition)
		}
		return err
	})
	if err != nil {
		t.Fatalf("waited for %s: %v", condition, err)
	}
}

// schedule applies a trial of three replicas and two load workers and returns the nodes of its pods.
func schedule(t *testing.T, c *cluster.Cluster, affinity string) (application, load []string) {
	t.Helper()
	p := newReal(t, c, func(o *Options) { o.Affinity, o.Workers = affinity, 2 })
	spec := platformtest.Spec(t, noMesh(t), 3, "echo")
	d := must.Get(p.newDeployment(spec))(t)
	pods := c.Typed().CoreV1().Pods(d.namespace)
	t.Cleanup(func() { // without a kubelet, pods end only when deleted by force
		ctx, zero := context.Background(), int64(0)
		background := metav1.DeletePropagationBackground
		gone := metav1.DeleteOptions{PropagationPolicy: &background}
		_ = c.Typed().AppsV1().Deployments(d.namespace).Delete(ctx, spec.Entry().Name, gone)
		_ = c.Typed().BatchV1().Jobs(d.namespace).Delete(ctx, loadService, gone)
		err := wait.Within(ctx, 30*time.Second, pollInterval, func(ctx context.Context) error {
			_ = pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &zero}, metav1.ListOptions{})
			list, err := pods.List(ctx, metav1.ListOptions{})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d pods are left", len(list.Items))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if err := d.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, step := range []func(context.Context) error{d.applier.createTrialNamespace, d.createObjects} {
		must.OK(t, step(t.Context()))
	}
	awaitCondition(t, "every pod to be bound to a node", func() (bool, error) {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		application, load = nil, nil
		for _, pod := range list.Items {
			switch {
			case pod.Spec.NodeName == "":
				err = fmt.Errorf("%s: %+v", pod.Name, pod.Status.Conditions)
			case pod.Labels[labelService] == loadService:
				load = append(load, pod.Spec.NodeName)
			default:
				application = append(application, pod.Spec.NodeName)
			}
		}
		return len(application) == 3 && len(load) == 2, err
	})
	return application, load
}

// The scheduler spreads replicas over nodes, keeps the load on other nodes where possible, and follows node labels.
func TestPlacementByTheScheduler(t *testing.T) {
	c := realCluster(t)
	for name, x := range map[string]struct {
		affinity    string
		nodes       []string // roles of additional nodes
		application int      // number of nodes of its three replicas
		apart       bool     // the load is on others
	}{
		"one node":              {affinityAuto, nil, 1, false},
		"three nodes":           {affinityAuto, []string{"", ""}, 3, false},
		"seven nodes":           {affinityAuto, []string{"", "", "", "", "", ""}, 3, true},
		"seven labelled nodes":  {AffinityLabels, []string{RoleApplication, RoleApplication, RoleApplication, RoleLoad, RoleLoad, ""}, 3, true},
		"seven nodes, anywhere": {affinityNone, []string{"", "", "", "", "", ""}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			bareNodes(t, c, x.nodes...)
			application, load := schedule(t, c, x.affinity)
			t.Logf("application on %v, load on %v", application, load)
			on := map[string]bool{}
			for _, node := range application {
				on[node] = true
			}
			if x.application > 0 && len(on) != x.application {
				t.Errorf("three replicas are on %v, want %d nodes", slices.Sorted(maps.Keys(on)), x.application)
			}
			for _, node := range load {
				if x.apart && on[node] {
					t.Errorf("load and application are on %s", node)
				}
			}
			if x.affinity != AffinityLabels {
				return
			}
			for role, nodes := range map[string][]string{RoleApplication: application, RoleLoad: load} {
				for _, node := range nodes {
					if !labelledFor(x.nodes, node, role) {
						t.Errorf("%s is not labelled for the %s", node, role)
					}
				}
			}
		})
	}
}

func labelledFor(roles []string, node, role string) bool {
	for i, r := range roles {
		if bareName(i) == node {
			return r == role
		}
	}
	return false
}

// A placement that differs from the first trial with the same services and replicas is a warning: after a cordon the load is
// beside the application.
func TestPlacementDiffers(t *testing.T) {
	o := New(Options{Cluster: clustertest.Serve(t, nil)}, nil).options
	warned := func(nodes ...string) (codes []string) {
		var pods []*corev1.Pod
		for i, service := range []string{"echo", "echo", "load"}[:len(nodes)] {
			pod := podOf("n", fmt.Sprint("pod-", i), service)
			pod.Spec.NodeName = nodes[i]
			pods = append(pods, pod)
		}
		of := &trial{options: &o, namespace: "n", spec: platformtest.Spec(t, noMesh(t), 2, "echo")}
		for _, w := range (&entryPoint{trial: of, pods: &trialPods{trial: of, store: storeOf(t, pods...)}}).Warnings() {
			codes = append(codes, w.Code+": "+w.Message)
		}
		return codes
	}
	for _, same := range [][]string{{"a", "b", "c"}, {"c", "a", "b"}, {"a", "b"}, {"b", "a"}} { // another trial has no load in the cluster
		if got := warned(same...); got != nil {
			t.Errorf("%v: %v", same, got)
		}
	}
	got := warned("a", "b", "b")
	if len(got) != 1 || !strings.HasPrefix(got[0], "placement-differs: pods share nodes as [echo, echo load], and in the first such trial as [echo, echo, load]") {
		t.Errorf("%v", got)
	}
}
