package meshes

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// The labels of a namespace follow from the selector of a webhook. The selectors are those of an Istio's injector.
func TestLeastLabels(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"{matchLabels: {istio-injection: enabled}}": {"istio-injection": "enabled"},
		"{matchExpressions: [{key: istio.io/rev, operator: In, values: [stable]}, {key: istio-injection, operator: DoesNotExist}]}": {"istio.io/rev": "stable"},
		"{matchExpressions: [{key: istio-injection, operator: DoesNotExist}, {key: istio.io/rev, operator: DoesNotExist}]}":         nil,
		"{matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: [b]}]}":                         nil, // selects none
		"{matchExpressions: [{key: a, operator: Exists}]}":                                                                          nil, // any value
	} {
		var hook admissionv1.MutatingWebhook
		must.OK(t, yaml.UnmarshalStrict([]byte("{name: a, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {}, namespaceSelector: "+text+"}"), &hook))
		if got := leastLabels(hook); !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestVersionOfWorkload(t *testing.T) {
	for text, want := range map[string]string{
		"{metadata: {labels: {app.kubernetes.io/version: 1.30.4}}, spec: {template: {spec: {containers: [{image: 'a:b'}]}}}}": "1.30.4",
		"{spec: {template: {spec: {containers: [{image: 'hub.test:5000/pilot:1.30.4-distroless@sha256:00'}]}}}}":              "1.30.4-distroless",
		"{spec: {template: {spec: {containers: [{image: 'hub.test:5000/pilot'}]}}}}":                                          "",
		"{spec: {}}": "",
	} {
		o := &unstructured.Unstructured{}
		must.OK(t, yaml.Unmarshal([]byte(text), &o.Object))
		if got := versionOfWorkload(o); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Of two revisions side by side, the file chooses one, by its name or by a tag: the labels of namespaces, the control plane and its
// version are those of that revision.
func TestRevisionsOfOthers(t *testing.T) {
	read := func(into any, text string) any {
		t.Helper()
		must.OK(t, yaml.Unmarshal([]byte(text), into))
		return into
	}
	deployment := func(name, revision, version string) any {
		return read(&appsv1.Deployment{}, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: "+name+", namespace: istio-system, labels: {app.kubernetes.io/version: "+version+
			"}}\nspec: {replicas: 1, template: {metadata: {labels: {app: istiod, istio.io/rev: "+revision+"}}}}")
	}
	service := func(name, revision string) any {
		return read(&corev1.Service{}, "apiVersion: v1\nkind: Service\nmetadata: {name: "+name+", namespace: istio-system}\nspec: {selector: {app: istiod, istio.io/rev: "+revision+"}}")
	}
	hook := func(label, service string) string {
		return "- {name: a, clientConfig: {service: {name: " + service + ", namespace: istio-system}}, namespaceSelector: {matchLabels: {istio.io/rev: " + label + "}}}\n"
	}
	const in = "/apis/apps/v1/namespaces/istio-system/deployments"
	old, other := deployment("istiod-1-29", "1-29", "1.29.4"), deployment("istiod-1-30", "1-30", "1.30.1")
	c := clustertest.Serve(t, map[string]any{
		"/api/v1":                        metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "services", Namespaced: true, Kind: "Service", Verbs: metav1.Verbs{"get"}}}},
		"/api/v1/namespaces/kube-system": corev1.Namespace{},
		in:                               appsv1.DeploymentList{Items: []appsv1.Deployment{*old.(*appsv1.Deployment), *other.(*appsv1.Deployment)}}, in + "/istiod-1-29": old, in + "/istiod-1-30": other,
		"/api/v1/namespaces/istio-system/services/istiod-1-29":                  service("istiod-1-29", "1-29"),
		"/api/v1/namespaces/istio-system/services/istiod-1-30":                  service("istiod-1-30", "1-30"),
		"/apis/autoscaling/v1/namespaces/istio-system/horizontalpodautoscalers": autoscalingv1.HorizontalPodAutoscalerList{},
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": read(&admissionv1.MutatingWebhookConfigurationList{},
			"items:\n- webhooks:\n  "+hook("1-29", "istiod-1-29")+"- webhooks:\n  "+hook("1-30", "istiod-1-30")+"- webhooks:\n  "+hook("canary", "istiod-1-30")),
	})
	istio := must.Get(mesh.Load("istio"))(t)
	for revision, want := range map[string]string{
		"1-29":   "1.29.4 istiod-1-29 istio.io/rev=1-29",
		"1-30":   "1.30.1 istiod-1-30 istio.io/rev=1-30",
		"canary": "1.30.1 istiod-1-30 istio.io/rev=canary",
		"":       "error: the webhooks of mesh istio select namespaces with istio.io/rev=1-29 or istio.io/rev=1-30 or istio.io/rev=canary",
		"1-31":   "error: mesh istio has no revision or revision tag 1-31",
	} {
		m := must.Get(New(c, istio, mesh.Settings{Revision: revision}, Options{}))(t)
		f, err := adopter{m.instance}.adopt(t.Context())
		got := fmt.Sprint("error: ", err)
		if err == nil {
			got = f.version + " " + m.k.Workloads[0].Name + " " + labels.Set(m.k.Enrolment.Namespace.Labels).String()
		}
		for of, left := range map[string]string{"1-29": "1-30", "1-30": "1-29", "canary": "1-29"} {
			if is := m.OtherRevision(labels.Set{"app": "istiod", "istio.io/rev": left, "pod-template-hash": "x"}); revision == of && !is {
				t.Errorf("revision %s: %s counts", revision, left)
			}
		}
		if m.OtherRevision(labels.Set{"app": "istiod", "istio.io/rev": map[string]string{"canary": "1-30"}[revision]}) {
			t.Errorf("revision %s does not count", revision)
		}
		if got != want || err == nil && len(m.k.Workloads) != 1 || err != nil && hint.Of(err) == "" {
			t.Errorf("revision %q: %s, want %s", revision, got, want)
		}
	}
	alone := clustertest.Serve(t, map[string]any{"/api/v1/namespaces/kube-system": corev1.Namespace{}, in: appsv1.DeploymentList{}})
	m := must.Get(New(alone, istio, mesh.Settings{Revision: "1-29"}, Options{}))(t)
	if _, err := (adopter{m.instance}).adopt(t.Context()); err == nil || !strings.Contains(err.Error(), "no control plane that tare did not install") {
		t.Errorf("without a mesh: %v", err)
	}
}
