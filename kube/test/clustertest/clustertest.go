// Package clustertest connects tests to the cluster named by
// TARE_TEST_KUBECONFIG, and skips them without one.
package clustertest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
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
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "echo"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{
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

// SimulatedNode adds a node of 1000 CPUs without a kubelet to the cluster, ready and tainted as KWOK's are, and a pod that seems to
// run there. Nothing keeps it ready: Kubernetes takes it for lost after its grace period.
func SimulatedNode(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	const name, taint = "simulated", "kwok.x-k8s.io/node"
	nodes, pods := c.Typed().CoreV1().Nodes(), c.Typed().CoreV1().Pods(metav1.NamespaceDefault)
	ctx := Within(t, 30*time.Second)
	t.Cleanup(func() {
		ctx, now := context.WithoutCancel(ctx), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		must.OK(t, errors.Join(pods.Delete(ctx, name, now), nodes.Delete(ctx, name, now)))
	})
	must.Get(nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"type": "kwok"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: taint, Value: "fake", Effect: corev1.TaintEffectNoSchedule}}}}, metav1.CreateOptions{}))(t)
	must.Get(nodes.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"capacity":{"cpu":"1000","memory":"1Ti","pods":"10"},
		"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status"))(t)
	must.Get(pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: name,
		TerminationGracePeriodSeconds: new(int64(0)), AutomountServiceAccountToken: new(false),
		Tolerations: []corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: "app", Image: Toolbox}}}}, metav1.CreateOptions{}))(t)
	must.Get(pods.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"phase":"Running","containerStatuses":[{"name":"app",
		"containerID":"containerd://simulated","image":"","imageID":"","ready":true,"restartCount":0,"state":{"running":{}}}]}}`), metav1.PatchOptions{}, "status"))(t)
}
