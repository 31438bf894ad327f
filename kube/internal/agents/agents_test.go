package agents

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
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

// The clocks of two nodes are 5 s ahead and 5 s behind: each is found within its uncertainty. A third node is a container of the first
// one's machine, and has its clock without a comparison.
func TestClocksOfNodes(t *testing.T) {
	offsets := map[string]time.Duration{"fast": 5 * time.Second, "slow": -5 * time.Second}
	a := New(nil, "test", "", nil)
	a.byNode = map[string]*Agent{}
	var list corev1.NodeList
	for node, machine := range map[string]string{"a": "fast", "b": "slow", "c": "fast"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			now := time.Now().Add(offsets[machine]).UnixNano()
			httpserver.Answer(w, http.StatusOK, clock.Stamps{Received: now, Sent: now})
		}))
		defer server.Close()
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
		}
		a.byNode[node] = &Agent{Client: nodeagent.NewClient(dial, ""), Node: cluster.Node{Name: node, BootID: machine}}
		list.Items = append(list.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
	}
	a.cluster = clustertest.Serve(t, map[string]any{"/api/v1/nodes": list})
	must.OK(t, a.Compare(t.Context()))
	for node, machine := range map[string]string{"a": "fast", "b": "slow", "c": "fast"} {
		ahead, unsure, ok := a.Clock(node)
		if wrong := (ahead - offsets[machine]).Abs(); !ok || wrong > unsure {
			t.Errorf("node %s: %v ahead, ±%v, wrong by %v", node, ahead, unsure, wrong)
		}
	}
	if _, _, ok := a.Clock("another"); ok {
		t.Error("a node without an agent has a clock")
	}
}
