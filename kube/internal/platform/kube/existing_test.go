package kube

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/leftover"
	"github.com/tare-mesh/tare/kube/internal/rbac"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// makeNamespace makes a namespace of another user, with a pod and a Service, and a user with only the RBAC permissions that
// `tare cluster rbac --namespace` prints.
func makeNamespace(t *testing.T, c *cluster.Cluster) (namespace, user string) {
	t.Helper()
	namespace = "existing-" + strings.ToLower(rand.Text()[:8])
	user = "tare-test-" + namespace
	core, zero := c.Typed().CoreV1(), int64(0)
	must.Get(core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	clustertest.Removed(t, c, namespace)
	shop := metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"app": "shop", cluster.LabelManagedBy: cluster.ManagedBy}} // as an object of another tare
	_, err := core.Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: shop, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &zero,
		Containers: []corev1.Container{{Name: "app", Image: agentImage, Args: []string{"serve"}, ImagePullPolicy: corev1.PullNever}}}}, metav1.CreateOptions{})
	if err == nil {
		_, err = core.Services(namespace).Create(t.Context(), &corev1.Service{ObjectMeta: shop, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	}
	must.OK(t, err)
	var manifest bytes.Buffer
	must.OK(t, rbac.Write(&manifest, namespace, rbac.Subject{Kind: "User", Name: user}))
	kubectl(t, manifest.String(), "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, manifest.String(), "delete", "--ignore-not-found", "-f", "-") }) // a part of it is in no namespace
	return namespace, user
}

// Trials run in an existing namespace with only the RBAC permissions that `tare cluster rbac --namespace` prints, and with
// the configured resources. Their objects are removed, other users' objects remain.
func TestExistingNamespace(t *testing.T) {
	c := sharedCluster(t)
	namespace, user := makeNamespace(t, c)
	use := func(o *Options) {
		o.Cluster, o.Namespace = asUser(t, user), namespace
		o.Resources = map[string]experiment.Resources{"app": {Requests: experiment.Amounts{CPU: 0.02, Memory: 24 << 20}, Limits: experiment.Amounts{Memory: 128 << 20}}}
	}
	p := newReal(t, c, use)
	must.Get(p.Prepare(t.Context(), nil))(t)
	spec := platformtest.Spec(t, noMesh(t), 1, "front", "back")
	abandoned, err := p.deploy(t.Context(), spec)
	must.OK(t, err)
	checkResources(t, abandoned)

	// Another run is refused. The same run replaces its own leftovers.
	other := newReal(t, c, func(o *Options) { use(o); o.Run = RunID("another", t.TempDir()) })
	_, err = other.Prepare(t.Context(), nil)
	wantError(t, err, "namespace "+namespace+" holds objects of run "+p.options.Run, "deployment "+namespace+"/front", "tare cluster cleanup --namespace "+namespace)
	again := must.Get(p.deploy(t.Context(), spec))(t)
	checks, err := platformtest.Checks(again.verifier.Verify(t.Context(), platform.Probe{}))
	if err != nil || len(checks) == 0 {
		t.Fatal(checks, err)
	}
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
	checkPlanes(t, again, namespace)
	if err := again.Remove(t.Context()); err != nil {
		t.Error(err)
	}

	// A Service of another user is not replaced.
	spec.Topology.Services[0].Name, spec.Topology.Entry = "shop", "shop"
	_, err = p.Deploy(t.Context(), spec)
	wantError(t, err, "service "+namespace+"/shop", "not of this run", "rename the service")
	if left, err := leftover.Find(t.Context(), c, namespace); err != nil || len(left) > 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
	if _, err := c.Typed().CoreV1().Services(namespace).Get(t.Context(), "shop", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	pod, err := c.Typed().CoreV1().Pods(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp != nil {
		t.Errorf("the other user's pod: %v", err)
	}
}

// checkResources checks that the application has the configured resources, and the load the defaults.
func checkResources(t *testing.T, d *deployment) {
	t.Helper()
	for _, pod := range d.pods.all() {
		for _, container := range pod.Spec.Containers {
			want := "20m 24Mi 128Mi"
			if container.Name == loadContainer {
				want = "10m 16Mi 512Mi"
			}
			r := container.Resources
			got := r.Requests.Cpu().String() + " " + r.Requests.Memory().String() + " " + r.Limits.Memory().String()
			if got != want || !r.Limits.Cpu().IsZero() {
				t.Errorf("%s of %s has %s, want %s", container.Name, pod.Name, got, want)
			}
		}
	}
}

func checkPlanes(t *testing.T, d platform.Running, namespace string) {
	t.Helper()
	tasks := must.Get(d.Tasks(t.Context()))(t)
	planes := map[metric.Plane]int{}
	for _, task := range tasks {
		planes[task.Plane]++
		if task.Namespace != namespace {
			t.Errorf("a task of namespace %s", task.Namespace)
		}
		if shop := task.Pod == "shop"; shop != (task.Plane == metric.Foreign) {
			t.Errorf("%s has plane %s", task.ID, task.Plane)
		}
	}
	if planes[metric.App] != 2 || planes[metric.Load] != 1 || planes[metric.Foreign] != 1 {
		t.Errorf("%v", planes)
	}
}

// No default request exceeds a configured limit, and no default limit is below a configured request.
func TestResources(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		configured experiment.Resources
		want       string
	}{
		"nothing":                {experiment.Resources{}, "10m 16Mi 0 544Mi"},
		"all":                    {experiment.Resources{Requests: experiment.Amounts{CPU: 0.25, Memory: 64 * mib}, Limits: experiment.Amounts{CPU: 1.5, Memory: 128 * mib}}, "250m 64Mi 1500m 128Mi"},
		"a small limit":          {experiment.Resources{Limits: experiment.Amounts{CPU: 0.005, Memory: 8 * mib}}, "5m 8Mi 5m 8Mi"},
		"more than the default":  {experiment.Resources{Requests: experiment.Amounts{Memory: 1024 * mib}}, "10m 1Gi 0 1Gi"},
		"a third of a processor": {experiment.Resources{Requests: experiment.Amounts{CPU: 1.0 / 3}}, "333m 16Mi 0 544Mi"},
	} {
		m := manifests{&trial{options: &Options{Resources: map[string]experiment.Resources{"app": c.configured}}}}
		r := m.resources(appContainer, 32*mib)
		if got := r.Requests.Cpu().String() + " " + r.Requests.Memory().String() + " " + r.Limits.Cpu().String() + " " + r.Limits.Memory().String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if r := m.resources(loadContainer, 0); r.Requests.Cpu().String() != "10m" {
			t.Errorf("%s: the load requests %s", name, r.Requests.Cpu())
		}
	}
}

// The digests of a trial's images are archived as platform.digests takes them. Another digest is refused, and nothing remains.
func TestDigests(t *testing.T) {
	c := sharedCluster(t)
	spec := platformtest.Spec(t, noMesh(t), 1, "echo")
	spec.Provenance = t.TempDir()
	d := must.Get(newReal(t, c, nil).deploy(t.Context(), spec))(t)
	if err := d.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	text := must.Get(os.ReadFile(filepath.Join(spec.Provenance, imagesFile)))(t)
	digests := map[string]string{}
	if err := yaml.Unmarshal(text, &digests); err != nil || len(digests) != 1 || !strings.HasPrefix(digests[agentImage], "sha256:") {
		t.Fatalf("%v in\n%s", err, text)
	}
	spec.Provenance = ""
	required := newReal(t, c, func(o *Options) { o.Digests = digests })
	d = must.Get(required.deploy(t.Context(), spec))(t)
	if err := d.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	other := newReal(t, c, func(o *Options) { o.Digests = map[string]string{agentImage: "sha256:" + strings.Repeat("0", 64)} })
	wantRefused(t, other, spec, time.Minute, "image "+agentImage+" with digest "+digests[agentImage], "platform.digests requires sha256:000", "update platform.digests")
}
