package kube

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Background services are created before the application, without selectors, and change in turn. No controller of Kubernetes may
// manage their endpoints, and clean-up finds them by their labels.
func TestBackground(t *testing.T) {
	d := dryRunDeployment(t, 1, "", noMesh(t), "echo")
	if d.declare(&Platform{}).Background != nil {
		t.Error("background services are declared, and there are none")
	}
	d.spec.Treatment.Levels.BackgroundServices = 3
	if d.declare(&Platform{}).Background == nil {
		t.Error("background services are not declared")
	}
	before := len(d.cluster.Recorder().Steps())
	must.OK(t, d.background.create(t.Context()))
	must.OK(t, d.background.ChangeBackground(t.Context(), 5))
	var order, addresses []string
	for _, step := range d.cluster.Recorder().Steps()[before:] {
		if step.Manifest == nil {
			order = append(order, strings.Join(step.Command, " "))
			continue
		}
		order = append(order, step.Manifest.Ref.String())
		var service corev1.Service
		must.OK(t, yaml.Unmarshal(step.Manifest.YAML, &service))
		if service.Labels[cluster.LabelRun] != "test-1" || service.Labels[labelTrial] != "7" || service.Spec.Selector != nil {
			t.Errorf("%s", step.Manifest.YAML)
		}
		if service.Kind == "Service" {
			continue
		}
		var slice discoveryv1.EndpointSlice
		must.OK(t, yaml.Unmarshal(step.Manifest.YAML, &slice))
		if slice.Labels[discoveryv1.LabelManagedBy] != "tare" || slice.Labels[discoveryv1.LabelServiceName] != slice.Name {
			t.Errorf("labels of %s: %v", slice.Name, slice.Labels)
		}
		for _, e := range slice.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
	}
	var want []string
	for i := 1; i <= 3; i++ {
		want = append(want, fmt.Sprintf("service tare-test-1-7/background-%d", i), fmt.Sprintf("endpointslice tare-test-1-7/background-%d", i))
	}
	want = append(want, "background-2")
	for i, has := range want {
		if i >= len(order) || !strings.Contains(order[i], has) {
			t.Fatalf("got %q, want %q in each", order, want)
		}
	}
	if last := order[len(order)-1]; len(order) != len(want) || !strings.Contains(last, "198.18.0.5") || strings.Join(addresses, " ") != "198.18.0.0 198.18.0.0 198.18.0.0" {
		t.Errorf("addresses %v, then %q", addresses, last)
	}
}
