package kube

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/cluster/clustertest"
)

// While 200 pods become ready one after another, the wait prints a line every ten seconds, with the state of that moment.
func TestDelayedReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var lines []string
		r := newDelayedReport(func(s string) { lines = append(lines, fmt.Sprintf("%v %s", time.Since(began), s)) })
		for ready := range 201 {
			r.add(fmt.Sprintf("%d of 200 replicas ready", ready))
			time.Sleep(155 * time.Millisecond)
		}
		r.close()
		time.Sleep(time.Minute)
		if got, want := strings.Join(lines, "\n"), "10s 64 of 200 replicas ready\n20s 129 of 200 replicas ready\n30s 193 of 200 replicas ready"; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	})
}

// States that alternate, such as after a failed pull, are printed once each.
func TestDelayedReportRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		r := newDelayedReport(func(s string) { lines = append(lines, s) })
		for i := range 20 {
			r.add([]string{"ErrImagePull", "ImagePullBackOff"}[i%2])
			time.Sleep(15 * time.Second)
		}
		r.close()
		if got := strings.Join(lines, ", "); got != "ErrImagePull, ImagePullBackOff" {
			t.Error(got)
		}
	})
}

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
	if most := int64(time.Since(began) / reportDelay); ready.Load() < 200 || printed.Load() > most {
		t.Errorf("%d of 200 pods ready, %d lines, max %d", ready.Load(), printed.Load(), most)
	}
}
