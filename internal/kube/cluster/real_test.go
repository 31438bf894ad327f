package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// toolbox is an image that every test cluster has: busybox.
const toolbox = "tare.test/toolbox:1"

// realKubeconfig is that of the cluster tests may use.
func realKubeconfig(t *testing.T) string {
	t.Helper()
	path := os.Getenv("TARE_TEST_KUBECONFIG")
	switch {
	case path != "":
	case os.Getenv("CI") == "true" && !testing.Short():
		t.Fatal("TARE_TEST_KUBECONFIG names no cluster")
	default:
		t.Skip("TARE_TEST_KUBECONFIG names no cluster: `make cluster` leaves one up")
	}
	return path
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func connect(t *testing.T) *Cluster {
	t.Helper()
	c, err := Connect(within(t, 30*time.Second), Options{Kubeconfig: realKubeconfig(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// space is a namespace of the test's own, removed with the test, and the stamp it was made with.
func space(t *testing.T, c *Cluster) (string, Stamp) {
	t.Helper()
	name := "tare-test-" + strings.ToLower(rand.Text()[:8])
	s := Stamp{Run: name}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Delete(ctx, nil, Ref{Kind: KindNamespace, Name: name}); err != nil {
			t.Errorf("leave nothing: %v", err)
		}
	})
	if err := c.Apply(within(t, time.Minute), s, ns); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(within(t, time.Minute), nil, Ref{Kind: KindNamespace, Name: name}); err != nil {
		t.Fatal(err)
	}
	return name, s
}

// echo is a deployment of busybox; edit makes it fail.
func echo(namespace string, edit func(*appsv1.Deployment, *corev1.Container)) *appsv1.Deployment {
	labels := map[string]string{"app": "echo"}
	zero := int64(0)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "echo"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &zero, Containers: []corev1.Container{{
					Name: "app", Image: toolbox, Command: []string{"sleep", "3600"}, ImagePullPolicy: corev1.PullNever,
				}}},
			},
		},
	}
	if edit != nil {
		edit(d, &d.Spec.Template.Spec.Containers[0])
	}
	return d
}

// lines collects what a wait reports.
type lines struct {
	sync.Mutex
	all []string
}

func (l *lines) add(s string) {
	l.Lock()
	defer l.Unlock()
	l.all = append(l.all, s)
}

func (l *lines) String() string {
	l.Lock()
	defer l.Unlock()
	return strings.Join(l.all, "\n")
}

func hintOf(err error) string {
	var hinted interface{ Hint() string }
	if asError(err, &hinted) {
		return hinted.Hint()
	}
	return ""
}

// says checks that an error, its hint or a report holds each of the words.
func says(t *testing.T, what string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(what, w) {
			t.Errorf("does not say %q:\n%s", w, what)
		}
	}
}

// signal sends one of the test cluster's daemons a signal.
func signal(t *testing.T, daemon, name string) error {
	t.Helper()
	program := os.Getenv("TARE_TEST_CLUSTER")
	if program == "" {
		t.Skip("TARE_TEST_CLUSTER names no program that could stop a daemon")
	}
	if out, err := exec.Command(program, "signal", daemon, name).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, daemon, err, out)
	}
	return nil
}

// stopAPIServer stops the API server where it is, and lets it go on after d, or when the test ends.
func stopAPIServer(t *testing.T, d time.Duration) {
	t.Helper()
	const server = "kube-apiserver"
	if err := signal(t, server, "stop"); err != nil {
		t.Fatal(err)
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-time.After(d):
		case <-ended:
		}
		if err := signal(t, server, "cont"); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		close(ended)
		<-done
	})
}
