package kube

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// nodeMonitor reports the loss of a node that has a pod of the trial. Kubernetes keeps the pods of such a node for
// minutes, unchanged but for their readiness, so that their own state does not show it.
type nodeMonitor struct {
	*trial
	pods *trialPods
	stop func() // nil: nodes are not followed
	// forbidden reports that nodes are not followed, once in a run.
	forbidden func()

	mu   sync.Mutex
	lost error
	down map[string]bool // nodes that were not ready when the trial began
}

// nodesNotFollowed is reported if a role from before a new version of tare lacks a verb.
const nodesNotFollowed = "nodes are not followed without the permission to list and watch them: apply the role of `tare cluster rbac` again"

// start follows the nodes with a watch. Without permission to list or watch nodes it follows none.
func (m *nodeMonitor) start(ctx context.Context) error {
	if len(m.nodes) == 0 {
		return nil
	}
	nodes := m.cluster.Typed().CoreV1().Nodes()
	m.down = map[string]bool{}
	err := m.cluster.Retry(ctx, "follow nodes", func(ctx context.Context) error {
		list, err := nodes.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			m.down[n.Name] = !cluster.IsReady(n)
		}
		// The informer would repeat a watch that is not permitted, and list all nodes each time.
		w, err := nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err == nil {
			w.Stop()
		}
		return err
	})
	if cluster.IsForbidden(err) {
		m.forbidden()
		return nil
	}
	if err != nil {
		return err
	}
	informer := cache.NewSharedIndexInformer(listWatch(nodes), &corev1.Node{}, 0, cache.Indexers{})
	m.stop, err = follow(ctx, "nodes", informer, m.changed)
	return err
}

func (m *nodeMonitor) close() {
	if m.stop != nil {
		m.stop()
	}
}

// changed checks a node that appeared, changed or was deleted.
func (m *nodeMonitor) changed(node *corev1.Node, deleted bool) {
	if !deleted && cluster.IsReady(*node) || !m.pods.onNode(node.Name) {
		return
	}
	why := "was removed from the cluster"
	if !deleted {
		why = "is not ready" + conditionText(node)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost == nil {
		m.lost = hint.New("see `kubectl describe node "+node.Name+"`; the next trial uses the nodes that are left", "node %s %s", node.Name, why)
	}
}

// isDown reports whether a node was lost before the trial. Its containers cannot be read, and no load reaches them.
func (m *nodeMonitor) isDown(node string) bool { return m != nil && m.down[node] }

// conditionText is the kubelet's or the controller's reason why a node is not ready.
func conditionText(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Reason != "" {
			return ": " + c.Reason + ", " + c.Message
		}
	}
	return ""
}

// Err implements [platform.Deployment.Broken].
func (m *nodeMonitor) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost == nil {
		return nil
	}
	return &platform.Lost{Hinted: hint.Hinted{Err: m.lost, Text: hint.Of(m.lost)}, Code: "node-lost"}
}
