package clustertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Serve connects to a server that answers paths with an object, a function that returns one, or a handler. It has
// namespaces, ConfigMaps and Deployments. It serves answers that a real API server gives only when it fails.
func Serve(t *testing.T, answers map[string]any) *cluster.Cluster {
	t.Helper()
	apps := metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"}
	verbs := metav1.Verbs{"get", "list", "watch", "delete"}
	all := map[string]any{
		"/version": map[string]string{"gitVersion": "v1.36.3"},
		"/api":     metav1.APIVersions{Versions: []string{"v1"}},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "namespaces", Kind: "Namespace", Verbs: verbs}, {Name: "configmaps", Namespaced: true, Kind: "ConfigMap", Verbs: verbs}}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{apps}, PreferredVersion: apps}}},
		"/apis/apps/v1": metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			{Name: "deployments", Namespaced: true, Kind: "Deployment", Verbs: verbs}}},
	}
	maps.Copy(all, answers)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := all[r.URL.Path]
		switch a := answer.(type) {
		case nil:
			http.NotFound(w, r)
			return
		case http.HandlerFunc:
			a(w, r)
			return
		case func() any:
			answer = a()
		}
		Answer(t, w, answer)
	}))
	t.Cleanup(server.Close)
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {}}]\n", server.URL)
	return must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: must.File(t, t.TempDir(), "kubeconfig", text)}))(t)
}

// Answer writes an object as an API server does.
func Answer(t *testing.T, w http.ResponseWriter, object any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		t.Error(err)
	}
}
