package agents

import (
	"context"
	"errors"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/cluster/clustertest"
)

// Agents of nodes that are not ready, or that were deleted, are left out of the trials that follow.
func TestLostNodes(t *testing.T) {
	c := clustertest.Serve(t, map[string]any{"/api/v1/nodes": corev1.NodeList{Items: []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "silent"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}},
	}}})
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("its node is lost") }
	a := New(c, "test", "", nil)
	a.byNode = map[string]*Agent{}
	for _, name := range []string{"deleted", "silent"} {
		a.byNode[name] = &Agent{Client: nodeagent.NewClient(dial, ""), Node: cluster.Node{Name: name}}
	}
	if err := a.Compare(t.Context()); err != nil || len(a.All()) != 0 {
		t.Errorf("%v, %d agents are left", err, len(a.All()))
	}
}
