package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// roleSystem is the role of the cluster's own containers that are known by their priority.
const roleSystem = "system"

// Tasks implements [platform.Running]: every container that runs in the cluster, and the load where it is sent from
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
		name, life := pod.Namespace+"/"+pod.Name, 1
		if d.isOwn(pod) {
			name, life = d.podLife(pod)
		}
		for _, container := range running(pod) {
			t := d.spec.Mesh.Attribute(mesh.Task{ID: lived(name+"/"+container, life), Namespace: pod.Namespace, Pod: pod.Name,
				Service: d.serviceOf(pod), Container: container, Labels: pod.Labels})
			t.Plane = d.planeOf(t.Plane, pod, container)
			t.Labels = nil // the rules have been asked: they would only swell the record
			tasks = append(tasks, platform.Task{Task: d.attribute(t, d.isOwn(pod), cluster.IsSystem(pod)), Restarted: life > 1})
		}
	}
	return append(tasks, d.outsideTasks()...), nil
}

// lived is the ID of a task in one of its lives: what one has used must not be taken for what another did.
func lived(id string, life int) string {
	if life == 1 {
		return id
	}
	return fmt.Sprintf("%s.%d", id, life)
}

// serviceOf is the service of the trial that a pod plays; empty where it is none of its pods.
func (d *deployment) serviceOf(pod *corev1.Pod) string {
	if !d.isOwn(pod) {
		return ""
	}
	if d.charted != nil && pod.Labels[labelService] == "" {
		return d.charted.service(pod, d.spec.Topology)
	}
	return pod.Labels[labelService]
}

// attribute mends what the rules cannot know: an application or a load that is not the trial's own is another run's, and a
// pod is the cluster's own by its priority too. What remains is unattributed, wherever it runs: it may be a part of
// the mesh that its definition does not know.
func (d *deployment) attribute(t mesh.Task, own, system bool) mesh.Task {
	switch {
	case !own && (t.Plane == metric.App || t.Plane == metric.Load):
		t.Plane, t.Role, t.Component = metric.Unattributed, "", ""
	case t.Plane == metric.Unattributed && system:
		t.Plane, t.Role = metric.Platform, roleSystem
	}
	return t
}
