package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamls "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/kube/chart"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// defaultRelease and chartPort are those of a chart where the topology does not say.
const (
	defaultRelease = "app"
	chartPort      = 80
)

// Files in a trial's provenance directory, of a chart.
const (
	chartFile  = "chart.yaml" // what was applied
	valuesFile = "chart-values.yaml"
)

// charted is an application that was installed from a chart.
type charted struct {
	helm      *chart.Helm
	release   chart.Release
	workloads []cluster.Ref
	pods      []podTemplate
	services  map[string]map[string]string // selectors, by name
}

// podTemplate is what pods of the chart look like.
type podTemplate struct {
	labels     map[string]string
	containers []string
}

// makeChart installs the application's chart, which is refused where it would put anything outside of the trial's
// namespace: a run that is killed would leave it.
func (d *deployment) makeChart(ctx context.Context) error {
	c := d.spec.Topology.Chart
	if d.platform.given() {
		return &Error{fmt.Errorf("a chart: %w in a namespace that is given: what it makes is left there by a run that is killed", errors.ErrUnsupported), "leave platform.namespace out"}
	}
	if len(d.enrolment.Pod.Labels)+len(d.enrolment.Pod.Annotations) > 0 {
		return &Error{fmt.Errorf("mesh %s: %w for a chart: it marks each pod", d.spec.Mesh.Name, errors.ErrUnsupported), "only meshes that mark the namespace can be weighed with it"}
	}
	spread := d.platform.nodeCount() > 1 && d.platform.options.Affinity != affinityNone
	values, err := c.Given(max(1, d.spec.Treatment.Levels.Replicas), spread)
	if err != nil {
		return err
	}
	d.charted = &charted{helm: chart.New(d.cluster, d.platform.options.ChartCache), release: chart.Release{
		Name: cmp.Or(c.Release, defaultRelease), Namespace: d.namespace, Values: values,
		Source: chart.Source{Chart: c.Chart, Repo: c.Repo, Version: c.Version},
	}}
	rendered, err := d.charted.helm.Render(ctx, d.charted.release)
	if err != nil {
		return err
	}
	if err := d.charted.read(rendered, d.namespace); err != nil {
		return err
	}
	for _, s := range d.spec.Topology.Services {
		if _, ok := d.charted.services[s.Name]; !ok {
			return &Error{fmt.Errorf("chart %s makes no Service called %s", rendered.Chart, s.Name),
				"it makes " + strings.Join(slices.Sorted(maps.Keys(d.charted.services)), ", ")}
		}
	}
	if err := d.keepChart(rendered, values); err != nil {
		return err
	}
	if d.cluster.DryRun() {
		d.cluster.RecordManifest(cluster.Manifest{Ref: d.namespaceRef(), YAML: []byte(rendered.Manifest)}, "apply", "-n", d.namespace, "-f", "-")
		return nil
	}
	_, err = d.charted.helm.Install(ctx, d.charted.release)
	return err
}

// clusterKinds are those without a namespace that charts bring most.
var clusterKinds = []string{"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "MutatingWebhookConfiguration",
	"ValidatingWebhookConfiguration", "PriorityClass", "StorageClass", "PersistentVolume", "APIService", "GatewayClass", "IngressClass", "RuntimeClass"}

// read takes what is of use out of a rendered chart.
func (c *charted) read(rendered chart.Installed, namespace string) error {
	c.services = map[string]map[string]string{}
	documents := yamls.NewYAMLOrJSONDecoder(strings.NewReader(rendered.Manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what chart %s makes: %w", rendered.Chart, err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if slices.Contains(clusterKinds, o.GetKind()) || o.GetNamespace() != "" && o.GetNamespace() != namespace {
			return &Error{fmt.Errorf("chart %s makes %s %s, outside of the trial's namespace: %w", rendered.Chart, o.GetKind(), strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"), errors.ErrUnsupported),
				"switch it off by a value (application.chart.values): a run that is killed would leave it in the cluster"}
		}
		c.take(o, namespace)
	}
}

// take notes a Service, or a workload and what its pods look like.
func (c *charted) take(o *unstructured.Unstructured, namespace string) {
	ref := cluster.Ref{Kind: o.GroupVersionKind(), Namespace: namespace, Name: o.GetName()}
	switch o.GetKind() {
	case cluster.KindService.Kind:
		selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
		c.services[o.GetName()] = selector
	case cluster.KindPod.Kind:
		c.workloads = append(c.workloads, ref)
		c.pods = append(c.pods, templateOf(o.Object))
	case cluster.KindDeployment.Kind, cluster.KindStatefulSet.Kind, cluster.KindDaemonSet.Kind:
		c.workloads = append(c.workloads, ref)
		if template, ok, _ := unstructured.NestedMap(o.Object, "spec", "template"); ok {
			c.pods = append(c.pods, templateOf(template))
		}
	}
}

func templateOf(o map[string]any) (t podTemplate) {
	t.labels, _, _ = unstructured.NestedStringMap(o, "metadata", "labels")
	for _, field := range []string{"initContainers", "containers"} {
		list, _, _ := unstructured.NestedSlice(o, "spec", field)
		for _, c := range list {
			if one, ok := c.(map[string]any); ok {
				name, _, _ := unstructured.NestedString(one, "name")
				t.containers = append(t.containers, name)
			}
		}
	}
	return t
}

// within says that all labels of the first are among the second.
func within(want, has map[string]string) bool {
	for name, v := range want {
		if got, ok := has[name]; !ok || got != v {
			return false
		}
	}
	return len(want) > 0
}

// of is the template that a pod was made from.
func (c *charted) of(pod *corev1.Pod) (podTemplate, bool) {
	i := slices.IndexFunc(c.pods, func(t podTemplate) bool { return within(t.labels, pod.Labels) })
	if i < 0 {
		return podTemplate{}, false
	}
	return c.pods[i], true
}

// service is the one that a pod stands behind, those of the topology first.
func (c *charted) service(pod *corev1.Pod, topology app.Topology) string {
	for _, s := range topology.Services {
		if within(c.services[s.Name], pod.Labels) {
			return s.Name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		if within(c.services[name], pod.Labels) {
			return name
		}
	}
	return ""
}

// isApp says that a container is one of the chart's own.
func (d *deployment) isApp(pod *corev1.Pod, container string) bool {
	if d.charted == nil || !d.isOwn(pod) {
		return false
	}
	t, ok := d.charted.of(pod)
	return ok && slices.Contains(t.containers, container)
}

// planeOf is that of a container the mesh's rules do not know: the application's where the chart made it.
func (d *deployment) planeOf(plane metric.Plane, pod *corev1.Pod, container string) metric.Plane {
	if plane == metric.Unattributed && d.isApp(pod, container) {
		return metric.App
	}
	return plane
}

// keepChart keeps what is applied, and the values it was made with.
func (d *deployment) keepChart(rendered chart.Installed, values map[string]any) error {
	if d.spec.Provenance == "" {
		return nil
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("keep the chart's values: %w", err)
	}
	head := fmt.Sprintf("# chart %s %s, application %s\n", rendered.Chart, rendered.Version, rendered.AppVersion)
	for name, content := range map[string][]byte{valuesFile: append([]byte(head), text...), chartFile: append([]byte(head), bytes.TrimSpace([]byte(rendered.Manifest))...)} {
		if err := os.WriteFile(filepath.Join(d.spec.Provenance, name), append(content, '\n'), 0o600); err != nil {
			return fmt.Errorf("keep the chart: %w", err)
		}
	}
	return nil
}

// removeChart uninstalls the release; what else it made goes with the namespace.
func (d *deployment) removeChart(ctx context.Context) error {
	if d.charted == nil || d.cluster.DryRun() {
		return nil
	}
	return d.charted.helm.Uninstall(ctx, d.namespace, d.charted.release.Name)
}

// entryPortOf is that of the entry's Service.
func entryPortOf(spec platform.Spec) int {
	if c := spec.Topology.Chart; c != nil {
		return cmp.Or(c.Port, chartPort)
	}
	return servicePort
}
