package kube

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// Two proxies take over a configuration at one instant. One node's clock is 5 s ahead of tare's, the other's 5 s behind: both
// updates have the instant by tare's clock. Without a comparison of clocks there is an error.
func TestProxyUpdatesByTheClockOfTare(t *testing.T) {
	istio, topology := must.Get(mesh.Load("istio"))(t), must.Get(app.Load("echo"))(t)
	offsets := map[string]time.Duration{"fast": 5 * time.Second, "slow": -5 * time.Second}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for node, service := range map[string]string{"fast": loadService, "slow": topology.EntryName()} {
		must.OK(t, store.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: "on-" + node, Labels: map[string]string{labelService: service}},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "istio-proxy"}}}}))
	}
	of := &trial{options: &Options{}, namespace: "trial", spec: platform.Spec{Mesh: istio, Topology: topology}}
	m := newMoments(of, &trialPods{trial: of, store: &podStore{informer: fixedInformer{store: store}}})
	if m.known() {
		t.Error("known without node agents")
	}
	at := time.Date(2026, 11, 28, 12, 0, 0, 123e6, time.UTC)
	m.read = func(_ context.Context, _ *cluster.Cluster, u mesh.Updates, pod *corev1.Pod) ([]time.Time, error) {
		return u.Times(fmt.Appendf(nil, `{%q: %q}`, u.Field, at.Add(offsets[pod.Spec.NodeName]).Format(time.RFC3339Nano)))
	}
	m.clock = func(node string) (ahead, unsure time.Duration, ok bool) {
		ahead, ok = offsets[node]
		return ahead, time.Millisecond, ok
	}
	updates := must.Get(m.ProxyUpdates(t.Context()))(t)
	if len(updates) != 2 {
		t.Errorf("updates of %d proxies, want 2: %v", len(updates), updates)
	}
	for name, times := range updates {
		if len(times) != 1 || !times[0].Equal(at) {
			t.Errorf("%s: %v, want %v", name, times, at)
		}
	}
	delete(offsets, "slow")
	must.Fail(t, must.Err(m.ProxyUpdates(t.Context())), "the clock of node slow is not compared")
}
