package kubecli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
)

// Kubernetes schedules background pods on a simulated node and makes their endpoints, whose addresses change. They are in no figure. The
// run has only the permissions that are printed for it. Not KWOK but this test writes that pods are ready.
func TestKubernetesBackgroundPods(t *testing.T) {
	r := experimentOnKubernetes(t, `
factors: {mesh: [none], rate: [20], connections: [2]}
background: {services: 4, changes: 2/s, pods: 6}
phases: {warmup: 2s, measure: 8s, drain: 1s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`)
	disposable(t, r.cluster)
	clustertest.SimulatedNode(t, r.cluster)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; wait.For(ctx, 500*time.Millisecond) == nil; {
			n = playKWOK(ctx, r.cluster, n)
		}
	}()
	r.limit(t)
	all := r.records(t, console.Done, func() { addressesOfChanges(t, r.cluster) })
	cancel()
	<-done
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%+v", all)
	}
	if b := all[0].Background; b == nil || b.Services != 4 || b.Pods != 6 || b.Changes != 16 { // two a second of a measure phase of 8 s
		t.Errorf("background %+v", b)
	}
	for _, task := range all[0].Tasks {
		if strings.HasPrefix(task.Pod, "background-") {
			t.Errorf("%s of the background is in the figures", task.Pod)
		}
	}
}

// playKWOK writes that the node and its new pods are ready, from the n-th address on, and returns the next number.
func playKWOK(ctx context.Context, c *cluster.Cluster, n int) int {
	core := c.Typed().CoreV1()
	_, _ = core.Nodes().Patch(ctx, "simulated", types.MergePatchType, fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339)), metav1.PatchOptions{}, "status")
	list, err := core.Pods("").List(ctx, metav1.ListOptions{LabelSelector: "tare.dev/background", FieldSelector: "spec.nodeName=simulated,status.phase=Pending"})
	if err != nil {
		return n
	}
	for _, pod := range list.Items {
		_, _ = core.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, fmt.Appendf(nil, `{"status":{"phase":"Running","podIP":"10.211.0.%d",
			"podIPs":[{"ip":"10.211.0.%[1]d"}],"conditions":[{"type":"Ready","status":"True"},{"type":"ContainersReady","status":"True"}]}}`, n), metav1.PatchOptions{}, "status")
		n++
	}
	return n
}

// addressesOfChanges checks that the endpoint controller writes addresses of three changes or more, and keeps the number of endpoints.
func addressesOfChanges(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	seen := map[int]bool{}
	err := wait.Within(t.Context(), 20*time.Second, 100*time.Millisecond, func(ctx context.Context) error {
		list, err := c.Typed().DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: cluster.LabelRun + ",endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io"})
		if err != nil {
			return err
		}
		pods := 0
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				if e.TargetRef == nil || e.TargetRef.Kind != "Pod" || !strings.HasPrefix(e.TargetRef.Name, "background-") {
					continue
				}
				pods++
				if n, ok := mesh.BackgroundChange(e.Addresses[0]); ok {
					seen[n] = true
				}
			}
		}
		if pods != 6 || len(seen) < 3 {
			return fmt.Errorf("%d endpoints of background pods, and %d changes", pods, len(seen))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
