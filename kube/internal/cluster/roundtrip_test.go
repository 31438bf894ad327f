package cluster_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

func TestApplyWaitDelete(t *testing.T) {
	c := clustertest.Connect(t)
	ns, s := clustertest.Namespace(t, c)
	var kept []cluster.Manifest
	s.Archive = func(m cluster.Manifest) error { kept = append(kept, m); return nil }
	s.Labels = map[string]string{"tare.dev/trial": "1"}
	ctx := clustertest.Within(t, 2*time.Minute)
	d := clustertest.Deployment(ns, nil)
	for range 2 { // an existing object is not an error
		must.OK(t, c.Apply(ctx, s, d))
	}
	ref := must.Get(cluster.RefOf(d))(t)
	must.OK(t, c.WaitReady(ctx, nil, ref))
	pods, err := c.Typed().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: cluster.LabelRun + "=" + s.Run + ",tare.dev/trial=1"})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("%d pods carry the run's labels, %v", len(pods.Items), err)
	}
	got := must.Get(c.Get(ctx, ref))(t)
	if got.GetLabels()[cluster.LabelManagedBy] != cluster.ManagedBy || !strings.Contains(got.GetAnnotations()[cluster.AnnotationOwner], `"pid"`) {
		t.Errorf("labels %v, annotations %v", got.GetLabels(), got.GetAnnotations())
	}
	if len(kept) != 2 || kept[0].Ref != ref {
		t.Fatalf("kept %+v", kept)
	}
	clustertest.Contains(t, string(kept[0].YAML), "kind: Deployment", "image: "+clustertest.Toolbox, cluster.LabelRun+": "+s.Run)
	must.OK(t, c.Delete(ctx, nil, ref, ref))
	if _, err := c.Get(ctx, ref); !cluster.IsNotFound(err) {
		t.Errorf("after deletion: %v", err)
	}
	if pods, err := c.Typed().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{}); err != nil || len(pods.Items) != 0 {
		t.Errorf("%d pods outlive their deployment, %v", len(pods.Items), err)
	}
}

func TestNodesAreRead(t *testing.T) {
	c := clustertest.Connect(t)
	ctx := clustertest.Within(t, time.Minute)
	nodes := must.Get(c.Typed().CoreV1().Nodes().List(ctx, metav1.ListOptions{}))(t)
	for path, word := range map[string]string{"stats/summary": "usageCoreNanoSeconds", "metrics/resource": "container_cpu_usage_seconds_total"} {
		b, err := c.Reader().NodeRead(ctx, nodes.Items[0].Name, path)
		if err != nil || !strings.Contains(string(b), word) {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
	if _, err := c.Reader().NodeRead(ctx, "no-such-node", "stats/summary"); err == nil || cluster.IsTransient(err) {
		t.Errorf("a node that does not exist: %v", err)
	}
}

func TestConnectErrors(t *testing.T) {
	good, err := os.ReadFile(clustertest.Kubeconfig(t))
	must.OK(t, err)
	c := clustertest.Connect(t)
	write := func(text string) string {
		path := must.File(t, t.TempDir(), "config", text)
		return path
	}
	closed := strings.ReplaceAll(string(good), ":6443", ":6444")
	for name, tc := range map[string]struct {
		o     cluster.Options
		words []string
	}{
		"no file":       {cluster.Options{Kubeconfig: filepath.Join(t.TempDir(), "none")}, []string{"no such file", "--kubeconfig"}},
		"no contexts":   {cluster.Options{Kubeconfig: write("apiVersion: v1\nkind: Config\n")}, []string{"no context in", "--kubeconfig"}},
		"not YAML":      {cluster.Options{Kubeconfig: write("{")}, []string{"read kubeconfig", "kubectl config view"}},
		"near context":  {cluster.Options{Kubeconfig: clustertest.Kubeconfig(t), Context: c.Context() + "x"}, []string{"did you mean " + c.Context()}},
		"not reachable": {cluster.Options{Kubeconfig: write(closed)}, []string{"refused", "does the cluster run"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_, err := cluster.Connect(ctx, tc.o)
		cancel()
		if err == nil {
			t.Errorf("%s: connected", name)
			continue
		}
		clustertest.Contains(t, name+": "+err.Error()+"\n"+hint.Of(err), tc.words...)
	}
	config := c.Config()
	config.TLSClientConfig.CertData, config.TLSClientConfig.KeyData = nil, nil
	config.BearerToken = "wrong"
	wrong := must.Get(cluster.New(config, c.Context()))(t)
	_, err = wrong.Typed().CoreV1().Namespaces().List(clustertest.Within(t, 10*time.Second), metav1.ListOptions{})
	err = wrong.Explained("list namespaces", err)
	clustertest.Contains(t, err.Error()+"\n"+hint.Of(err), "nauthorized", "log in again", "--context "+c.Context())
}

func TestForward(t *testing.T) {
	c := clustertest.Connect(t)
	ns, s := clustertest.Namespace(t, c)
	ctx := clustertest.Within(t, 90*time.Second)
	// A server that answers each connection.
	serve := clustertest.Deployment(ns, func(_ *appsv1.Deployment, app *corev1.Container) {
		app.Command = []string{"sh", "-c", `printf 'HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello' > /tmp/answer; while true; do nc -l -p 8080 -e cat /tmp/answer; done`}
	})
	serve.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	serve.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
	ref, _ := cluster.RefOf(serve)
	must.OK(t, c.Apply(ctx, s, serve))
	must.OK(t, c.WaitReady(ctx, nil, ref))
	pods, err := c.Typed().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		t.Fatal(err)
	}
	f := c.Forward(ns, pods.Items[0].Name, 8080)
	defer f.Close()
	get := func(client *http.Client, url string) error {
		var last error
		for ctx.Err() == nil {
			r, err := client.Get(url)
			if err == nil {
				var b []byte
				b, err = io.ReadAll(r.Body)
				r.Body.Close()
				if err == nil && string(b) == "hello" {
					return nil
				}
			}
			last = err
			time.Sleep(300 * time.Millisecond)
		}
		return last
	}
	direct := &http.Client{Transport: &http.Transport{DialContext: f.DialContext, DisableKeepAlives: true}, Timeout: 30 * time.Second}
	must.OK(t, get(direct, "http://pod/"))
	closedPort := c.Forward(ns, pods.Items[0].Name, 9)
	defer closedPort.Close()
	conn := must.Get(closedPort.DialContext(ctx, "", ""))(t)
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a closed port: %v", err)
	}
	if _, err := c.Forward(ns, "no-such-pod", 80).DialContext(clustertest.Within(t, 5*time.Second), "", ""); err == nil {
		t.Error("a pod that does not exist was reached")
	} else {
		clustertest.Contains(t, err.Error(), "not found")
	}
	t.Run("API server stopped", func(t *testing.T) {
		stopAPIServer(t, 8*time.Second)
		if err := get(direct, "http://pod/"); err != nil {
			t.Errorf("not answered after the API server continued: %v", err)
		}
	})
}

func TestAPIServerStopped(t *testing.T) {
	c := clustertest.Connect(t)
	ns, s := clustertest.Namespace(t, c)
	ctx := clustertest.Within(t, 2*time.Minute)
	began := time.Now()
	stopAPIServer(t, 15*time.Second)
	var err error
	for end := began.Add(5 * time.Second); err == nil && time.Now().Before(end); { // its threads stop one by one
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err = c.Version(short)
		cancel()
	}
	if err == nil {
		t.Error("a stopped API server answered")
	} else {
		clustertest.Contains(t, err.Error()+hint.Of(err), "tried for", "does the cluster run")
	}
	d := clustertest.Deployment(ns, nil)
	ref, _ := cluster.RefOf(d)
	must.OK(t, c.Apply(ctx, s, d))
	must.OK(t, c.WaitReady(ctx, nil, ref))
	if gone := time.Since(began); gone < 10*time.Second {
		t.Errorf("the API server was stopped for %s only", gone)
	}
}
