package cluster

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Pods are deleted by force only where no kubelet answers, and only after their grace period. A missing permission is a
// reason why they stay.
func TestPodsOfLostNodes(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, taints ...corev1.Taint) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	past, future := &metav1.Time{Time: time.Now().Add(-time.Minute)}, &metav1.Time{Time: time.Now().Add(time.Hour)}
	var pods []corev1.Pod
	for _, x := range []struct {
		name, node string
		deleted    *metav1.Time
	}{
		{"ended", "silent", past}, {"in-grace", "silent", future}, {"kept", "silent", nil},
		{"ended-tainted", "tainted", past}, {"ending", "starting", past}, {"ending-too", "ready", past},
	} {
		p := pod(x.name, corev1.PodRunning)
		p.Spec.NodeName, p.DeletionTimestamp = x.node, x.deleted
		pods = append(pods, p)
	}
	for _, status := range []int{http.StatusOK, http.StatusForbidden} {
		var deleted []string
		answers := map[string]any{
			"/api/v1/nodes": corev1.NodeList{Items: []corev1.Node{node("silent", corev1.ConditionUnknown), node("ready", corev1.ConditionTrue), node("starting", corev1.ConditionFalse),
				node("tainted", corev1.ConditionFalse, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute})}},
			"/api/v1/namespaces/shop/pods": corev1.PodList{Items: pods},
		}
		for _, p := range pods {
			answers["/api/v1/namespaces/shop/pods/"+p.Name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					deleted = append(deleted, p.Name)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = w.Write([]byte("{}"))
			})
		}
		c := serve(t, answers)
		kept := freeLost(t.Context(), c.typed, "shop")
		if status == http.StatusOK && (!slices.Equal(deleted, []string{"ended", "ended-tainted"}) || len(kept) != 0) {
			t.Errorf("deleted %v, kept: %v", deleted, kept)
		}
		if status == http.StatusForbidden && (len(kept) != 1 || !strings.Contains(kept[0].text, "node silent does not answer, and the permission to delete its pods (ended) is missing")) {
			t.Errorf("without permission: %v", kept)
		}
	}
}

// The pods of a namespace are ended after it is marked as terminating, so that no workload starts others. Without permission, and for
// other objects, none is.
func TestEndPods(t *testing.T) {
	for name, c := range map[string]struct {
		kind   schema.GroupVersionKind
		status int
		want   []string
	}{
		"a namespace":        {KindNamespace, http.StatusOK, []string{"/api/v1/namespaces/shop", "/api/v1/namespaces/shop/pods"}},
		"without permission": {KindNamespace, http.StatusForbidden, []string{"/api/v1/namespaces/shop", "/api/v1/namespaces/shop/pods"}},
		"a pod":              {KindPod, http.StatusOK, []string{"/api/v1/namespaces/default/pods/shop"}},
	} {
		t.Run(name, func(t *testing.T) {
			var deleted []string
			object := func(status int) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					switch {
					case r.Method == http.MethodDelete:
						deleted = append(deleted, r.URL.Path)
						w.WriteHeader(status)
						_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","code":` + strconv.Itoa(status) + `}`))
					case len(deleted) > 0:
						http.NotFound(w, r)
					default:
						_, _ = w.Write([]byte(`{"kind":"` + c.kind.Kind + `","apiVersion":"v1","metadata":{"name":"shop","uid":"1"}}`))
					}
				}
			}
			k := serve(t, map[string]any{
				"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
					{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", Verbs: metav1.Verbs{"get", "delete"}},
					{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get", "delete"}}}},
				"/api":                                 metav1.APIVersions{Versions: []string{"v1"}},
				"/apis":                                metav1.APIGroupList{},
				"/api/v1/namespaces/shop":              object(http.StatusOK),
				"/api/v1/namespaces/shop/pods":         object(c.status),
				"/api/v1/namespaces/default/pods/shop": object(http.StatusOK),
			})
			ref := Ref{Kind: c.kind, Name: "shop"}
			if c.kind == KindPod {
				ref.Namespace = "default"
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := k.Delete(ctx, nil, ref); err != nil || !slices.Equal(deleted, c.want) {
				t.Errorf("deleted %v, want %v: %v", deleted, c.want, err)
			}
		})
	}
}
