package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// A sidecar knows the background services when its gauge has their number, which may take a while. One that never has it is named,
// with what it has.
func TestKnownServices(t *testing.T) {
	d := dryRunDeployment(t, 1, "", noMesh(t), "echo")
	d.spec.Treatment.Levels.BackgroundServices = 3
	x := mesh.Proxy{Role: "sidecar", Services: &mesh.Series{Metric: "active_clusters"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "echo-0"}}
	for name, c := range map[string]struct {
		values []float64 // one after another, -1 for an error
		ok     bool
		want   string
	}{
		"at once": {[]float64{3}, true, "active_clusters is 3, at least 3 expected"},
		"later":   {[]float64{-1, 2, 7}, true, "active_clusters is 7"},
		"never":   {[]float64{2}, false, "active_clusters is 2, at least 3 expected"},
		"unread":  {[]float64{-1}, false, "connection refused"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		got := knownServices{d.trial}.by(ctx, x, pod, func(context.Context, *cluster.Cluster, mesh.Series, *corev1.Pod) (float64, error) {
			value := c.values[0]
			if len(c.values) > 1 {
				c.values = c.values[1:]
			} else if !c.ok {
				cancel()
			}
			if value < 0 {
				return 0, errors.New("connection refused")
			}
			return value, nil
		})
		cancel()
		if got.OK != c.ok || !strings.Contains(got.Detail, c.want) || !strings.Contains(got.Name, "sidecar of echo-0") || (got.Hint == "") != c.ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
