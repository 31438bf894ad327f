package kube

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// chartSpec is a trial of the application in testdata/shop, a chart.
func chartSpec(t *testing.T, replicas int, values string) platform.Spec {
	t.Helper()
	spec := platformtest.Spec(t, noMesh(t), replicas, "cart", "prices")
	spec.Topology.Chart = &app.Chart{Chart: "testdata/shop", Release: "shop", Replicas: "replicas", Values: values}
	return spec
}

// An application from a chart is installed, attributed, verified and removed, with load from inside and outside.
func TestChart(t *testing.T) {
	c := sharedCluster(t)
	for name, edit := range map[string]func(*Options){"inside": nil, "outside": func(o *Options) { o.Outside, o.Agent = true, filepath.Join(testPrograms, "tare-agent") }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := "image: " + agentImage + "\ndelay: 0s\n"
			if name == "outside" {
				values += "type: NodePort\n"
			}
			spec := chartSpec(t, 2, values)
			d := must.Get(newReal(t, c, edit).deploy(t.Context(), spec))(t)
			platformtest.Removed(t, d)
			t.Log(d.Entry())
			if !strings.HasPrefix(d.Entry()[0], "http://cart."+d.namespace+".svc:80/") && name == "inside" {
				t.Errorf("%v", d.Entry())
			}
			platformtest.Verified(t, d.verifier.Verify)
			tasks := must.Get(d.Tasks(t.Context()))(t)
			var apps []string
			for _, task := range tasks {
				if task.Plane == metric.App {
					apps = append(apps, task.Service+" "+task.ID)
				} else if task.Plane == metric.Unattributed && task.Namespace == d.namespace { // others are of tests beside this one
					t.Errorf("unattributed: %+v", task)
				}
			}
			if got := strings.Join(apps, ", "); len(apps) != 4 || !strings.Contains(got, "cart cart-1/cart") || !strings.Contains(got, "prices prices-0/prices") {
				t.Errorf("applications: %s", got)
			}
			for file, want := range map[string]string{valuesFile: "delay: 0s", chartFile: "kind: Deployment"} {
				if b, err := os.ReadFile(filepath.Join(spec.Provenance, file)); err != nil || !strings.Contains(string(b), want) || !strings.HasPrefix(string(b), "# chart shop 0.3.0, application 7\n") {
					t.Errorf("%s: %s, %v", file, b, err)
				}
			}
			checkApplied(t, c, d, filepath.Join(spec.Provenance, chartFile))
		})
	}
}

// checkApplied checks that the archive lists the objects of the chart as they are in the cluster, hooks included, each
// with the label of the run.
func checkApplied(t *testing.T, c *cluster.Cluster, d *deployment, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	if strings.Contains(string(text), "postrender") {
		t.Errorf("the archive has annotations that are not applied:\n%s", text)
	}
	archived := map[string]bool{}
	err = eachObject(text, func(o *unstructured.Unstructured) error {
		archived[o.GetKind()+"/"+o.GetName()] = true
		got, err := c.Get(t.Context(), cluster.Ref{Kind: o.GroupVersionKind(), Namespace: d.namespace, Name: o.GetName()})
		if err != nil {
			return err
		}
		for name, value := range map[string]string{cluster.LabelRun: d.options.Run, labelTrial: "1"} {
			if got.GetLabels()[name] != value || o.GetLabels()[name] != value {
				t.Errorf("%s %s: label %s is %q, in the archive %q, want %q", o.GetKind(), o.GetName(), name, got.GetLabels()[name], o.GetLabels()[name], value)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if len(archived) != 7 || !archived["ConfigMap/prepared"] || archived["ClusterRole/shop-test"] {
		t.Errorf("archived: %v", archived)
	}
	for _, pod := range d.pods.all() {
		if pod.Labels[cluster.LabelRun] != d.options.Run {
			t.Errorf("pod %s has no label of the run", pod.Name)
		}
	}
}

// An unsupported chart is refused with the reason, and nothing remains.
func TestChartRefused(t *testing.T) {
	c := sharedCluster(t)
	t.Run("each", func(t *testing.T) {
		for name, x := range map[string]struct {
			values string
			change func(*app.Topology) // nil: none
			words  []string
		}{
			"beyond":     {"beyond: true", nil, []string{"chart shop has ClusterRole shop, outside the trial's namespace", "application.chart.values"}},
			"capability": {"outside: capability", nil, []string{"ClusterRole shop-capability, outside", "application.chart.values"}},
			"hook":       {"outside: hook", nil, []string{"ClusterRole shop-hook (hook pre-install, pre-upgrade), outside", "application.chart.values"}},
			"policy":     {"outside: policy", nil, []string{"ValidatingAdmissionPolicy shop-policy, outside", "application.chart.values"}},
			"list":       {"outside: list", nil, []string{"PriorityClass shop-list, outside", "application.chart.values"}},
			"unknown":    {"outside: unknown", nil, []string{"Cart shop-unknown: the cluster does not have the kind Cart of shop.test/v1", "custom resource definition"}},
			"image":      {"image: localhost/no-such:1", nil, []string{"cart: 0 of 1 replicas ready", "ErrImageNeverPull"}},
			"service":    {"", func(a *app.Topology) { a.Services[1].Name = "warehouse" }, []string{"no Service warehouse", "its Services are cart, prices"}},
			"no chart":   {"", func(a *app.Topology) { a.Chart.Chart = "testdata/no-such" }, []string{"find chart testdata/no-such", "oci://"}},
		} {
			t.Run(name, func(t *testing.T) {
				p := newReal(t, sharedCluster(t), nil)
				spec := chartSpec(t, 1, x.values)
				if x.change != nil {
					x.change(&spec.Topology)
				}
				wantRefused(t, p, spec, time.Minute, x.words...)
			})
		}
	})
	list := must.Get(c.Typed().RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{}))(t)
	for _, role := range list.Items {
		if strings.HasPrefix(role.Name, "shop") {
			t.Errorf("ClusterRole %s is left", role.Name)
		}
	}
	policies, err := c.Typed().AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(policies.Items) > 0 {
		t.Errorf("%v, %v", policies, err)
	}
}

// A dry run renders the chart without a cluster, with the values for several nodes.
func TestChartDryRun(t *testing.T) {
	record := &cluster.Recorder{}
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Recorder: record}))(t)
	spec := chartSpec(t, 3, "image: x")
	spec.Topology.Chart.Spread = "delay: 7ms"
	must.Get(New(Options{Cluster: c, Run: "test-1", Image: "localhost/tare-agent:test"}, []Node{{Schedulable: true}, {Schedulable: true}}).deploy(t.Context(), spec))(t)
	var b strings.Builder
	must.Get(record.WriteTo(&b))(t)
	must.Contain(t, b.String(), "replicas: 3", `"delay": "7ms"`, "kubectl apply -n tare-test-1-1")
}

// Results keep a chart's objects, but no value of a Secret. The object that is applied stays whole.
func TestSecretsAreNotRecorded(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "login"},
		"data": map[string]any{"password": "aHVudGVyMg=="}, "stringData": map[string]any{"token": "hunter2"},
	}}
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"}, "data": map[string]any{"level": "debug"},
	}}
	var kept, applied bytes.Buffer
	for _, o := range []*unstructured.Unstructured{secret, config} {
		must.OK(t, errors.Join(write(&kept, withoutSecrets(o)), write(&applied, o)))
	}
	for _, value := range []string{"aHVudGVyMg==", "hunter2"} {
		if strings.Contains(kept.String(), value) || !strings.Contains(applied.String(), value) {
			t.Errorf("value %q:\n%s\napplied:\n%s", value, kept.String(), applied.String())
		}
	}
	must.Contain(t, kept.String(), "password: not recorded (12 characters)", "token: not recorded (7 characters)", "level: debug")
}
