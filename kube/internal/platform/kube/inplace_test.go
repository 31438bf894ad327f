package kube

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// What is put back, and what stays, is reported at once, however short the wait.
func TestNoticesOfInPlace(t *testing.T) {
	state := must.Get(json.Marshal(map[string]any{"namespace": "shop", "objects": []any{map[string]any{"ref": cluster.Ref{Kind: cluster.KindNamespace, Name: "shop"},
		"changes": []any{map[string]string{"field": "labels", "name": "mesh", "value": "on"}}}}}))(t)
	deleted := false
	c := clustertest.Serve(t, map[string]any{
		"/api/v1/namespaces/shop": corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"mesh": "mine"}}},
		"/api/v1/namespaces/shop/pods": corev1.PodList{},
		"/api/v1/namespaces/shop/configmaps/tare-in-place": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if deleted {
				http.NotFound(w, r)
				return
			}
			deleted = r.Method == http.MethodDelete
			clustertest.Answer(t, w, corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tare-in-place", UID: "1"}, Data: map[string]string{"state.json": string(state)}})
		}),
	})
	var lines []string
	p := &inPlace{trial: &trial{cluster: c, namespace: "shop", options: &Options{Report: func(s string) { lines = append(lines, s) }}}}
	must.OK(t, p.restore(t.Context()))
	want := "namespace shop is restored, and its workloads restart\nnamespace shop: mesh of labels was changed by another user and is kept"
	if got := strings.Join(lines, "\n"); got != want || !deleted {
		t.Errorf("%s\nwant\n%s\nthe stored values are deleted: %v", got, want, deleted)
	}
}
