package kube

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// Limits that the cluster sets, or lowers, fail the trial before its load. Of an application that others wrote they are a
// caution. The mesh's own containers have no manifest.
func TestLimitsOfCluster(t *testing.T) {
	of := func(cpu, memory string) corev1.ResourceRequirements {
		list := corev1.ResourceList{}
		if cpu != "" {
			list[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			list[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return corev1.ResourceRequirements{Limits: list}
	}
	for name, c := range map[string]struct {
		asked      experiment.Amounts // limits of the application
		app, load  corev1.ResourceRequirements
		shop       corev1.ResourceRequirements // of an application that others wrote
		ok         bool
		detail, by string
	}{
		"as applied":          {experiment.Amounts{}, of("", "512Mi"), of("", "512Mi"), of("1", ""), true, "3 pods have the limits of their manifests", ""},
		"a LimitRange":        {experiment.Amounts{}, of("20m", "512Mi"), of("20m", "512Mi"), of("1", ""), false, "not of the manifests: echo-0/app cpu 20m, load-0/load cpu 20m", "platform.resources"},
		"asked":               {experiment.Amounts{CPU: 0.02}, of("20m", "512Mi"), of("", "512Mi"), of("1", ""), true, "3 pods have", ""},
		"lowered":             {experiment.Amounts{CPU: 0.02}, of("10m", "64Mi"), of("", "512Mi"), of("1", ""), false, "echo-0/app cpu 10m, echo-0/app memory 64Mi", "LimitRange"},
		"raised":              {experiment.Amounts{CPU: 0.02}, of("2", "1Gi"), of("", "512Mi"), of("1", ""), true, "3 pods have", ""},
		"removed":             {experiment.Amounts{CPU: 0.02}, of("", ""), of("", ""), of("", ""), true, "3 pods have", ""},
		"of others, a policy": {experiment.Amounts{}, of("", "512Mi"), of("", "512Mi"), of("1", "32Mi"), true, "the cluster sets limits: web-a/shop memory 32Mi", "manifests"},
		"of others, and more": {experiment.Amounts{}, of("", "512Mi"), of("1", "512Mi"), of("500m", ""), false, "not of the manifests: load-0/load cpu 1, web-a/shop cpu 500m", "platform.resources"},
	} {
		template := &unstructured.Unstructured{Object: map[string]any{"kind": "Deployment", "spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "shop", "resources": map[string]any{"limits": map[string]any{"cpu": int64(1)}}}}}}}}}
		foreign := &foreignObjects{}
		foreign.add(template, "n")
		spec := platformtest.Spec(t, noMesh(t), 1, "echo")
		of := &trial{options: &Options{Workers: 1, Resources: map[string]experiment.Resources{"app": {Limits: c.asked}}}, namespace: "n", spec: spec, foreign: foreign}
		echo, load := podOf("n", "e", "echo"), podOf("n", "l", loadService)
		load.Annotations = map[string]string{indexAnnotation: "0"}
		shop := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web-a", Labels: map[string]string{"app": "web"}}}
		echo.Spec.Containers = []corev1.Container{{Name: appContainer, Resources: c.app}, {Name: "istio-proxy", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
		load.Spec.Containers = []corev1.Container{{Name: loadContainer, Resources: c.load}}
		shop.Spec.Containers = []corev1.Container{{Name: "shop", Resources: c.shop}}
		got := (&verifier{trial: of, pods: &trialPods{trial: of, store: storeOf(t, echo, load, shop)}}).checkLimits()
		if got.OK != c.ok || !strings.Contains(got.Detail, c.detail) || !strings.Contains(got.Hint, c.by) || c.by == "" && got.Hint != "" || got.OK && (got.Caution == "") != (got.Hint == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// On a cluster, the defaults of a LimitRange fail the verification, and pass once the file asks for them.
func TestLimitRange(t *testing.T) {
	c := sharedCluster(t)
	core, namespace := c.Typed().CoreV1(), "limited-"+strings.ToLower(rand.Text()[:8])
	must.Get(core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	clustertest.Removed(t, c, namespace)
	must.Get(core.LimitRanges(namespace).Create(t.Context(), &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")}}}}}, metav1.CreateOptions{}))(t)
	spec := platformtest.Spec(t, noMesh(t), 1, "echo")
	limits := func(o *Options) check.Check {
		p := newReal(t, c, func(to *Options) { to.Namespace, to.Resources = namespace, o.Resources })
		d := must.Get(p.deploy(t.Context(), spec))(t)
		checks, err := platformtest.Checks(d.verifier.Verify(t.Context(), platform.Probe{}))
		must.OK(t, err)
		must.OK(t, d.Remove(t.Context()))
		i := slices.IndexFunc(checks, func(c check.Check) bool { return c.Name == "limits" })
		if i < 0 {
			t.Fatalf("%+v", checks)
		}
		return checks[i]
	}
	if got := limits(&Options{}); got.OK || got.Detail != "not of the manifests: echo-0/app cpu 20m, load-0/load cpu 20m" {
		t.Errorf("%+v", got)
	}
	asked := experiment.Resources{Limits: experiment.Amounts{CPU: 0.5}}
	if got := limits(&Options{Resources: map[string]experiment.Resources{"app": asked, "load": asked}}); !got.OK || got.Caution != "" {
		t.Errorf("%+v", got)
	}
}
