package meshes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Where a mesh lets in what comes from nodes a pod outside of it asks, every port three times; without one nothing is
// claimed.
func TestPlaintextFromPodOutside(t *testing.T) {
	d, err := mesh.Load("istio-ambient-l4")
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(nil, d, mesh.Settings{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name, container string, port int32) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container, Ports: []corev1.ContainerPort{{ContainerPort: port}}}}}}
	}
	pods := divided{in: []*corev1.Pod{pod("load", "load", 9), pod("shop", "app", 8080), pod("till", "app", 8081)}}
	for what, c := range map[string]struct {
		admits bool
		fails  error
		ok     bool
		want   string
		asked  []int32
	}{
		"refused": {false, nil, true, "6 of 6 requests without TLS were refused", []int32{8080, 8080, 8080, 8081, 8081, 8081}},
		"let in":  {true, nil, false, "pod shop answered: 200", []int32{8080}},
		"unknown": {false, errors.New("timeout"), false, "pod shop could not be asked: timeout", []int32{8080}},
	} {
		var asked []int32
		target := Target{LoadInside: true, IsLoad: func(p *corev1.Pod) bool { return p.Name == "load" },
			Plaintext: func(_ context.Context, _ *corev1.Pod, port int32) (bool, string, error) {
				asked = append(asked, port)
				return c.admits, "200", c.fails
			}}
		checks, err := m.plaintext(t.Context(), target, pods)
		if err != nil || len(checks) != 1 || checks[0].OK != c.ok || checks[0].Detail != c.want || !slices.Equal(asked, c.asked) {
			t.Errorf("%s: %+v, %v, asked %v", what, checks, err, asked)
		}
	}
	checks, err := m.plaintext(t.Context(), Target{LoadInside: true}, pods)
	if err != nil || len(checks) != 1 || !strings.HasPrefix(checks[0].Detail, "not tried") {
		t.Errorf("without a pod outside: %+v, %v", checks, err)
	}
	if checks, err := m.plaintext(t.Context(), Target{}, pods); err != nil || len(checks) != 0 {
		t.Errorf("where plaintext is let in: %+v, %v", checks, err)
	}
}
