package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/cluster"
	"github.com/tare-mesh/tare/internal/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/platform"
)

// roleSystem is the role of the cluster's own containers that are known by their priority.
const roleSystem = "system"

// Tasks implements [platform.Deployment]: every container that runs in the cluster, and the load where it is sent from
// here. tare itself runs elsewhere.
func (d *deployment) Tasks(ctx context.Context) ([]platform.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if d.pods == nil {
		return nil, nil
	}
	var tasks []platform.Task
	for _, pod := range d.pods.all() {
		name := pod.Namespace + "/" + pod.Name
		if pod.Namespace == d.namespace {
			name = d.podName(pod)
		}
		for _, container := range running(pod) {
			t := d.spec.Mesh.Attribute(mesh.Task{ID: name + "/" + container, Namespace: pod.Namespace, Pod: pod.Name,
				Service: d.serviceOf(pod), Container: container, Labels: pod.Labels})
			t.Labels = nil // the rules have been asked: they would only swell the record
			tasks = append(tasks, platform.Task{Task: d.attribute(t, cluster.IsSystem(pod))})
		}
	}
	return append(tasks, d.outsideTasks()...), nil
}

// serviceOf is the service of the trial that a pod plays; empty where it is none of its pods.
func (d *deployment) serviceOf(pod *corev1.Pod) string {
	if pod.Namespace != d.namespace {
		return ""
	}
	return pod.Labels[labelService]
}

// attribute mends what the rules cannot know: an application or a load of another namespace is another run's, and a
// pod is the cluster's own by its priority too. What remains is unattributed, wherever it runs: it may be a part of
// the mesh that its definition does not know.
func (d *deployment) attribute(t mesh.Task, system bool) mesh.Task {
	switch {
	case t.Namespace != d.namespace && (t.Plane == metric.App || t.Plane == metric.Load):
		t.Plane, t.Role, t.Component = metric.Unattributed, "", ""
	case t.Plane == metric.Unattributed && system:
		t.Plane, t.Role = metric.Platform, roleSystem
	}
	return t
}

// podName names a pod of the trial as people and results do: its service and a number that it keeps.
func (d *deployment) podName(pod *corev1.Pod) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	service := d.serviceOf(pod)
	if index, ok := pod.Annotations[indexAnnotation]; ok && service == loadService {
		return loadService + "-" + index
	}
	if service == "" {
		return pod.Name
	}
	known := d.numbers[service]
	i := slices.Index(known, pod.Name)
	if i < 0 {
		i = len(known)
		d.numbers[service] = append(known, pod.Name)
	}
	return fmt.Sprintf("%s-%d", service, i)
}
