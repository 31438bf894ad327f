package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/kube/cluster"
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

// States that alternate, such as those of a failed pull, are printed once each.
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
	answers := map[string]func() any{
		"/version": func() any { return map[string]string{"gitVersion": "v1.36.3"} },
		"/api":     func() any { return metav1.APIVersions{Versions: []string{"v1"}} },
		"/api/v1":  func() any { return metav1.APIResourceList{GroupVersion: "v1"} },
		"/apis": func() any {
			v := metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"}
			return metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}}}
		},
		"/apis/apps/v1": func() any {
			return metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Namespaced: true, Kind: "Deployment", Verbs: []string{"get", "watch"}}}}
		},
		path:          func() any { ready.Add(4); return map[string]any{"type": "MODIFIED", "object": deployment()} }, // a watch
		path + "/web": func() any { return deployment() },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer()); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {}}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Connect(t.Context(), cluster.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	a := &applier{trial: &trial{cluster: c, options: &Options{Report: func(s string) { printed.Add(1); t.Log(s) }}}}
	began := time.Now()
	if err := a.wait(t.Context(), cluster.Ref{Kind: cluster.KindDeployment, Namespace: "shop", Name: "web"}); err != nil {
		t.Fatal(err)
	}
	if most := int64(time.Since(began) / reportDelay); ready.Load() < 200 || printed.Load() > most {
		t.Errorf("%d of 200 pods ready, %d lines, max %d", ready.Load(), printed.Load(), most)
	}
}
