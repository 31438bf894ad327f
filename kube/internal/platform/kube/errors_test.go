package kube

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/internal/meshes"
	"github.com/tare-mesh/tare/kube/internal/rbac"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// wantRefused deploys spec and checks that this fails, that error and hint contain the words, and that nothing remains.
func wantRefused(t *testing.T, p *Platform, spec platform.Spec, within time.Duration, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	_, err := p.Deploy(ctx, spec)
	wantError(t, err, words...)
	_, err = p.options.Cluster.Typed().CoreV1().Namespaces().Get(t.Context(), namespaceOf(p.options.Run, spec), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		t.Errorf("the namespace remains: %v", err)
	}
}

// wantError checks that err and its hint contain the words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	if advice := hint.Of(err); advice != "" {
		text += "\nhint: " + advice
	}
	t.Log(text)
	for _, w := range words {
		must.Contain(t, text, w)
	}
}

func TestImageMissing(t *testing.T) {
	p := newReal(t, sharedCluster(t), func(o *Options) { o.Image = "localhost/tare-agent:no-such-version" })
	wantRefused(t, p, platformtest.Spec(t, noMesh(t), 1, "echo"), 30*time.Second, "deployment", "echo: 0 of 1 replicas ready", "ErrImageNeverPull", "tare cluster image load")
}

// newBatches installs meshes with default settings.
func newBatches(c *cluster.Cluster) *meshes.Batches {
	return meshes.NewBatches(c, func(string) meshes.Choice { return meshes.Choice{} }, func(string) {})
}

// A mesh's manifests are applied before the pods: a quota for one pod stops the others.
func TestQuotaExceeded(t *testing.T) {
	m := mesh.Definition{Name: "narrow", Kubernetes: &mesh.Kubernetes{Enrolment: mesh.Enrolment{
		Manifests: []string{"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: narrow}\nspec: {hard: {pods: \"1\"}}\n"}}}}
	c := sharedCluster(t)
	p := newReal(t, c, func(o *Options) { o.Meshes = newBatches(c) })
	wantRefused(t, p, platformtest.Spec(t, m, 3, "echo"), 15*time.Second, "echo", "quota")
}

// asUser connects to the cluster as a user with only the granted RBAC permissions.
func asUser(t *testing.T, name string) *cluster.Cluster {
	t.Helper()
	config := must.Get(clientcmd.LoadFromFile(os.Getenv("TARE_TEST_KUBECONFIG")))(t)
	for _, user := range config.AuthInfos {
		user.Impersonate = name
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, clientcmd.WriteToFile(*config, path))
	return must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: path}))(t)
}

func TestPermissionsMissing(t *testing.T) {
	sharedCluster(t)
	p := New(Options{Cluster: asUser(t, "tare-test-nopermissions"), Run: RunID(t.Name(), t.TempDir()), Image: agentImage}, nil)
	_, err := p.Prepare(t.Context(), nil)
	wantError(t, err, "forbidden", "tare cluster rbac", "platform.inUse")
	p.options.InUse = true
	wantRefused(t, p, platformtest.Spec(t, noMesh(t), 1, "echo"), 30*time.Second, "namespace", "forbidden", "tare cluster rbac")
}

// A trial runs with only the RBAC permissions that `tare cluster rbac` prints.
func TestLeastPermissions(t *testing.T) {
	c := sharedCluster(t)
	var manifest bytes.Buffer
	const jo = "tare-test-jo"
	must.OK(t, rbac.Write(&manifest, "", rbac.Subject{Kind: "User", Name: jo}))
	kubectl(t, manifest.String(), "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, manifest.String(), "delete", "--ignore-not-found", "-f", "-") })
	p := newReal(t, c, func(o *Options) { o.Cluster = asUser(t, jo) })
	versions, err := p.Prepare(t.Context(), []mesh.Definition{noMesh(t)})
	if err != nil || !strings.HasPrefix(versions["kubernetes"], "v1.") {
		t.Fatalf("%v, %v", versions, err)
	}
	d := must.Get(p.Deploy(t.Context(), platformtest.Spec(t, noMesh(t), 1, "echo")))(t)
	checks, err := platformtest.Checks(d.Verify(t.Context(), platform.Probe{}))
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
	if err := errors.Join(err, d.Remove(t.Context())); err != nil {
		t.Error(err)
	}
}

func kubectl(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command(os.Getenv("TARE_TEST_KUBECTL"), append([]string{"--kubeconfig", os.Getenv("TARE_TEST_KUBECONFIG")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v: %s", args, err, out)
	}
}

// A cluster with a foreign workload is refused with its name, unless platform.inUse allows it.
func TestForeignWorkload(t *testing.T) {
	c := realCluster(t)
	zero := int64(0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "tare-test-shop-"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &zero,
		Containers:                    []corev1.Container{{Name: "shop", Image: agentImage, Args: []string{"serve"}, ImagePullPolicy: corev1.PullNever}}}}
	pod, err := c.Typed().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	must.OK(t, err)
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), nil, cluster.Ref{Kind: cluster.KindPod, Namespace: "default", Name: pod.Name}); err != nil {
			t.Error(err)
		}
	})
	p := newReal(t, c, func(o *Options) { o.InUse = false })
	_, err = p.Prepare(t.Context(), nil)
	wantError(t, err, "pod default/"+pod.Name, "tare cluster adopt", "platform.inUse: allow")
	if !errors.Is(err, guard.ErrInUse) {
		t.Errorf("%v is not ErrInUse", err)
	}
	p.options.InUse = true
	if _, err := p.Prepare(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// The removal of a namespace with a finalizer times out and names the finalizer. Without it the removal succeeds.
func TestStuckInDeletion(t *testing.T) {
	c := realCluster(t)
	d := must.Get(newReal(t, c, nil).deploy(t.Context(), platformtest.Spec(t, noMesh(t), 1, "echo")))(t)
	maps := c.Typed().CoreV1().ConfigMaps(d.namespace)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"tare.test/never-removed"}}}
	must.Get(maps.Create(t.Context(), held, metav1.CreateOptions{}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	wantError(t, d.Remove(ctx), "deletion of namespace "+d.namespace, "configmap "+d.namespace+"/held, held by finalizers tare.test/never-removed", "kubectl patch")
	must.Get(maps.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))(t)
	if err := d.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
