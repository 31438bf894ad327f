// Package clustertest connects tests to the cluster named by
// TARE_TEST_KUBECONFIG, and skips them without one.
package clustertest

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Connect connects to the test cluster.
func Connect(t *testing.T) *cluster.Cluster {
	t.Helper()
	return must.Get(cluster.Connect(Within(t, 30*time.Second), cluster.Options{Kubeconfig: Kubeconfig(t)}))(t)
}

// ConnectAs connects to the test cluster as a service account. The account need not exist.
func ConnectAs(t *testing.T, namespace, account string) *cluster.Cluster {
	t.Helper()
	config := must.Get(clientcmd.LoadFromFile(Kubeconfig(t)))(t)
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + namespace + ":" + account
		user.ImpersonateGroups = []string{"system:serviceaccounts", "system:authenticated"}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, clientcmd.WriteToFile(*config, path))
	return must.Get(cluster.Connect(Within(t, 30*time.Second), cluster.Options{Kubeconfig: path}))(t)
}

// Toolbox is an image that every test cluster has: busybox.
const Toolbox = "tare.test/toolbox:1"

// Kubeconfig is the file of the test cluster. Without one the test is skipped, in CI it fails.
func Kubeconfig(t *testing.T) string {
	t.Helper()
	path := os.Getenv("TARE_TEST_KUBECONFIG")
	switch {
	case path != "" && !testing.Short():
	case os.Getenv("CI") == "true" && !testing.Short():
		t.Fatal("TARE_TEST_KUBECONFIG is not set")
	default:
		t.Skip("TARE_TEST_KUBECONFIG is not set: `make cluster` starts a cluster")
	}
	return path
}

// Deployment is a deployment "echo" of busybox, and edit changes it and its container.
func Deployment(namespace string, edit func(*appsv1.Deployment, *corev1.Container)) *appsv1.Deployment {
	labels := map[string]string{"app": "echo"}
	zero := int64(0)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "echo"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &zero, Containers: []corev1.Container{{
					Name: "app", Image: Toolbox, Command: []string{"sleep", "3600"}, ImagePullPolicy: corev1.PullNever,
				}}},
			},
		},
	}
	if edit != nil {
		edit(d, &d.Spec.Template.Spec.Containers[0])
	}
	return d
}

// Namespace creates a namespace, and returns its name and stamp. Its deletion begins when the test ends: no later test has
// its name, so none waits for the five seconds that it takes.
func Namespace(t *testing.T, c *cluster.Cluster) (string, cluster.Stamp) {
	t.Helper()
	name := "tare-test-" + strings.ToLower(rand.Text()[:8])
	stamp := cluster.Stamp{Run: name}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Typed().CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !cluster.IsNotFound(err) {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	must.OK(t, c.Apply(Within(t, time.Minute), stamp, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	must.OK(t, c.WaitReady(Within(t, time.Minute), nil, cluster.Ref{Kind: cluster.KindNamespace, Name: name}))
	return name, stamp
}

// Removed deletes a namespace with the test, and waits until it is gone.
func Removed(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Delete(ctx, nil, cluster.Ref{Kind: cluster.KindNamespace, Name: namespace}); err != nil {
			t.Errorf("delete namespace %s: %v", namespace, err)
		}
	})
}

// Within is the test's context with a time limit.
func Within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Contains checks that text contains every one of the parts.
func Contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, text)
		}
	}
}
