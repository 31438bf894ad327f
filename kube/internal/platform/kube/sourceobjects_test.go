package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// shopObjects are a Service and a Deployment of a namespace "store", a Job, and more objects.
func shopObjects(t *testing.T, more string) *manifest.Set {
	t.Helper()
	objects := must.Get(manifest.Parse("shop.yaml", []byte(`apiVersion: v1
kind: Service
metadata: {name: cart, namespace: store}
spec: {type: NodePort, selector: {app: cart}, ports: [{name: http, port: 80, targetPort: 8000, nodePort: 30999}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: store}
spec:
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}}
    spec: {containers: [{name: cart, image: x, env: [{name: SELF, value: "http://cart.store:80"}]}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: fill}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: fill, image: x}]}}}
`+more)))(t)
	return must.Get(manifest.New("./k8s", objects, false))(t)
}

func sourceSpec(t *testing.T, m mesh.Definition, set *manifest.Set) platform.Spec {
	t.Helper()
	spec := platformtest.Spec(t, m, 1, "cart")
	spec.Topology.Source = app.Source{Manifests: []string{"k8s"}, Objects: set}
	spec.Topology.Services[0].Port = 80
	return spec
}

// notInstalled are meshes whose definitions alone are used.
type notInstalled struct{}

func (notInstalled) Ready(context.Context, mesh.Definition, bool) (*meshes.Batch, error) {
	return nil, errors.ErrUnsupported
}

func (notInstalled) Foreign(context.Context, []mesh.Definition) ([]string, error) { return nil, nil }

// Objects of manifests are applied in the trial's namespace with the run's label. A mesh that marks each pod marks those
// that serve, and no Job.
func TestSourceObjects(t *testing.T) {
	consul := must.Get(mesh.Load("consul"))(t)
	for name, m := range map[string]mesh.Definition{"none": noMesh(t), "consul": consul} {
		record := &cluster.Recorder{}
		c := must.Get(cluster.Connect(t.Context(), cluster.Options{Recorder: record}))(t)
		e := must.Get(enrol(&Options{Meshes: notInstalled{}}, m, "tare-test-1-1", sampleFront))(t)
		set := shopObjects(t, "")
		tr := &trial{options: &Options{Run: "test-1"}, cluster: c, spec: sourceSpec(t, m, set), namespace: "tare-test-1-1", enrolment: e}
		a := &applier{trial: tr}
		must.OK(t, (&sourceObjects{tr, a}).install(t.Context()))
		var b strings.Builder
		must.Get(record.WriteTo(&b))(t)
		found := map[string]*unstructured.Unstructured{}
		must.OK(t, eachObject([]byte(b.String()), func(o *unstructured.Unstructured) error { found[o.GetKind()] = o; return nil }))
		for kind, o := range found {
			if o.GetNamespace() != "tare-test-1-1" || o.GetLabels()[cluster.LabelRun] != "test-1" || o.GetLabels()[cluster.LabelManagedBy] != "" {
				t.Errorf("%s: %v", kind, o.Object["metadata"])
			}
		}
		if len(found) != 3 || !strings.Contains(b.String(), "http://cart.tare-test-1-1:80") || strings.Contains(b.String(), "30999") {
			t.Errorf("%s", b.String())
		}
		marked := strings.Count(b.String(), "connect-inject")
		if want := map[string]int{"none": 0, "consul": 1}[name]; marked != want {
			t.Errorf("%s: %d marks in\n%s", name, marked, b.String())
		}
		if _, is, _ := unstructured.NestedMap(found["Deployment"].Object, "spec", "template", "metadata", "annotations"); is != (name == "consul") {
			t.Errorf("%s: %v", name, found["Deployment"].Object)
		}
		if len(tr.foreign.jobs) != 1 || len(tr.foreign.workloads) != 1 || tr.foreign.services["cart"]["app"] != "cart" {
			t.Errorf("%+v", tr.foreign)
		}
	}
}

// Objects beyond the trial's namespace, of unknown kinds, without a Service or that were not read are refused before the
// first is applied.
func TestSourceObjectsRefused(t *testing.T) {
	p := newReal(t, sharedCluster(t), nil)
	const outside = "---\napiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: FlowSchema\nmetadata: {name: tare-test-shop}\n"
	wantRefused(t, p, sourceSpec(t, noMesh(t), shopObjects(t, outside)), time.Minute, "./k8s has FlowSchema tare-test-shop, outside the trial's namespace", "remove it from the manifests")
	const unknown = "---\napiVersion: shop.test/v1\nkind: Cart\nmetadata: {name: a}\n"
	wantRefused(t, p, sourceSpec(t, noMesh(t), shopObjects(t, unknown)), time.Minute, "Cart a: the cluster does not have the kind Cart", "custom resource definition")
	spec := sourceSpec(t, noMesh(t), shopObjects(t, ""))
	spec.Topology.Services = slices.Clone(spec.Topology.Services)
	spec.Topology.Services[0].Name, spec.Topology.Entry = "warehouse", "warehouse"
	wantRefused(t, p, spec, time.Minute, "./k8s has no Service warehouse", "its Services are cart")
	wantRefused(t, p, sourceSpec(t, noMesh(t), nil), time.Minute, experiment.ErrNoObjects.Error(), "")
}
