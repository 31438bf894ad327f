package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// foreignObjects are the objects of an application that others wrote, by which its pods are recognised.
type foreignObjects struct {
	workloads []cluster.Ref
	jobs      []cluster.Ref
	templates []podTemplate
	services  map[string]map[string]string // selectors, by name
	added     map[string][]string          // containers that a variant adds, by kind and name of the workload
}

// podTemplate is the part of a pod template that identifies its pods.
type podTemplate struct {
	labels     map[string]string
	containers []string
	added      []string                       // those that a variant adds
	limits     map[string]corev1.ResourceList // by container
}

// add records a Service, or a workload and its pod template.
func (c *foreignObjects) add(o *unstructured.Unstructured, namespace string) {
	ref := cluster.Ref{Kind: o.GroupVersionKind(), Namespace: namespace, Name: o.GetName()}
	switch o.GetKind() {
	case cluster.KindService.Kind:
		selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
		c.services[o.GetName()] = selector
	case cluster.KindJob.Kind:
		c.jobs = append(c.jobs, ref)
	case cluster.KindPod.Kind:
		c.workloads = append(c.workloads, ref)
		c.addTemplate(o, o.Object)
	case cluster.KindDeployment.Kind, cluster.KindStatefulSet.Kind, cluster.KindDaemonSet.Kind:
		c.workloads = append(c.workloads, ref)
		if template, ok, _ := unstructured.NestedMap(o.Object, "spec", "template"); ok {
			c.addTemplate(o, template)
		}
	}
}

func (c *foreignObjects) addTemplate(of *unstructured.Unstructured, template map[string]any) {
	t := templateOf(template)
	t.added = c.added[workloadKey(of)]
	c.templates = append(c.templates, t)
}

// workloadKey identifies a workload among the objects of an application.
func workloadKey(o *unstructured.Unstructured) string { return o.GetKind() + "/" + o.GetName() }

func templateOf(o map[string]any) (t podTemplate) {
	t.labels, _, _ = unstructured.NestedStringMap(o, "metadata", "labels")
	for _, field := range []string{"initContainers", "containers"} {
		list, _, _ := unstructured.NestedSlice(o, "spec", field)
		for _, c := range list {
			if fields, ok := c.(map[string]any); ok {
				var one corev1.Container
				one.Name, _, _ = unstructured.NestedString(fields, "name")
				if resources, ok, _ := unstructured.NestedMap(fields, "resources"); ok {
					_ = runtime.DefaultUnstructuredConverter.FromUnstructured(resources, &one.Resources) // the API server refuses others
				}
				t.add(one)
			}
		}
	}
	return t
}

func (t *podTemplate) add(containers ...corev1.Container) {
	if t.limits == nil {
		t.limits = map[string]corev1.ResourceList{}
	}
	for _, c := range containers {
		t.containers = append(t.containers, c.Name)
		t.limits[c.Name] = c.Resources.Limits
	}
}

func (c *foreignObjects) template(pod *corev1.Pod) (podTemplate, bool) {
	i := slices.IndexFunc(c.templates, func(t podTemplate) bool { return selects(t.labels, pod.Labels) })
	if i < 0 {
		return podTemplate{}, false
	}
	return c.templates[i], true
}

// service returns the Service that selects a pod, from the topology if possible, or "".
func (c *foreignObjects) service(pod *corev1.Pod, topology app.Topology) string {
	for _, s := range topology.Services {
		if selects(c.services[s.Name], pod.Labels) {
			return s.Name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		if selects(c.services[name], pod.Labels) {
			return name
		}
	}
	return ""
}

// selects reports whether a label selector matches labels. An empty one matches nothing.
func selects(selector, labels map[string]string) bool {
	return len(selector) > 0 && has(labels, selector)
}
