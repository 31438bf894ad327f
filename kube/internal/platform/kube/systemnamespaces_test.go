package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// The guard and the attribution rules have the same namespaces of a cluster's own components. Namespaces of users are none,
// whatever their names begin with.
func TestSystemNamespaces(t *testing.T) {
	for namespace, system := range map[string]bool{"openshift-dns": true, "azure-shop": false, "gke-demo": false, "kube-demo": false, "amazon-orders": false, "calico-test": false, "aks-team": false, "gmp-app": false} {
		checkNamespace(t, namespace, system)
	}
	for _, namespace := range manifest.SystemNamespaces() {
		checkNamespace(t, namespace, true)
	}
}

func checkNamespace(t *testing.T, namespace string, system bool) {
	t.Helper()
	if got := cluster.IsSystem(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}); got != system {
		t.Errorf("%s: the guard takes it for the cluster's own: %v", namespace, got)
	}
	got := noMesh(t).Attribute(mesh.Task{Namespace: namespace, Pod: "p", Container: "c"})
	if (got.Plane == metric.Platform) != system {
		t.Errorf("%s: plane %s", namespace, got.Plane)
	}
}
