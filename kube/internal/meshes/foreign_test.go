package meshes

import (
	"maps"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/must"
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
