package kube

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/kube/test/clustertest"
)

// A list that the API server does not answer is repeated. Without permission to list or watch nodes a trial runs without
// following them.
func TestNodesMayNotBeFollowed(t *testing.T) {
	for _, forbidden := range []string{"list", "watch"} {
		calls, reported := 0, 0
		c := clustertest.Serve(t, map[string]any{"/api/v1/nodes": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			switch watch := r.URL.Query().Get("watch") != ""; {
			case calls == 1:
				http.Error(w, "busy", http.StatusServiceUnavailable)
			case watch || forbidden == "list":
				http.Error(w, "no", http.StatusForbidden)
			default:
				clustertest.Answer(t, w, corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}})
			}
		})})
		m := &nodeMonitor{trial: &trial{cluster: c, nodes: nodeList{{Name: "a"}}}, forbidden: func() { reported++ }}
		if err := m.start(t.Context()); err != nil || reported != 1 || m.stop != nil {
			t.Errorf("no permission to %s: %v, reported %d times, followed %v", forbidden, err, reported, m.stop != nil)
		}
		if down := forbidden == "watch"; m.isDown("a") != down || m.Err() != nil {
			t.Errorf("no permission to %s: node a, which is not ready, is down: %v", forbidden, m.isDown("a"))
		}
	}
}
