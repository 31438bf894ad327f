package cluster

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
)

func asError[T any](err error, target *T) bool { return errors.As(err, target) }

func TestApplyWaitDelete(t *testing.T) {
	c := connect(t)
	ns, s := space(t, c)
	var kept []Manifest
	s.Archive = func(m Manifest) error { kept = append(kept, m); return nil }
	s.Labels = map[string]string{"tare.dev/trial": "1"}
	ctx := within(t, 2*time.Minute)
	d := echo(ns, nil)
	for range 2 { // what is there already is no error
		if err := c.Apply(ctx, s, d); err != nil {
			t.Fatal(err)
		}
	}
	ref, err := RefOf(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx, nil, ref); err != nil {
		t.Fatal(err)
	}
	pods, err := c.Typed().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: LabelRun + "=" + s.Run + ",tare.dev/trial=1"})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("%d pods carry the run's labels, %v", len(pods.Items), err)
	}
	got, err := c.Get(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	if got.GetLabels()[LabelManagedBy] != ManagedBy || !strings.Contains(got.GetAnnotations()[AnnotationOwner], `"pid"`) {
		t.Errorf("labels %v, annotations %v", got.GetLabels(), got.GetAnnotations())
	}
	if len(kept) != 2 || kept[0].Ref != ref {
		t.Fatalf("kept %+v", kept)
	}
	says(t, string(kept[0].YAML), "kind: Deployment", "image: "+toolbox, LabelRun+": "+s.Run)
	if err := c.Delete(ctx, nil, ref, ref); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, ref); !IsNotFound(err) {
		t.Errorf("after deletion: %v", err)
	}
	if pods, err := c.Typed().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{}); err != nil || len(pods.Items) != 0 {
		t.Errorf("%d pods outlive their deployment, %v", len(pods.Items), err)
	}
}

func TestNodesAreRead(t *testing.T) {
	c := connect(t)
	ctx := within(t, time.Minute)
	nodes, err := c.Typed().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for path, word := range map[string]string{"stats/summary": "usageCoreNanoSeconds", "metrics/resource": "container_cpu_usage_seconds_total"} {
		b, err := c.NodeRead(ctx, nodes.Items[0].Name, path)
		if err != nil || !strings.Contains(string(b), word) {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
	if _, err := c.NodeStats(ctx, "no-such-node"); err == nil || IsTransient(err) {
		t.Errorf("a node that is not there: %v", err)
	}
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	good, err := os.ReadFile(realKubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t)
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	closed := strings.ReplaceAll(string(good), ":6443", ":6444")
	for name, tc := range map[string]struct {
		o     Options
		words []string
	}{
		"no file":      {Options{Kubeconfig: filepath.Join(t.TempDir(), "none")}, []string{"no such file", "--kubeconfig"}},
		"no contexts":  {Options{Kubeconfig: write("apiVersion: v1\nkind: Config\n")}, []string{"no context in", "--kubeconfig"}},
		"not YAML":     {Options{Kubeconfig: write("{")}, []string{"read kubeconfig", "kubectl config view"}},
		"near context": {Options{Kubeconfig: realKubeconfig(t), Context: c.Context() + "x"}, []string{"did you mean " + c.Context()}},
		"nobody there": {Options{Kubeconfig: write(closed)}, []string{"refused", "does the cluster run"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_, err := Connect(ctx, tc.o)
		cancel()
		if err == nil {
			t.Errorf("%s: connected", name)
			continue
		}
		says(t, name+": "+err.Error()+"\n"+hintOf(err), tc.words...)
	}
	config := c.Config()
	config.TLSClientConfig.CertData, config.TLSClientConfig.KeyData = nil, nil
	config.BearerToken = "wrong"
	stranger, err := newCluster(config, c.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = stranger.Typed().CoreV1().Namespaces().List(within(t, 10*time.Second), metav1.ListOptions{})
	err = stranger.explained("list namespaces", err)
	says(t, err.Error()+"\n"+hintOf(err), "nauthorized", "log in again", "--context "+c.Context())
}

func TestForward(t *testing.T) {
	c := connect(t)
	ns, s := space(t, c)
	ctx := within(t, 90*time.Second)
	// A server that answers each connection.
	serve := echo(ns, func(_ *appsv1.Deployment, app *corev1.Container) {
		app.Command = []string{"sh", "-c", `printf 'HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello' > /tmp/answer; while true; do nc -l -p 8080 -e cat /tmp/answer; done`}
	})
	serve.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	serve.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
	ref, _ := RefOf(serve)
	if err := c.Apply(ctx, s, serve); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx, nil, ref); err != nil {
		t.Fatal(err)
	}
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
			if sleep(ctx, 300*time.Millisecond) != nil {
				break
			}
		}
		return last
	}
	direct := &http.Client{Transport: &http.Transport{DialContext: f.DialContext, DisableKeepAlives: true}, Timeout: 30 * time.Second}
	if err := get(direct, "http://pod/"); err != nil {
		t.Fatal(err)
	}
	address, err := f.Listen()
	if err != nil {
		t.Fatal(err)
	}
	local := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	if err := get(local, "http://"+address+"/"); err != nil {
		t.Fatal(err)
	}
	nobody := c.Forward(ns, pods.Items[0].Name, 9)
	defer nobody.Close()
	conn, err := nobody.DialContext(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
	if _, err := c.Forward(ns, "no-such-pod", 80).DialContext(within(t, 5*time.Second), "", ""); err == nil {
		t.Error("a pod that is not there was reached")
	} else {
		says(t, err.Error(), "not found")
	}
	t.Run("API server stopped", func(t *testing.T) {
		stopAPIServer(t, 8*time.Second)
		if err := get(direct, "http://pod/"); err != nil {
			t.Errorf("did not survive: %v", err)
		}
	})
}

func TestAPIServerStopped(t *testing.T) {
	c := connect(t)
	ns, s := space(t, c)
	ctx := within(t, 2*time.Minute)
	began := time.Now()
	stopAPIServer(t, 15*time.Second)
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := c.Version(short); err == nil {
		t.Error("a stopped API server answered")
	} else {
		says(t, err.Error()+hintOf(err), "tried for", "does the cluster run")
	}
	d := echo(ns, nil)
	ref, _ := RefOf(d)
	if err := c.Apply(ctx, s, d); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx, nil, ref); err != nil {
		t.Fatal(err)
	}
	if gone := time.Since(began); gone < 10*time.Second {
		t.Errorf("the API server was away for %s only", gone)
	}
}
