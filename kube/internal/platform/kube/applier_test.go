package kube

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// A deployment of 200 pods that is ready soon prints nothing.
func TestManyPodsPrintNoLines(t *testing.T) {
	var ready, printed atomic.Int64
	const path = "/apis/apps/v1/namespaces/shop/deployments"
	deployment := func() map[string]any {
		return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "shop", "name": "web", "resourceVersion": "1"},
			"spec": map[string]any{"replicas": 200}, "status": map[string]any{"availableReplicas": ready.Load(), "updatedReplicas": 200, "replicas": 200}}
	}
	c := clustertest.Serve(t, map[string]any{
		path:          func() any { ready.Add(4); return map[string]any{"type": "MODIFIED", "object": deployment()} }, // a watch
		path + "/web": func() any { return deployment() },
	})
	a := &applier{trial: &trial{cluster: c, options: &Options{Report: func(s string) { printed.Add(1); t.Log(s) }}}}
	began := time.Now()
	must.OK(t, a.wait(t.Context(), cluster.Ref{Kind: cluster.KindDeployment, Namespace: "shop", Name: "web"}))
	if most := int64(time.Since(began) / (10 * time.Second)); ready.Load() < 200 || printed.Load() > most {
		t.Errorf("%d of 200 pods ready, %d lines, max %d", ready.Load(), printed.Load(), most)
	}
}
